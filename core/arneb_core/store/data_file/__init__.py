"""The data file: LMDB's file, and the environment open on it.

The rule: the file is mapped only after its pages were checked without LMDB, so a damaged file is
refused and crashes no process.

Read in this order: ``pages``, ``page_walk`` and ``meta_pages`` (the file without LMDB),
``store_file`` (is it ours, and whole), ``opening`` and ``creating``, ``live`` (open, and opened
again), then one module for each of its concerns: ``room``, ``page_release``, ``reader_slots``,
``readers``.
"""
