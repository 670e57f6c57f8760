"""How a commit becomes durable.

The rule: a running broker writes to its store only here. Others give :class:`.Changes` to a
:class:`.CommitLog`, which reports the outcome.
"""
