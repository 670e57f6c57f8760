"""The journal's file: commits that are on disk and not yet in LMDB, or only in memory.

The rule: a record counts if its bytes pass their checks; who writes when is decided in ``commit``.

Read in this order: ``record`` (a commit in the file), ``slots`` (the former layout), ``writing``,
``file_bytes`` and ``file`` (what a start finds), ``reader`` (beside a broker in another process),
``overlay`` and ``reconciliation`` (laid over what LMDB has), ``held_commits`` (commits durable
elsewhere), ``damaged_journal`` (a damaged journal, kept).
"""
