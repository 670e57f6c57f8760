"""The store: one LMDB environment per data directory, and the only package that knows LMDB.

Read in this order: ``schema`` and ``records`` (what is on disk), ``block`` (runs of entries),
``changes`` (what a commit takes), ``environment`` (the :class:`Store`), ``snapshot`` (reading,
from other processes too), ``check`` (the fsck). The journal: ``commit_record``, ``journal_file``,
``journal``, ``fitting``, ``journal_recovery``. ``directory``, ``opening``, ``room``,
``page_release`` and ``long_keys`` each take one worry off ``environment``.

Nothing is imported here: readers of blocks that came by another way do without LMDB.
"""
