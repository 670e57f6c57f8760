"""Snapshots: the whole store as of one commit, for reading, from any thread or process.

The rule: a snapshot never changes and never blocks the writer. But the pages that it sees cannot be
reused while it is open, so hold one for a batch, not for a session.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

import lmdb

from arneb_core.api.entries.position import AFTER_ALL, Position
from arneb_core.store.data_file.opening import Tables
from arneb_core.store.data_file.page_release import PageRelease
from arneb_core.store.format.block import (
    BLOCK_FORMAT,
    block_span,
    cut_run,
    decode_block,
    pick_entries,
)
from arneb_core.store.format.bodies import unpack_body
from arneb_core.store.format.commit_record import CommitRecord
from arneb_core.store.format.long_keys import HEAD_BYTES, is_long, shorten, unwrap
from arneb_core.store.format.records import JournalState, unpack_gap
from arneb_core.store.format.schema import (
    META_JOURNAL,
    BodyKey,
    Table,
    TopicId,
    entry_key,
    parse_entry_key,
    topic_prefix,
)
from arneb_core.store.journal.file import Fault
from arneb_core.store.journal.held_commits import HeldCommit, left_of
from arneb_core.store.journal.overlay import Overlay, laid_over
from arneb_core.store.journal.reconciliation import Gap
from arneb_core.store.reading.leftovers import Range, is_left_over, leftovers

BEFORE_EVERYTHING = Position(0)
NOTHING: Final = Overlay()

BLOCKS_READ_MAX: Final = 256
"""Blocks in one reading of single entries. Each is checked whole: together some 30 ms, after which
other readers have their turn."""


class Snapshot:
    """One read transaction. Use it from one thread at a time, inside its ``with`` block."""

    __slots__ = (
        "_leftovers",
        "_overlay",
        "_page_release",
        "_tables",
        "_txn",
        "faults",
        "journal_gaps",
    )

    def __init__(
        self,
        txn: "lmdb.Transaction[bytes]",
        tables: Tables,
        page_release: PageRelease,
        pending: Sequence[CommitRecord] = (),
        gaps: Sequence[Gap] = (),
        faults: Sequence[Fault] = (),
        held: Sequence[HeldCommit] = (),
    ) -> None:
        """``pending``: records of the journal that LMDB may not have taken over yet; ``gaps``
        between them; ``faults`` of the journal; ``held``: commits after them."""
        self._txn = txn
        self._tables = tables
        self._page_release = page_release
        self.journal_gaps = gaps
        self.faults = faults
        self._leftovers: dict[TopicId, list[Range]] | None = None  # looked up when needed
        self._overlay = NOTHING
        has = JournalState.unpack(self.get(Table.META, META_JOURNAL)).number if pending else 0
        late = [each.changes for each in pending if each.number > has]
        self._overlay = Overlay(late + left_of(held, txn.id()))

    def __repr__(self) -> str:
        return f"<Snapshot {self._txn.id()}, with {self._overlay!r}>"

    def get(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key, None if there is none."""
        late = self._overlay.rows(table)
        if key in late:
            return late[key]
        value = self._txn.get(shorten(key), db=self._tables[table])
        self._page_release.read(0 if value is None else len(value))
        return unwrap(value)[1] if value is not None and is_long(key) else value

    def scan(self, table: Table, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield every key that begins with ``prefix``, with its value, in key order (long keys with
        the same first 479 bytes in any order among themselves)."""
        return laid_over(self._scan(table, prefix), self._overlay.rows(table), prefix)

    def _scan(self, table: Table, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        head = prefix[:HEAD_BYTES]
        cursor = self._txn.cursor(self._tables[table])
        more = cursor.set_range(head)
        while more:
            key, value = cursor.item()
            if not key.startswith(head):
                return
            self._page_release.read(len(value))
            if is_long(key):
                key, value = unwrap(value)
            if key.startswith(prefix):
                yield key, value
            more = cursor.next()

    def keys(self, table: Table, prefix: bytes) -> Iterator[bytes]:
        """Yield every key that begins with ``prefix``, in order, without its value. For tables with
        short keys."""
        if not (late := self._overlay.rows(table)):
            return self._keys(table, prefix)
        stored = ((key, b"") for key in self._keys(table, prefix))
        return (key for key, _ in laid_over(stored, late, prefix))

    def _keys(self, table: Table, prefix: bytes) -> Iterator[bytes]:
        cursor = self._txn.cursor(self._tables[table])
        more = cursor.set_range(prefix)
        while more:
            key = cursor.key()
            if not key.startswith(prefix):
                return
            self._page_release.read(0)
            yield key
            more = cursor.next()

    def read_blocks(
        self, topic_id: TopicId, first: Position, *, bytes_max: int, last: Position | None = None
    ) -> list[tuple[Position, list[bytes]]]:
        """Return runs of entries from ``first`` on (or the first entry after it), to ``last``.

        Stops after the block that reaches ``bytes_max``, so the answer is empty only when there is
        nothing to read. Raises :class:`.BlockCorrupt`.
        """
        runs: list[tuple[Position, list[bytes]]] = []
        bytes_read = 0
        for _, value in self.block_values(topic_id, first, last):
            position, entries = cut_run(*decode_block(value, self.find_body), first, last)
            if not entries:
                break
            runs.append((position, entries))
            bytes_read += len(value) if value[0] == BLOCK_FORMAT else sum(map(len, entries))
            if bytes_read >= bytes_max:
                break
        return runs

    def read_positions(
        self, topic_id: TopicId, positions: Sequence[Position], bytes_max: int
    ) -> list[tuple[Position, list[bytes]]]:
        """Return single entries at ``positions``, which ascend, without those that do not exist.
        Stops after the entry that reaches ``bytes_max``, or :data:`BLOCKS_READ_MAX` blocks. Raises
        :class:`.BlockCorrupt`."""
        runs: list[tuple[Position, list[bytes]]] = []
        index = bytes_read = 0
        for _ in range(BLOCKS_READ_MAX):
            if index == len(positions) or bytes_read >= bytes_max:
                break
            found = self.block_values(topic_id, positions[index], positions[index])
            _, value = next(found, (None, None))
            first, count = (positions[index], 0) if value is None else block_span(value)
            if value is None or not first <= positions[index] < first + count:
                index += 1
                continue
            wanted = positions[index : bisect_left(positions, first + count, index)]
            entries = pick_entries(value, [position - first for position in wanted], self.find_body)
            for position, entry in zip(wanted, entries, strict=True):
                runs.append((position, [entry]))
                bytes_read += len(entry)
                if bytes_read >= bytes_max:
                    break
            index += len(wanted)
        return runs

    def iter_blocks(
        self, topic_id: TopicId, first: Position = BEFORE_EVERYTHING, last: Position = AFTER_ALL
    ) -> Iterator[tuple[Position, list[bytes]]]:
        """Do as :meth:`read_blocks`, run by run and without a limit."""
        for _, value in self.block_values(topic_id, first, last):
            position, entries = cut_run(*decode_block(value, self.find_body), first, last)
            if entries:
                yield position, entries

    def last_position(self, topic_id: TopicId, up_to: Position | None = None) -> Position | None:
        """Return the topic's last entry, or its last one not after ``up_to``."""
        limit = AFTER_ALL if up_to is None else up_to
        for first, entries in reversed(self._overlay.runs.get(topic_id, ())):
            if first <= limit:
                return min(limit, Position(first + len(entries) - 1))
        cursor = self._txn.cursor(self._tables[Table.ENTRIES])
        found = cursor.set_range(entry_key(topic_id, limit))
        if (
            found
            and cursor.key().startswith(topic_prefix(topic_id))
            and block_span(cursor.value())[0] <= limit
        ):
            return limit
        if not (cursor.prev() if found else cursor.last()):
            return None
        owner, last = parse_entry_key(cursor.key())
        return last if owner == topic_id else None

    def journaled_blocks(self) -> Iterator[tuple[TopicId, Position, bytes]]:
        """Yield the blocks that are only in the journal, each with its topic and last position: a
        :meth:`scan` of ENTRIES does not include them."""
        for topic_id in self._overlay.runs:
            for last, value in self._overlay.blocks(topic_id):
                yield topic_id, last, value

    def gaps(self, topic_id: TopicId) -> list[tuple[Position, Position]]:
        """Return first and last entry of every gap in the topic's log, in order: positions that
        were used, and whose entries are lost."""
        found = {
            (unpack_gap(value), parse_entry_key(key)[1])
            for key, value in self.scan(Table.GAPS, topic_prefix(topic_id))
        }
        found.update(
            (each.first, each.last) for each in self.journal_gaps if each.topic_id == topic_id
        )
        return sorted(found)

    def decode(self, value: bytes) -> tuple[Position, list[bytes]]:
        """Decode a block of this snapshot; raises :class:`.BlockCorrupt`."""
        return decode_block(value, self.find_body)

    def rows(self, table: Table) -> int:
        """Return how many rows a table has; of ENTRIES, how many blocks LMDB has."""
        handle = self._tables[table]
        count = self._txn.stat(handle)["entries"]
        for key, value in self._overlay.rows(table).items():
            count += (value is not None) - (self._txn.get(shorten(key), db=handle) is not None)
        return count

    def live_bytes(self) -> int:
        """Return the bytes of the file's pages in use, without those to be reused."""
        stats = [self._txn.stat(handle) for handle in self._tables.values()]
        return sum(
            stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
            for stat in stats
        )

    def find_body(self, key: BodyKey) -> bytes:
        """Return an entry that blocks refer to. Raises :class:`.BodyLost`."""
        value = self._txn.get(key, db=self._tables[Table.BODIES])
        entry = unpack_body(key, value)
        self._page_release.read(len(entry))
        return entry

    def block_values(
        self, topic_id: TopicId, first: Position, last: Position | None
    ) -> Iterator[tuple[Position, bytes]]:
        """Yield the blocks with anything of [first, last], and perhaps one more after, as stored,
        damaged or not; each with the position of its last entry."""
        if self._leftovers is None:
            self._leftovers = leftovers(lambda key: self.get(Table.META, key))
        left = self._leftovers.get(topic_id, ())
        prefix = topic_prefix(topic_id)
        cursor = self._txn.cursor(self._tables[Table.ENTRIES])
        more = cursor.set_range(entry_key(topic_id, first))
        while more:
            key, value = cursor.item()
            if not key.startswith(prefix):
                break
            self._page_release.read(len(value))
            end = parse_entry_key(key)[1]
            if not (left and is_left_over(left, end, value)):
                yield end, value
                if last is not None and end >= last:
                    return
            elif last is not None and end >= last:
                break  # the log continues below what is written ahead
            more = cursor.next()
        yield from self._overlay.blocks(topic_id, first, last)
