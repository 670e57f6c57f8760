"""A broker in memory, as far as streaming queries and sinks see one: logs, cursors with a lease.

The rule: it keeps the contract of docs/internals/data-api.md and nothing beyond it, and trims as
eagerly as that allows: whatever every cursor has passed goes with its closed ledger at once. What
a query reads from it, it reads from nothing else.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from arneb_core.api.entries.entry import EntryHeader, Origin, messages_in
from arneb_core.api.entries.position import Position, ledger_of, position_at
from arneb_core.store.format.block import encode_block
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.extents import Extent, LedgerExtent
from arneb_core.store.reading.stored_blocks import StoredBlock
from pyspark_arneb.log.topics import full_name
from pyspark_arneb.stream.cursor import CursorGone, CursorState, Positions

BLOCK_ENTRIES = 3


@dataclass
class Ledger:
    number: int
    before: int
    entries: list[bytes] = field(default_factory=list)
    closed: bool = False

    def extent(self, *, estimated: bool = False) -> LedgerExtent:
        first = position_at(self.number, 0)
        messages = sum(map(messages_in, self.entries))
        if estimated and not self.closed:
            messages = len(self.entries) * messages_in(self.entries[-1])
        return LedgerExtent(
            first,
            Position(first + len(self.entries) - 1),
            messages,
            1,
            2 if self.closed else 0,
            sum(map(len, self.entries)),
            self.before,
        )


@dataclass
class Topic:
    id: int
    ledgers: list[Ledger] = field(default_factory=lambda: [Ledger(1, 0)])

    @property
    def end(self) -> Position:
        return position_at(self.ledgers[-1].number, len(self.ledgers[-1].entries))

    def from_(self, first: Position) -> Iterator[tuple[Position, bytes]]:
        for ledger in self.ledgers:
            for number, entry in enumerate(ledger.entries):
                if position_at(ledger.number, number) >= first:
                    yield position_at(ledger.number, number), entry


@dataclass
class Cursor:
    next: Position
    lease_s: int
    until_s: float


class FakeBroker:
    """Also the source of blocks and the service of cursors that a planner is given."""

    def __init__(self, *, is_directory: bool = False) -> None:
        """``is_directory``: of a ledger that is open it has an estimate only."""
        self._is_directory = is_directory
        self.now_s = 1_000_000.0
        self.logs: dict[str, Topic] = {}
        self.cursors: dict[tuple[str, str], Cursor] = {}
        self.calls: list[str] = []
        self._ids = 0

    # What publishers and administrators do.

    def create(self, name: str) -> None:
        self._ids += 1
        self.logs[full_name(name)] = Topic(self._ids)

    def delete(self, name: str) -> None:
        del self.logs[full_name(name)]
        for key in [key for key in self.cursors if key[1] == full_name(name)]:
            del self.cursors[key]

    def append(self, name: str, bodies: Sequence[bytes], messages: int = 1) -> None:
        header = EntryHeader(
            Origin.PULSAR, messages=messages, publish_time_ms=int(self.now_s * 1000)
        ).pack()
        self.logs[full_name(name)].ledgers[-1].entries += [header + body for body in bodies]

    def roll(self, name: str) -> None:
        topic = self.logs[full_name(name)]
        last = topic.ledgers[-1]
        if last.entries:
            last.closed = True
            before = last.before + sum(map(messages_in, last.entries))
            topic.ledgers.append(Ledger(last.number + 1, before))
        self.trim()

    def wait(self, seconds: float) -> None:
        """Time passes; leases end."""
        self.now_s += seconds
        for key in [key for key, cursor in self.cursors.items() if cursor.until_s < self.now_s]:
            del self.cursors[key]
        self.trim()

    def trim(self) -> None:
        """What every cursor has passed, in whole ledgers."""
        for name, topic in self.logs.items():
            passed = [cursor.next for (_, of), cursor in self.cursors.items() if of == name]
            low = min([*passed, topic.end])
            while topic.ledgers[0].closed and position_at(topic.ledgers[0].number + 1, 0) <= low:
                del topic.ledgers[0]
            first = topic.ledgers[0]
            if first.closed and position_at(first.number, len(first.entries)) <= low:
                del topic.ledgers[0]

    # The source of blocks.

    def topics(self) -> Collection[str]:
        return list(self.logs)

    def extents(self, topics: Iterable[str]) -> list[Extent]:
        self.calls.append("extents")
        return [self._extent(name) for name in topics if name in self.logs]

    def read(
        self, topic_id: TopicId, first: Position, last: Position, bytes_max: int
    ) -> Sequence[StoredBlock]:
        found: list[StoredBlock] = []
        for topic in self.logs.values():
            if topic.id != topic_id:
                continue
            for ledger in topic.ledgers:
                for start in range(0, len(ledger.entries), BLOCK_ENTRIES):
                    entries = ledger.entries[start : start + BLOCK_ENTRIES]
                    position = position_at(ledger.number, start)
                    end = Position(position + len(entries) - 1)
                    if end >= first and position <= last:
                        found.append(StoredBlock(end, bytes(encode_block(position, entries))))
                        if sum(block.size for block in found) >= bytes_max:
                            return found
        return found

    def schemas(self, topic: str) -> Mapping[int, bytes]:
        return {}

    # The service of cursors.

    def open(self, name: str, positions: Positions, lease_s: int) -> dict[str, CursorState]:
        self.calls.append("open")
        created = {topic for topic in positions if (name, topic) not in self.cursors}
        for topic, (topic_id, position) in positions.items():
            assert self.logs[topic].id == topic_id
            known = self.cursors.get((name, topic))
            low = self._extent(topic).first
            where = max(position, low) if known is None else known.next
            self.cursors[name, topic] = Cursor(where, lease_s, self.now_s + lease_s)
        return {topic: self._cursor_state(name, topic, topic in created) for topic in positions}

    def acknowledge(self, name: str, positions: Positions) -> dict[str, CursorState]:
        self.calls.append("acknowledge")
        if any((name, topic) not in self.cursors for topic in positions):
            raise CursorGone(name)
        for topic, (topic_id, position) in positions.items():
            assert self.logs[topic].id == topic_id
            assert position <= self.logs[topic].end, "bad_request: beyond the end"
            cursor = self.cursors[name, topic]
            cursor.next = max(cursor.next, position)
            cursor.until_s = self.now_s + cursor.lease_s
        self.trim()
        return {topic: self._cursor_state(name, topic, created=False) for topic in positions}

    def remove(self, name: str, topics: Iterable[str]) -> None:
        self.calls.append("remove")
        for topic in topics:
            self.cursors.pop((name, topic), None)
        self.trim()

    def backlog(self, name: str) -> int:
        """Messages that the cursor has not acknowledged, in all topics."""
        return sum(
            self._cursor_state(name, topic, created=False).messages
            for of, topic in self.cursors
            if of == name
        )

    def _cursor_state(self, name: str, topic: str, created: bool) -> CursorState:
        position = self.cursors[name, topic].next
        left = [entry for _, entry in self.logs[topic].from_(position)]
        return CursorState(position, sum(map(messages_in, left)), sum(map(len, left)), 0, created)

    def _extent(self, name: str) -> Extent:
        topic = self.logs[name]
        first = topic.ledgers[0]
        return Extent(
            TopicId(topic.id),
            name,
            tuple(
                ledger.extent(estimated=self._is_directory)
                for ledger in topic.ledgers
                if ledger.entries
            ),
            position_at(first.number, 0),
            topic.end,
            first.before,
        )


def bodies(broker: FakeBroker, topic_id: int, first: Position, last: Position) -> list[bytes]:
    """What the entries of a span say; those that are gone are missing."""
    for topic in broker.logs.values():
        if topic.id == topic_id:
            return [
                entry[40:]
                for position, entry in topic.from_(first)
                if position <= last and ledger_of(position) == ledger_of(first)
            ]
    return []
