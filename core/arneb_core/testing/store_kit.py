"""The store kit: makes consistent changes, and says what a store must hold after them.

The rule: :class:`StoreModel` is plain dictionaries and knows nothing of LMDB, blocks or
transactions; stores are compared with it. Deletions go into ``Changes.puts``, so that several edits
in one commit keep their order.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from arneb_core.api.entries.entry import EntryHeader, Origin, messages_in
from arneb_core.api.entries.position import (
    AFTER_ALL,
    BEFORE_ALL,
    LedgerId,
    Position,
    ledger_of,
    position_at,
)
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.commit_record import HEADER, HEADER_BYTES, MAGIC_WITH_STAMP
from arneb_core.store.format.records import (
    CursorRecord,
    LedgerRecord,
    SubscriptionRecord,
    TopicRecord,
    pack_number,
)
from arneb_core.store.format.schema import (
    META_NEXT_TOPIC_ID,
    PLACE_SUFFIX,
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
    ledger_key,
    subscription_key,
    subscriptions_prefix,
    topic_key,
    topic_prefix,
)
from arneb_core.store.journal.writing import JOURNAL_NAME
from arneb_core.store.reading.snapshot import Snapshot


def entry(body: bytes = b"", messages: int = 1) -> bytes:
    """Make a well-formed entry."""
    return EntryHeader(Origin.PULSAR, messages).pack() + body


@dataclass(slots=True)
class LedgerModel:
    """An existing ledger."""

    entries: list[bytes] = field(default_factory=list)
    created_ms: int = 1
    closed_ms: int = 0
    messages_before: int = 0

    def record(self) -> bytes:
        return LedgerRecord(
            self.created_ms,
            self.closed_ms,
            len(self.entries),
            sum(map(messages_in, self.entries)),
            sum(map(len, self.entries)),
            self.messages_before,
        ).pack()


@dataclass(slots=True)
class TopicModel:
    """An existing topic, with one subscription per name."""

    id: TopicId
    ledgers: dict[int, LedgerModel] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionId] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether its newest ledger takes entries, so that an append is only a run."""
        newest = max(self.ledgers, default=0)
        return bool(newest and self.ledgers[newest].entries and not self.ledgers[newest].closed_ms)

    @property
    def next_append(self) -> Position:
        if not self.ledgers:
            return position_at(1, 0)
        newest = max(self.ledgers)
        if self.ledgers[newest].closed_ms:
            return position_at(newest + 1, 0)
        return position_at(newest, len(self.ledgers[newest].entries))

    @property
    def messages_ever(self) -> int:
        if not self.ledgers:
            return 0
        newest = self.ledgers[max(self.ledgers)]
        return newest.messages_before + sum(map(messages_in, newest.entries))

    def entries(self) -> dict[Position, bytes]:
        """Return the whole log by position."""
        return {
            position_at(number, index): body
            for number, ledger in self.ledgers.items()
            for index, body in enumerate(ledger.entries)
        }


class StoreModel:
    """What a store holds. Each method changes the model and adds to ``changes`` what a commit must
    do to the store to match; for a commit that fails, work on a deep copy."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicModel] = {}
        self.frontend: dict[bytes, bytes] = {}
        self.next_topic_id = 1

    def __repr__(self) -> str:
        return f"<StoreModel of {len(self.topics)} topics>"

    def create_topic(self, changes: Changes, name: str) -> TopicModel:
        """Create a topic without entries."""
        topic = self.topics[name] = TopicModel(TopicId(self.next_topic_id))
        self.next_topic_id += 1
        changes.puts += [
            (Table.CATALOG, topic_key(name), TopicRecord(topic.id).pack()),
            (Table.META, META_NEXT_TOPIC_ID, pack_number(self.next_topic_id)),
        ]
        return topic

    def delete_topic(self, changes: Changes, name: str) -> None:
        """Delete the topic with all that belongs to it."""
        topic = self.topics.pop(name)
        changes.puts.append((Table.CATALOG, topic_key(name), None))
        prefix = topic_prefix(topic.id)
        changes.prefixes += [
            (Table.CATALOG, subscriptions_prefix(topic.id)),
            (Table.LEDGERS, prefix),
            (Table.CURSORS, prefix),
        ]
        changes.trims.append((topic.id, Position(0), AFTER_ALL))

    def subscribe(self, changes: Changes, name: str, subscription: str) -> SubscriptionId:
        """Create a subscription at the earliest entry."""
        topic = self.topics[name]
        number = SubscriptionId(len(topic.subscriptions) + 1)
        topic.subscriptions[subscription] = number
        key = subscription_key(topic.id, subscription)
        record = CursorRecord(BEFORE_ALL, Position(BEFORE_ALL + 1))
        changes.puts += [
            (Table.CATALOG, key, SubscriptionRecord(number).pack()),
            (Table.CURSORS, cursor_prefix(topic.id, number) + PLACE_SUFFIX, record.pack()),
        ]
        return number

    def append(self, changes: Changes, name: str, entries: Sequence[bytes]) -> Position:
        """Append a run to the open ledger, or to a new one."""
        topic = self.topics[name]
        first = topic.next_append
        made = LedgerModel(messages_before=topic.messages_ever)
        ledger = topic.ledgers.setdefault(first >> 32, made)
        if not ledger.entries:
            changes.puts.append(
                (Table.LEDGERS, ledger_key(topic.id, ledger_of(first)), ledger.record())
            )
        ledger.entries += entries
        changes.blocks.append((topic.id, first, list(entries)))
        return first

    def close_ledger(self, changes: Changes, name: str) -> None:
        """Close the open ledger, if there is one."""
        topic = self.topics[name]
        newest = max(topic.ledgers, default=0)
        if newest and not topic.ledgers[newest].closed_ms:
            ledger = topic.ledgers[newest]
            ledger.closed_ms = 2
            key = ledger_key(topic.id, LedgerId(newest))
            changes.puts.append((Table.LEDGERS, key, ledger.record()))

    def drop_ledger(self, changes: Changes, name: str) -> None:
        """Drop the oldest ledger, unless it is the last."""
        topic = self.topics[name]
        if len(topic.ledgers) > 1:
            oldest = min(topic.ledgers)
            ledger = topic.ledgers.pop(oldest)
            first = position_at(oldest, 0)
            changes.puts.append((Table.LEDGERS, ledger_key(topic.id, ledger_of(first)), None))
            changes.trims.append((topic.id, first, position_at(oldest, len(ledger.entries) - 1)))

    def put(self, changes: Changes, key: bytes, value: bytes | None) -> None:
        """Put a frontend's row; None removes it."""
        changes.puts.append((Table.CATALOG, key, value))
        if value is None:
            self.frontend.pop(key, None)
        else:
            self.frontend[key] = value


def commit_small(store: Store, changes: Changes) -> CommitReport:
    """Commit as the engine commits a lone run: into the journal if it takes it, else into LMDB."""
    with suppress(OSError):
        if report := store.commit_tiny(changes):
            return report
    return store.commit(changes)


def read_log(snapshot: Snapshot, topic: TopicModel) -> dict[Position, bytes]:
    """Return a topic's log as the store has it, without dropped ledgers."""
    first = position_at(min(topic.ledgers, default=1), 0)
    found = [
        (Position(position + index), body)
        for position, entries in snapshot.iter_blocks(topic.id, first)
        for index, body in enumerate(entries)
    ]
    assert found == sorted(dict(found).items()), "expected each entry once, in order"
    return dict(found)


def assert_holds(snapshot: Snapshot, model: StoreModel) -> None:
    """Assert that the snapshot holds exactly what the model says."""
    assert dict(snapshot.scan(Table.CATALOG, b"frontend/")) == model.frontend
    names = {key for key, _ in snapshot.scan(Table.CATALOG, b"topic/")}
    assert names == {topic_key(name) for name in model.topics}
    for topic in model.topics.values():
        assert read_log(snapshot, topic) == topic.entries()
        expected = max(topic.entries(), default=None)
        if topic.ledgers:
            assert snapshot.last_position(topic.id) == expected


def end_of_last_record(store: Store) -> int:
    """Return where the bytes of the journal's last record end, before the rest of its block."""
    data = (store.path / JOURNAL_NAME).read_bytes()
    begin = data.rindex(MAGIC_WITH_STAMP, 0, store._journal._offset)
    return begin + HEADER_BYTES + int(HEADER.unpack_from(data, begin)[-1])
