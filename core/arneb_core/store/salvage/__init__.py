"""The salvage: makes a new data directory from a damaged one.

The rule: the damaged directory is only read, and whatever is left out is reported.

Read in this order: ``salvaging`` (the whole procedure), ``scan`` (rows that can still be found),
``salvaged_log``, ``salvaged_blocks`` and ``salvaged_cursor`` (what is intact of each), ``salvage``
(the new store's contents).
"""
