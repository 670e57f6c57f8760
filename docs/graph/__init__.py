"""Who imports whom, drawn from the code: ``python -m docs.graph [--check]`` writes
``docs/graph.svg``.

The rule: what is drawn is what the code says, imports inside functions and for type checkers
included, and arrows only point down. Where the code has a circle there is no such drawing, and
this fails; that no module takes part in one is checked by ``make check``.
"""
