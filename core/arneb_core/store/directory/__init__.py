"""The data directory: who may write to it, and how a whole one is made or replaces another.

The rule: a directory is whole under its name or not there; a kill leaves the old or the new one.

Read in this order: ``directory`` (whose it is), ``atomic_directory`` (made beside its place),
``replacement`` (of one store by another), ``copying`` and ``compacting`` (the store rewritten).
"""
