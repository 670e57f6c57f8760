"""The format: the bytes of the store on disk, and what a commit adds to them.

The rule: bytes to values and back; nothing here opens a file or knows LMDB.

Read in this order: ``schema`` (tables and keys) and ``records`` (values), ``block`` and ``bodies``
(entries), ``delayed_rows``, ``long_keys``, ``changes`` (the input of a commit) and
``commit_record`` (the same as bytes with a checksum).
"""
