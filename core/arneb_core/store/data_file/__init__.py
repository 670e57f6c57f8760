"""The data file: LMDB's file, and the environment that is open on it.

The rule: nothing is mapped before its pages were looked at without LMDB, so a damaged file is
refused and ends no process.

Read in this order: ``pages``, ``page_walk`` and ``meta_pages`` (the file without LMDB),
``store_file`` (is it ours, and whole), ``opening`` and ``creating``, ``live`` (open, and opened
again), then what each takes one worry off it: ``room``, ``page_release``, ``reader_slots``,
``readers``.
"""
