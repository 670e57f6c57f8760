"""Recovery: what a store holds, as values from which topics and cursors are made.

The rule: it reads one snapshot and changes nothing, so a thread does it. The counts of closed
ledgers are believed; an open ledger is counted block by block. A damaged block there stops only the
subscriptions that reach it.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arneb_core.api.entries.position import (
    AFTER_ALL,
    LedgerId,
    Position,
    entry_of,
    ledger_of,
    position_at,
    render,
)
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.cursor.acks import AckState
from arneb_core.engine.catalog.open_counts import OpenCounts, always
from arneb_core.log.ledgers import LedgerIndex, LedgerInfo
from arneb_core.log.planning import NO_LEDGER
from arneb_core.store.format.records import (
    CursorRecord,
    LedgerRecord,
    SubscriptionRecord,
    TopicRecord,
    unpack_number,
    unpack_trims,
)
from arneb_core.store.format.schema import (
    META_AHEAD,
    META_CLEAN,
    META_NEXT_TOPIC_ID,
    META_TRIMS,
    PLACE_SUFFIX,
    TOPIC_PREFIX,
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
    parse_ledger_key,
    parse_subscription_key,
    subscriptions_prefix,
    topic_prefix,
)
from arneb_core.store.reading.frontend_rows import metadata_rows
from arneb_core.store.reading.snapshot import Snapshot

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredCursor:
    """A durable subscription as it was last written."""

    name: str
    id: SubscriptionId
    properties: Mapping[str, str]
    acks: AckState
    read_position: Position


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """A durable topic as it was last written."""

    name: str
    id: TopicId
    settings: TopicSettings
    ledgers: LedgerIndex
    cursors: list[StoredCursor]
    stamped_ms: int
    """No entry was published after this time."""
    gaps: Sequence[tuple[Position, Position]] = ()
    """First and last positions of lost entries."""
    expiring: bool = False
    delayed: bool = False
    used: LedgerId = NO_LEDGER
    """Up to this ledger, blocks that belong to no ledger may be left: they were written ahead."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Everything that a store holds, without the entries."""

    clean: bool
    """The last stop wrote all cursors."""
    next_topic_id: int
    metadata: dict[str, bytes]
    topics: list[StoredTopic]


def recover(snapshot: Snapshot, counts: OpenCounts | None = None) -> Stored:
    """Read what ``snapshot`` holds. This takes time for open ledgers, block by block, except for
    what ``counts`` has already. Raises :class:`ValueError` on a malformed record."""
    next_id = snapshot.get(Table.META, META_NEXT_TOPIC_ID)
    used = _used_ledgers(snapshot)
    counts = counts or OpenCounts()
    return Stored(
        clean=snapshot.get(Table.META, META_CLEAN) is not None,
        next_topic_id=1 if next_id is None else unpack_number(next_id),
        metadata=metadata_rows(snapshot),
        topics=[
            _recover_topic(
                snapshot, key[len(TOPIC_PREFIX) :].decode(), TopicRecord.unpack(value), used, counts
            )
            for key, value in snapshot.scan(Table.CATALOG, TOPIC_PREFIX)
        ],
    )


def _used_ledgers(snapshot: Snapshot) -> dict[TopicId, LedgerId]:
    """Return for each topic the last ledger with blocks that are still to be trimmed."""
    found: dict[TopicId, LedgerId] = {}
    for key in (META_TRIMS, META_AHEAD):
        for topic_id, _, last in unpack_trims(snapshot.get(Table.META, key) or b""):
            if last != AFTER_ALL:
                found[topic_id] = max(found.get(topic_id, NO_LEDGER), ledger_of(last))
    return found


def _recover_topic(
    snapshot: Snapshot,
    name: str,
    record: TopicRecord,
    used: Mapping[TopicId, LedgerId],
    counts: OpenCounts,
) -> StoredTopic:
    settings = TopicSettings(
        durable=record.durable,
        retention_ms=record.retention_ms,
        retention_bytes=record.retention_bytes,
        ledger_bytes_max=record.ledger_bytes_max,
        properties=record.properties,
    )
    stamped_ms = 0
    infos: list[LedgerInfo] = []
    gaps = snapshot.gaps(record.id)
    for key, value in snapshot.scan(Table.LEDGERS, topic_prefix(record.id)):
        info, latest_ms = _recover_ledger(
            snapshot, record.id, key, LedgerRecord.unpack(value), gaps, counts
        )
        infos.append(info)
        stamped_ms = max(stamped_ms, latest_ms)
    ledgers = LedgerIndex(infos)
    cursors = [
        _recover_cursor(snapshot, record.id, ledgers, key, SubscriptionRecord.unpack(value))
        for key, value in snapshot.scan(Table.CATALOG, subscriptions_prefix(record.id))
    ]
    return StoredTopic(
        name,
        record.id,
        settings,
        ledgers,
        cursors,
        stamped_ms,
        gaps,
        record.expiring,
        record.delayed,
        used.get(record.id, NO_LEDGER),
    )


def _recover_ledger(
    snapshot: Snapshot,
    topic_id: TopicId,
    key: bytes,
    record: LedgerRecord,
    gaps: Sequence[tuple[Position, Position]],
    counts: OpenCounts,
) -> tuple[LedgerInfo, int]:
    """Return the ledger, and a time that no stamp in it exceeds."""
    _, ledger = parse_ledger_key(key)
    entries, messages, size = record.entries, record.messages, record.bytes_total
    latest_ms = record.closed_ms if entries else 0
    if not record.closed_ms:
        first = position_at(ledger, 0)
        last = Position(position_at(ledger + 1, 0) - 1)
        counted, error = counts.count(snapshot, topic_id, ledger, always)
        entries, messages, size = counted.entries, counted.messages, counted.bytes_total
        latest_ms = counted.latest_ms
        if error is not None:
            where = render(Position(first + entries))
            logger.error("topic %d is damaged from entry %s on: %s", topic_id, where, error)
            # Keys tell how many entries there are. Count one message too many, so that readers look
            # for batches after the damage.
            end = snapshot.last_position(topic_id, last)
            assert end is not None, "there is the damaged block at least"
            entries = entry_of(end) + 1
            messages = max(messages, entries) + 1
        # A lost entry counts as one message, so that offsets after it do not move.
        messages += sum(end - gap + 1 for gap, end in gaps if first <= gap <= last)
    info = LedgerInfo(
        ledger,
        entries,
        messages,
        size,
        record.created_ms,
        record.closed_ms,
        record.messages_before,
    )
    return info, latest_ms


def _recover_cursor(
    snapshot: Snapshot,
    topic_id: TopicId,
    ledgers: LedgerIndex,
    key: bytes,
    record: SubscriptionRecord,
) -> StoredCursor:
    _, name = parse_subscription_key(key)
    prefix = cursor_prefix(topic_id, record.id)
    rows = {key[len(prefix) :]: value for key, value in snapshot.scan(Table.CURSORS, prefix)}
    position = CursorRecord.unpack(rows.pop(PLACE_SUFFIX, b""))
    acks = AckState.load(ledgers, position.mark_delete, rows.items())
    return StoredCursor(name, record.id, record.properties, acks, position.read_position)
