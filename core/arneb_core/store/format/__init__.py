"""The format: what of the store is on disk as bytes, and what a commit adds to it.

The rule: bytes in, values out, and the other way; nothing here opens a file or knows LMDB.

Read in this order: ``schema`` (tables and keys) and ``records`` (values), ``block`` and ``bodies``
(entries), ``delayed_rows``, ``long_keys``, ``changes`` (what a commit takes) and ``commit_record``
(the same as bytes that prove themselves).
"""
