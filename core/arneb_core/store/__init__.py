"""The store: one LMDB environment per data directory, and the only package that knows LMDB.

Read in this order: ``schema`` and ``records`` (what is on disk), ``block`` (runs of entries),
``changes`` (what a commit takes), ``environment`` (the :class:`Store`), ``snapshot`` (reading,
from other processes too), ``check`` (the fsck). The journal: ``commit_record``, ``journal_file``,
``journal``, ``fitting``, ``journal_recovery``. ``directory``, ``opening``, ``room``,
``page_release`` and ``long_keys`` each take one worry off ``environment``.
"""

from arneb_core.store.block import BlockCorrupt
from arneb_core.store.changes import Block, Changes, CommitReport, Trim
from arneb_core.store.environment import Store, StoreStatistics
from arneb_core.store.schema import SubscriptionId, Table, TopicId
from arneb_core.store.snapshot import Snapshot, SnapshotEnvironment, open_snapshot_environment

__all__ = [
    "Block",
    "BlockCorrupt",
    "Changes",
    "CommitReport",
    "Snapshot",
    "SnapshotEnvironment",
    "Store",
    "StoreStatistics",
    "SubscriptionId",
    "Table",
    "TopicId",
    "Trim",
    "open_snapshot_environment",
]
