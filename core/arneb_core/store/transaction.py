"""A transaction: one write transaction of LMDB, and how changes go into it.

The rule: nothing here commits or gives up; an exception leaves that to whoever opened the
transaction, and then all of it is as if it had never been.
"""

import time
from typing import Final

import lmdb

from arneb_core.position import Position
from arneb_core.store.block import BlockCorrupt, block_span, encode_block, split_run
from arneb_core.store.changes import Block, Changes, Trim
from arneb_core.store.long_keys import HEAD_BYTES, is_long, shorten, wrap
from arneb_core.store.opening import Tables
from arneb_core.store.records import pack_long, pack_trims
from arneb_core.store.schema import META_JOURNAL, META_TRIMS, Table, entry_key

TRIM_BLOCKS_MAX: Final = 2_000
TRIM_S_MAX: Final = 0.02
"""What one commit may delete, so that nobody waits for somebody else's old entries."""

EncodedBlocks = list[tuple[bytes, bytearray]]
"""Keys and values of ENTRIES."""


def encode_blocks(runs: list[Block]) -> EncodedBlocks:
    """Runs as blocks; done before the transaction begins."""
    return [
        (entry_key(topic_id, Position(place + len(part) - 1)), encode_block(place, part))
        for topic_id, first, entries in runs
        for place, part in split_run(first, entries)
    ]


class Transaction:
    """A write transaction under way."""

    __slots__ = ("_tables", "_txn")

    def __init__(self, txn: "lmdb.Transaction[bytes]", tables: Tables) -> None:
        self._txn = txn
        self._tables = tables

    def apply(self, changes: Changes, blocks: EncodedBlocks) -> None:
        """Everything but the trims, in the order that :class:`Changes` promises."""
        txn, tables = self._txn, self._tables
        for table, key in changes.deletes:
            txn.delete(shorten(key), db=tables[table])
        for table, key, value in changes.puts:
            if value is None:
                txn.delete(shorten(key), db=tables[table])
            else:
                stored = wrap(key, value) if is_long(key) else value
                txn.put(shorten(key), stored, db=tables[table])
        entries = tables[Table.ENTRIES]
        for key, block in blocks:
            fresh = txn.put(key, block, overwrite=False, db=entries)
            assert fresh, f"a block is there already under key {key.hex()}"
        for table, prefix in changes.prefixes:
            self._delete_prefix(table, prefix)

    def trim(self, trims: list[Trim]) -> tuple[int, list[Trim]]:
        """Delete blocks within the bounds of one commit; how many, and the trims left."""
        cursor = self._txn.cursor(self._tables[Table.ENTRIES])
        deadline = time.monotonic() + TRIM_S_MAX
        trimmed = 0
        for index, (topic_id, first, last) in enumerate(trims):
            end = entry_key(topic_id, last)
            more = cursor.set_range(entry_key(topic_id, first))
            # Only the first block may begin before the range.
            if more and cursor.key() <= end and _begins_before(cursor.value(), first):
                more = cursor.next()
            while more and cursor.key() <= end:
                if trimmed >= TRIM_BLOCKS_MAX or (trimmed and time.monotonic() > deadline):
                    return trimmed, trims[index:]
                cursor.delete()  # moves on to the next block
                trimmed += 1
                more = bool(cursor.key())
        return trimmed, []

    def remember_trims(self, trims: list[Trim]) -> None:
        """Keep the trims that are left, so that a restart goes on with them."""
        meta = self._tables[Table.META]
        if trims:
            self._txn.put(META_TRIMS, pack_trims(trims), db=meta)
        else:
            self._txn.delete(META_TRIMS, db=meta)

    def remember_journal(self, number: int) -> None:
        """Keep the number of the last journal record whose run is here now."""
        self._txn.put(META_JOURNAL, pack_long(number), db=self._tables[Table.META])

    def _delete_prefix(self, table: Table, prefix: bytes) -> None:
        assert prefix, f"expected a prefix, got none: that would empty {table.name}"
        assert len(prefix) <= HEAD_BYTES, f"expected a prefix of at most {HEAD_BYTES} bytes"
        cursor = self._txn.cursor(self._tables[table])
        more = cursor.set_range(prefix)
        while more and cursor.key().startswith(prefix):
            cursor.delete()
            more = bool(cursor.key())


def _begins_before(block: bytes, first: Position) -> bool:
    try:
        return block_span(block)[0] < first
    except BlockCorrupt:
        return False  # old and unreadable: let it go rather than fail every commit
