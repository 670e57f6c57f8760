"""A transaction: how changes go into LMDB."""

from pathlib import Path
from typing import Any

import lmdb

from arneb_core.api.entries.position import position_at
from arneb_core.store.commit.transaction import Transaction
from arneb_core.store.format.bodies import Encoded, encode_runs
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table, TopicId


class Watched:
    """A transaction that notes what is left of ``encoded`` at each put."""

    def __init__(self, txn: Any, encoded: Encoded) -> None:
        self._txn = txn
        self._encoded = encoded
        self.left: list[int] = []

    def put(self, key: bytes, value: bytes, **options: Any) -> bool:
        self.left.append(len(self._encoded.blocks))
        stored: bool = self._txn.put(key, value, **options)
        return stored


def test_a_block_is_freed_once_lmdb_has_a_copy(tmp_path: Path) -> None:
    """Otherwise a takeover of 2 MiB would take twice as much memory at its end."""
    runs = [(TopicId(number), position_at(1, 0), [b"entry"]) for number in range(1, 5)]
    encoded = encode_runs(runs, [])
    written = dict(encoded.blocks)
    with lmdb.open(str(tmp_path), max_dbs=1) as env:
        entries = env.open_db(b"entries")
        with env.begin(write=True, buffers=True) as txn:
            watched = Watched(txn, encoded)
            Transaction(watched, {Table.ENTRIES: entries}).apply(Changes(), encoded)  # type: ignore[arg-type]
        assert watched.left == [3, 2, 1, 0]
        with env.begin(db=entries) as txn:
            assert dict(txn.cursor()) == written
