"""The check of the cursors: every subscription's place, holes and partly acknowledged batches.

The rule: rows come in key order, so a cursor's place is read before its holes, and those before its
masks; each is compared with the ones before it and with the log.
"""

from dataclasses import dataclass, field

from pyroaring import BitMap

from arneb_core.api.entries.entry import HEADER_BYTES, messages_in
from arneb_core.api.entries.position import BEFORE_ALL, Position, render
from arneb_core.store.checking.findings import FindingKind
from arneb_core.store.checking.inventory import Inventory, TopicInventory
from arneb_core.store.format.block import BlockCorrupt
from arneb_core.store.format.records import CursorRecord, unpack_holes, unpack_mask
from arneb_core.store.format.schema import (
    CHUNK_BITS,
    CHUNK_MASK,
    CursorKind,
    SubscriptionId,
    Table,
    TopicId,
    parse_cursor_key,
)


def check_cursors(inventory: Inventory) -> None:
    """Check every cursor row, and that every subscription has its place."""
    cursor: _Cursor | None = None
    placed: set[tuple[TopicId, SubscriptionId]] = set()
    for key, value in inventory.snapshot.scan(Table.CURSORS):
        try:
            topic_id, subscription_id, kind, number = parse_cursor_key(key)
        except ValueError as error:
            inventory.add(FindingKind.CURSOR_KEY, key.hex(), error)
            continue
        topic = inventory.topics.get(topic_id)
        if topic is None or subscription_id not in topic.subscriptions:
            where = f"{inventory.label(topic_id)}, subscription {subscription_id}"
            inventory.add(FindingKind.CURSOR_ORPHAN, where, f"no owner for its {kind.name}")
            continue
        if cursor is None or (cursor.topic_id, cursor.id) != (topic_id, subscription_id):
            cursor = _Cursor(inventory, topic_id, topic, subscription_id)
        if kind is CursorKind.PLACE:
            placed.add((topic_id, subscription_id))
            cursor.check_place(value)
        elif kind is CursorKind.HOLES:
            cursor.check_holes(number, value)
        else:
            cursor.check_mask(Position(number), value)
    for topic_id, topic in inventory.topics.items():
        for subscription_id, name in topic.subscriptions.items():
            if (topic_id, subscription_id) not in placed:
                where = f"{inventory.label(topic_id)}, subscription {name!r}"
                inventory.add(FindingKind.CURSOR_MISSING, where, "expected its place, got none")


@dataclass(slots=True)
class _Cursor:
    """One cursor, as far as its rows have been read."""

    inventory: Inventory
    topic_id: TopicId
    topic: TopicInventory
    id: SubscriptionId
    mark_delete: Position = BEFORE_ALL
    holes: dict[int, BitMap] = field(default_factory=dict)
    last_read: tuple[Position, list[bytes]] = (BEFORE_ALL, [])
    """The run in which the last mask was looked up; the next one is often in it too."""

    def check_place(self, value: bytes) -> None:
        """Check the mark-delete and read positions."""
        try:
            record = CursorRecord.unpack(value)
        except ValueError as error:
            self._add(FindingKind.CURSOR_RECORD, "place", error)
            return
        self.mark_delete = record.mark_delete
        for name, position in (
            ("mark-delete", record.mark_delete),
            ("the entry before the read position", Position(record.read_position - 1)),
        ):
            if not self.topic.is_within(position):
                detail = f"expected it in the log, got {render(position)}"
                self._add(FindingKind.CURSOR_PLACE, name, detail)
        if record.read_position <= record.mark_delete:
            detail = f"expected it behind {render(record.mark_delete)}, got "
            self._add(
                FindingKind.CURSOR_PLACE, "read position", detail + render(record.read_position)
            )

    def check_holes(self, chunk: int, value: bytes) -> None:
        """Check one bitmap of individually acknowledged entries."""
        low = Position(chunk << CHUNK_BITS)
        try:
            holes = unpack_holes(value)
        except ValueError as error:
            self._add(FindingKind.HOLES_CORRUPT, f"acks from {render(low)}", error)
            return
        self.holes[chunk] = holes
        # A chunk lies inside one ledger, where entries are dense: checking its ends suffices.
        for position in (Position(low + holes.min()), Position(low + holes.max())):
            if position <= self.mark_delete or not self.topic.contains(position):
                detail = (
                    f"expected an entry behind {render(self.mark_delete)}, got {render(position)}"
                )
                self._add(FindingKind.HOLES_PLACE, f"acks from {render(low)}", detail)

    def check_mask(self, position: Position, value: bytes) -> None:
        """Check one partly acknowledged batch."""
        what = f"mask of {render(position)}"
        mask = unpack_mask(value)
        if not mask:
            self._add(FindingKind.MASK_CORRUPT, what, "expected an unacked message, got none")
        elif position <= self.mark_delete or not self.topic.contains(position):
            detail = f"expected an entry behind {render(self.mark_delete)}"
            self._add(FindingKind.MASK_PLACE, what, detail)
        elif (position & CHUNK_MASK) in self.holes.get(position >> CHUNK_BITS, ()):
            self._add(FindingKind.MASK_ACKED, what, "expected an entry that is not acked whole")
        else:
            messages = self._messages_at(position)
            if messages is not None and mask >> messages:
                detail = f"expected {messages} messages at most, got mask {mask:#x}"
                self._add(FindingKind.MASK_BITS, what, detail)

    def _messages_at(self, position: Position) -> int | None:
        """Return how many messages the entry holds; None if unreadable, a finding of its own."""
        first, entries = self.last_read
        if not first <= position < first + len(entries):
            snapshot = self.inventory.snapshot
            try:
                runs = snapshot.read_blocks(self.topic_id, position, bytes_max=1)
            except BlockCorrupt:
                return None
            first, entries = self.last_read = runs[0] if runs else self.last_read
        if not first <= position < first + len(entries):
            return None
        entry = entries[position - first]
        return messages_in(entry) if len(entry) >= HEADER_BYTES else None

    def _add(self, kind: FindingKind, what: str, detail: object) -> None:
        name = self.topic.subscriptions[self.id]
        where = f"{self.inventory.label(self.topic_id)}, subscription {name!r}, {what}"
        self.inventory.add(kind, where, detail)
