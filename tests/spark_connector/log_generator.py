"""Data directories for the connector's tests and measurements, written straight to the store.

The rule: no broker and no frontend takes part, so the entries of AMQP origin are composed
here from their layout (arneb_core's decision on bodies in wire form) with pamqp as second
opinion; the rows are written as the engine writes them. Run as a script it makes a log of
AMQP entries: ``python log_generator.py DIRECTORY ROWS [VALUE_BYTES]``.
"""

import os
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self

from pamqp.commands import Basic
from pamqp.header import ContentHeader

from arneb_core.api.entries.entry import EntryFlag, EntryHeader, Origin, messages_in
from arneb_core.api.entries.position import LedgerId, Position, ledger_of, position_at
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import LedgerRecord, TopicRecord, pack_number
from arneb_core.store.format.schema import (
    META_NEXT_TOPIC_ID,
    Table,
    TopicId,
    ledger_key,
    topic_key,
)

START_MS: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z, the publish time of the first entry."""
PREFIX: Final = "persistent://public/default/"


def amqp_entry(
    value: bytes,
    *,
    routing_key: bytes = b"orders",
    exchange: bytes = b"",
    properties: Basic.Properties | None = None,
    publish_time_ms: int = START_MS,
    channel: int = 1,
    flags: EntryFlag = EntryFlag.NONE,
) -> bytes:
    """An entry as the AMQP frontend stores it."""
    route = bytes((len(exchange),)) + exchange + bytes((len(routing_key),)) + routing_key
    header = ContentHeader(0, len(value), properties or Basic.Properties(delivery_mode=2))
    body = frame(2, channel, header.marshal()) + (frame(3, channel, value) if value else b"")
    head = EntryHeader(
        Origin.AMQP, flags=flags, publish_time_ms=publish_time_ms, hint=len(route)
    ).pack()
    return head + route + b"\xce" + body


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """A whole AMQP frame."""
    head = bytes((kind,)) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big")
    return head + payload + b"\xce"


def pulsar_entry(body: bytes, *, messages: int = 1, publish_time_ms: int = START_MS) -> bytes:
    """An entry as the Pulsar frontend stores it; ``body`` is headersAndPayload."""
    header = EntryHeader(Origin.PULSAR, messages=messages, publish_time_ms=publish_time_ms)
    return header.pack() + body


def moment(ms: int) -> datetime:
    """A time in ms as Python's."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


@dataclass(slots=True)
class _Topic:
    id: TopicId
    next: Position
    record: LedgerRecord = field(default_factory=lambda: LedgerRecord(START_MS))
    fresh: bool = True
    """The ledger's record is not written yet."""

    def count(self, entries: Sequence[bytes]) -> None:
        """Note what was committed."""
        self.fresh = False
        self.next = Position(self.next + len(entries))
        self.record = replace(
            self.record,
            entries=self.record.entries + len(entries),
            messages=self.record.messages + sum(map(messages_in, entries)),
            bytes_total=self.record.bytes_total + sum(map(len, entries)),
        )


class LogWriter:
    """Writes topics, ledgers and entries as the broker's engine does."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._store = Store.open(path)
        self._topics: dict[str, _Topic] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._store.close()

    def close(self) -> None:
        """Close the store, as a broker does when it stops."""
        self._store.close()

    def create(self, name: str, *, first_ledger: int = 1) -> None:
        """Make a topic; ``name`` is short or full."""
        full = full_topic(name)
        number = len(self._topics) + 1
        self._topics[full] = _Topic(TopicId(number), position_at(first_ledger, 0))
        self._store.commit(
            Changes(
                puts=[
                    (Table.CATALOG, topic_key(full), TopicRecord(TopicId(number)).pack()),
                    (Table.META, META_NEXT_TOPIC_ID, pack_number(number + 1)),
                ]
            )
        )

    def adopt(self, name: str, *, ledger: int, entries: int) -> None:
        """Go on with the first topic of an existing log: its open ledger has ``entries``."""
        topic = _Topic(TopicId(1), position_at(ledger, entries), fresh=False)
        with self._store.snapshot() as snapshot:
            stored = snapshot.get(Table.LEDGERS, self._key(topic))
        assert stored is not None, f"expected ledger {ledger} of {name}, got none"
        topic.record = replace(LedgerRecord.unpack(stored), entries=entries, messages=entries)
        self._topics[full_topic(name)] = topic

    def append(self, name: str, entries: Sequence[bytes]) -> Position:
        """Commit a run to the open ledger; the position of its first entry."""
        first = self._topics[full_topic(name)].next
        self.append_all({name: entries})
        return first

    def append_all(
        self, runs: Mapping[str, Sequence[bytes]], *, shared: Sequence[bytes] = ()
    ) -> None:
        """Commit a run to each of several topics, atomically; ``shared`` are kept once."""
        changes = Changes(shared=list(shared))
        for name, entries in runs.items():
            topic = self._topics[full_topic(name)]
            changes.blocks.append((topic.id, topic.next, list(entries)))
            if topic.fresh:
                changes.puts.append((Table.LEDGERS, self._key(topic), topic.record.pack()))
        self._store.commit(changes)
        for name, entries in runs.items():
            self._topics[full_topic(name)].count(entries)

    def roll(self, name: str, *, now_ms: int = START_MS) -> None:
        """Close the open ledger; the next append opens another."""
        topic = self._topics[full_topic(name)]
        closed = replace(topic.record, closed_ms=now_ms)
        self._store.commit(Changes(puts=[(Table.LEDGERS, self._key(topic), closed.pack())]))
        topic.next = position_at(ledger_of(topic.next) + 1, 0)
        ever = topic.record.messages_before + topic.record.messages
        topic.record, topic.fresh = LedgerRecord(now_ms, messages_before=ever), True

    def trim(self, name: str, ledger: int, *, keep_record: bool = False) -> None:
        """Remove a closed ledger; with ``keep_record`` only its blocks."""
        topic = self._topics[full_topic(name)]
        number = LedgerId(ledger)
        last = Position(position_at(ledger + 1, 0) - 1)
        changes = Changes(trims=[(topic.id, position_at(ledger, 0), last)])
        if not keep_record:
            changes.deletes.append((Table.LEDGERS, ledger_key(topic.id, number)))
        report = self._store.commit(changes)
        while report.trims_left:
            report = self._store.commit(Changes())

    def _key(self, topic: _Topic) -> bytes:
        return ledger_key(topic.id, ledger_of(topic.next))


def full_topic(name: str) -> str:
    return name if "://" in name else PREFIX + name


def write_log(
    path: str | os.PathLike[str],
    name: str,
    rows: int,
    *,
    value_bytes: int = 256,
    ledger_entries: int = 50_000,
    commit_entries: int = 500,
) -> None:
    """A topic of ``rows`` AMQP messages with random bodies, a ms apart."""
    bodies = random.Random(rows)
    with LogWriter(path) as writer:
        writer.create(name)
        for start in range(0, rows, commit_entries):
            if start and start % ledger_entries == 0:
                writer.roll(name, now_ms=START_MS + start)
            ends = range(start, min(start + commit_entries, rows))
            writer.append(name, list(_entries(bodies, ends, value_bytes)))


def _entries(bodies: random.Random, numbers: Iterable[int], value_bytes: int) -> Iterable[bytes]:
    for number in numbers:
        yield amqp_entry(bodies.randbytes(value_bytes), publish_time_ms=START_MS + number)


if __name__ == "__main__":
    directory, row_count, *sizes = sys.argv[1:]
    write_log(Path(directory), "orders", int(row_count), value_bytes=int(*sizes or ["256"]))
