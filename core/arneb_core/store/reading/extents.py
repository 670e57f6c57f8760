"""Extents: what the topics' logs hold at one instant.

The rule: everything comes from one snapshot: the topics, their ledgers and the last entry of each;
later commits do not exist for a read that is planned with it. An extent is plain values, so it can
be sent to a reader elsewhere.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import (
    AFTER_ALL,
    ENTRY_MASK,
    LedgerId,
    Position,
    entry_of,
    ledger_of,
    position_at,
)
from arneb_core.store.format.block import BlockCorrupt
from arneb_core.store.format.records import LedgerRecord, TopicRecord, TrimmedRecord
from arneb_core.store.format.schema import (
    TOPIC_PREFIX,
    Table,
    TopicId,
    parse_ledger_key,
    topic_key,
    topic_prefix,
    trimmed_key,
)
from arneb_core.store.reading.stored_blocks import read_stored_blocks

if TYPE_CHECKING:
    from arneb_core.store.reading.snapshot import Snapshot

BEFORE_LEDGERS: Final = Position(0)
"""Before every log."""


@dataclass(frozen=True, slots=True)
class LedgerExtent:
    """What one ledger holds; never empty. ``messages`` of an open ledger is an estimate."""

    first: Position
    last: Position
    messages: int
    created_ms: int = 0
    closed_ms: int = 0
    """0: open."""
    bytes_total: int = 0
    """Bytes of the entries, headers included; for an open ledger an estimate, too."""
    messages_before: int = 0
    """How many messages the topic has ever had before :attr:`first`."""

    @property
    def entries(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Extent:
    """What one topic's log holds, in order."""

    topic_id: TopicId
    """Never given to another topic of this store, even one of the same name."""
    topic: str
    ledgers: tuple[LedgerExtent, ...]
    floor: Position = BEFORE_LEDGERS
    """Nothing below this exists any more; known even for an empty log that was drained."""
    end: Position = BEFORE_LEDGERS
    """The first position not used yet, in the youngest ledger."""
    messages_before: int = 0
    """How many messages the topic has ever had below :attr:`floor`."""
    trimmed_end: Position | None = None
    """After the last entry that was removed below :attr:`floor`; None: it is not known, or nothing
    was removed."""

    @property
    def first(self) -> Position:
        """The first entry; without one, the lowest position that the next one may have."""
        return self.ledgers[0].first if self.ledgers else self.floor

    def is_at_floor(self, position: Position) -> bool:
        """Return whether ``position``, below :attr:`floor`, is after everything that was removed:
        at the end of the last ledger that had entries, or where a later one began."""
        end = self.trimmed_end
        if end is None or not end <= position < self.floor:
            return False
        return position == end or entry_of(position) == 0


def topic_names(snapshot: "Snapshot") -> list[str]:
    """Return the full names of all durable topics, internal logs among them."""
    rows = snapshot.scan(Table.CATALOG, TOPIC_PREFIX)
    return [key.removeprefix(TOPIC_PREFIX).decode() for key, _ in rows]


def find_extents(snapshot: "Snapshot", topics: Iterable[str]) -> list[Extent]:
    """Return the extents of the existing ones of ``topics``, in the order given."""
    found: list[Extent] = []
    for name in topics:
        row = snapshot.get(Table.CATALOG, topic_key(name))
        if row is not None:
            found.append(_extent(snapshot, TopicRecord.unpack(row).id, name))
    return found


def _extent(snapshot: "Snapshot", topic_id: TopicId, name: str) -> Extent:
    records = [
        (parse_ledger_key(key)[1], LedgerRecord.unpack(value))
        for key, value in snapshot.scan(Table.LEDGERS, topic_prefix(topic_id))
    ]
    if not records:
        return Extent(topic_id, name, ())
    return Extent(
        topic_id,
        name,
        tuple(_ledgers(snapshot, topic_id, records)),
        position_at(records[0][0], 0),
        _end(snapshot, topic_id, *records[-1]),
        records[0][1].messages_before,
        _trimmed_end(snapshot, topic_id, position_at(records[0][0], 0)),
    )


def _trimmed_end(snapshot: "Snapshot", topic_id: TopicId, floor: Position) -> Position | None:
    row = snapshot.get(Table.CATALOG, trimmed_key(topic_id))
    record = None if row is None else TrimmedRecord.unpack(row)
    return record.end if record is not None and record.floor == floor else None


def _end(
    snapshot: "Snapshot", topic_id: TopicId, ledger: LedgerId, record: LedgerRecord
) -> Position:
    if record.closed_ms:
        return position_at(ledger, record.entries)
    last = snapshot.last_position(topic_id, up_to=position_at(ledger, ENTRY_MASK))
    return Position(max(position_at(ledger, 0), 0 if last is None else last + 1))


def _ledgers(
    snapshot: "Snapshot", topic_id: TopicId, records: Iterable[tuple[LedgerId, LedgerRecord]]
) -> Iterator[LedgerExtent]:
    """Yield the topic's ledgers that hold entries.

    A trim deletes a ledger's record at once and its blocks in steps, oldest first; so what counts
    is what has a record, from the first block that still exists.
    """
    first = _first(snapshot, topic_id)
    if first is None:
        return
    for ledger, record in records:
        extent = _ledger(snapshot, topic_id, ledger, record, first)
        if extent is not None:
            yield extent


def _first(snapshot: "Snapshot", topic_id: TopicId) -> Position | None:
    """Return the first entry that still exists; for a block with a damaged head, the first that it
    could have."""
    for block in read_stored_blocks(snapshot, topic_id, BEFORE_LEDGERS, AFTER_ALL, 1):
        try:
            return block.decode()[0]
        except BlockCorrupt:
            return position_at(ledger_of(block.last), 0)
    return None


def _ledger(
    snapshot: "Snapshot", topic_id: TopicId, ledger: LedgerId, record: LedgerRecord, first: Position
) -> LedgerExtent | None:
    start = Position(max(position_at(ledger, 0), first))
    if record.closed_ms:
        last: Position | None = position_at(ledger, record.entries - 1)
    else:
        last = snapshot.last_position(topic_id, up_to=position_at(ledger, ENTRY_MASK))
    if last is None or last < start:
        return None
    entries, skipped = last - start + 1, entry_of(start)
    messages, size = record.messages, record.bytes_total
    if record.closed_ms:
        before = messages * skipped // record.entries
        messages, size = messages * entries // record.entries, size * entries // record.entries
    else:
        each_messages, each_bytes = _typical_entry(snapshot, topic_id, last)
        before = skipped * each_messages
        messages, size = entries * each_messages, entries * each_bytes
    return LedgerExtent(
        start,
        last,
        max(entries, messages),
        record.created_ms,
        record.closed_ms,
        size,
        record.messages_before + before,
    )


def _typical_entry(snapshot: "Snapshot", topic_id: TopicId, last: Position) -> tuple[int, int]:
    """Return messages and bytes of a typical entry: an open ledger's record has no counts yet, and
    its last entries stand for the others."""
    for block in read_stored_blocks(snapshot, topic_id, last, last, 1):
        try:
            first, entries = block.decode()
        except BlockCorrupt:
            return 1, block.size
        return messages_in(entries[last - first]), sum(map(len, entries)) // len(entries)
    return 1, 0
