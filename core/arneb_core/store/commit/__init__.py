"""How a commit becomes durable: the only part of the project that knows.

The rule: everybody else hands :class:`.Changes` to a :class:`.CommitLog` and is told the outcome.
"""
