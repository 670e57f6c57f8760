"""The salvage: a damaged data directory in, a new one out.

The rule: the damaged one is only read, and what is left out is reported.

Read in this order: ``salvaging`` (the whole procedure), ``scan`` (rows that can still be found),
``salvaged_log``, ``salvaged_blocks`` and ``salvaged_cursor`` (what is whole of each), ``salvage``
(the new store's contents).
"""
