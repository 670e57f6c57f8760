"""A transaction: one write transaction of LMDB, and how changes go into it.

The rule: nothing here commits or aborts. An exception leaves that to the opener of the transaction,
and then nothing of it has happened.
"""

import time
from collections import Counter
from typing import Final

import lmdb

from arneb_core.api.entries.position import Position
from arneb_core.store.data_file.opening import Tables
from arneb_core.store.format.block import (
    HEADER_BYTES,
    SHARED_BYTE,
    BlockCorrupt,
    block_references,
    block_span,
)
from arneb_core.store.format.bodies import Encoded, pack_body
from arneb_core.store.format.changes import Changes, Trim
from arneb_core.store.format.long_keys import HEAD_BYTES, is_long, shorten, wrap
from arneb_core.store.format.records import JournalState, pack_number, pack_trims, unpack_number
from arneb_core.store.format.schema import (
    META_AHEAD,
    META_JOURNAL,
    META_TRIMS,
    BodyKey,
    Table,
    entry_key,
)

TRIM_BLOCKS_MAX: Final = 2_000
TRIM_S_MAX: Final = 0.02
"""What one commit may delete, so that no request waits for old entries of another."""


class Transaction:
    """A write transaction under way, begun with ``buffers=True``: a trim reads only the first bytes
    of large blocks."""

    __slots__ = ("_tables", "_txn")

    def __init__(self, txn: "lmdb.Transaction[memoryview[int]]", tables: Tables) -> None:
        self._txn = txn
        self._tables = tables

    def __repr__(self) -> str:
        return f"<Transaction {self._txn.id()}>"

    def apply(self, changes: Changes, encoded: Encoded) -> None:
        """Apply everything but the trims, in the order that :class:`Changes` promises. The blocks
        of ``encoded`` are used up."""
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
        blocks = encoded.blocks
        blocks.reverse()
        while blocks:
            key, block = blocks.pop()  # LMDB has a copy from here on: free ours one by one
            fresh = txn.put(key, block, overwrite=False, db=entries)
            assert fresh, f"there already is a block under key {key.hex()}"
        for body_key, body in encoded.bodies.items():
            packed = pack_body(body.entry)
            fresh = txn.put(body_key, packed, overwrite=False, db=tables[Table.BODIES])
            assert fresh, f"there already is a body under key {body_key.hex()}"
            txn.put(body_key, pack_number(body.references), db=tables[Table.REFERENCES])
        for table, prefix in changes.prefixes:
            self._delete_prefix(table, prefix)

    def trim(self, trims: list[Trim]) -> list[Trim]:
        """Delete blocks within the bounds of one commit; return the trims left."""
        cursor = self._txn.cursor(self._tables[Table.ENTRIES])
        deadline = time.monotonic() + TRIM_S_MAX
        trimmed = 0
        for index, (topic_id, first, last) in enumerate(trims):
            end = entry_key(topic_id, last)
            more = cursor.set_range(entry_key(topic_id, first))
            # Only the first block may begin before the range.
            if more and bytes(cursor.key()) <= end and _begins_before(cursor.value(), first):
                more = cursor.next()
            while more and bytes(cursor.key()) <= end:
                if trimmed >= TRIM_BLOCKS_MAX or (trimmed and time.monotonic() > deadline):
                    return trims[index:]
                references = _references(cursor.value())
                cursor.delete()  # moves on to the next block
                trimmed += 1
                more = bool(cursor.key())
                if references:
                    self._release(references)
        return []

    def remember_trims(self, trims: list[Trim]) -> None:
        """Store the trims that are left, so that a restart continues them."""
        meta = self._tables[Table.META]
        if trims:
            self._txn.put(META_TRIMS, pack_trims(trims), db=meta)
        else:
            self._txn.delete(META_TRIMS, db=meta)

    def forget_ahead(self) -> None:
        """Forget what was written ahead before the store was opened: it is among the trims now."""
        self._txn.delete(META_AHEAD, db=self._tables[Table.META])

    def remember_journal(self, state: JournalState) -> None:
        """Store the journal's new state."""
        self._txn.put(META_JOURNAL, state.pack(), db=self._tables[Table.META])

    def _release(self, keys: list[BodyKey]) -> None:
        """Discount the references of deleted blocks, and delete bodies without references."""
        txn, counts = self._txn, self._tables[Table.REFERENCES]
        for key, released in Counter(keys).items():
            value = txn.get(key, db=counts)
            left = 0 if value is None else unpack_number(bytes(value)) - released
            if left > 0:
                txn.put(key, pack_number(left), db=counts)
            else:
                txn.delete(key, db=counts)
                txn.delete(key, db=self._tables[Table.BODIES])

    def _delete_prefix(self, table: Table, prefix: bytes) -> None:
        assert prefix, f"expected a prefix, got none: that would empty {table.name}"
        assert len(prefix) <= HEAD_BYTES, f"expected a prefix of at most {HEAD_BYTES} bytes"
        cursor = self._txn.cursor(self._tables[table])
        more = cursor.set_range(prefix)
        while more and bytes(cursor.key()).startswith(prefix):
            cursor.delete()
            more = bool(cursor.key())


def _references(block: "memoryview[int]") -> list[BodyKey]:
    """Return the bodies that a block refers to: nearly always none, as its first byte says."""
    if block[:1] != SHARED_BYTE:
        return []
    try:
        return block_references(bytes(block))
    except BlockCorrupt:
        return []  # deleted all the same; the check will find its bodies


def _begins_before(block: "memoryview[int]", first: Position) -> bool:
    try:
        return block_span(bytes(block[:HEADER_BYTES]))[0] < first
    except BlockCorrupt:
        return False  # old and unreadable: delete it rather than fail every commit
