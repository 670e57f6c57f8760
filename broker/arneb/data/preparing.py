"""Preparing: rows are made into entries, in the format of their target's protocol.

The rule: what needs the event loop is looked up before (:class:`Aim`), and the rest is done in a
thread, so that a body of any size costs the loop next to nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from arneb.data.errors import bad_request
from arneb.data.prepared import Destination, Prepared
from arneb.data.rows import Rows
from arneb_amqp.topology.row_entries import EntryMaker, Kind, RowRefused
from arneb_core.api.entries.codec import Message
from arneb_pulsar.rows import PRODUCER, make_entries, make_entry, partition_of

NO_ROWS: Final[tuple[Message, ...]] = ()


@dataclass(frozen=True, slots=True)
class AmqpAim:
    """Rows that become AMQP messages. With ``topic`` they go there without routing; ``key`` is for
    rows without a key."""

    vhost: str
    exchange: str
    key: bytes
    topic: str | None = None
    fixed: bool = False
    """Whether ``key``, a queue's name, overrides the rows' keys."""


@dataclass(frozen=True, slots=True)
class PulsarAim:
    """Rows that become Pulsar messages; the key chooses one of several partitions."""

    topics: tuple[str, ...]


Aim = AmqpAim | PulsarAim


def prepare(rows: Rows, aims: Sequence[Aim], now_ms: int) -> Prepared:
    """Make entries of rows, with one of ``aims`` for each target. Raises :class:`.DataError`."""
    return _Preparing(rows, aims, now_ms).prepared()


class _Preparing:
    """One body of rows in preparation."""

    def __init__(self, rows: Rows, aims: Sequence[Aim], now_ms: int) -> None:
        self._rows = rows
        self._aims = aims
        self._now_ms = now_ms
        self._maker = EntryMaker(rows.properties)
        self._into = Prepared(rows.count)
        self._known: dict[Destination, int] = {}
        self._ways: dict[tuple[int, bytes, Kind], int] = {}
        self._pulsar: dict[str, list[Message]] = {}
        self._turn = 0

    def prepared(self) -> Prepared:
        rows, aims, into = self._rows, self._aims, self._into
        columns = zip(
            rows.column("value", None),
            rows.column("key", None),
            rows.column("ordering_key", None),
            rows.column("target", 0),
            rows.column("properties", -1),
            rows.column("event_time_ms", 0),
            rows.column("deliver_at_ms", 0),
            rows.column("priority", 0),
            strict=True,
        )
        try:
            for value, key, ordering_key, target, properties, event_ms, due_ms, priority in columns:
                aim = aims[target]
                if isinstance(aim, AmqpAim):
                    kind = self._maker.kind(properties, event_ms, priority, null=value is None)
                    routed = aim.key if key is None or aim.fixed else key
                    into.entries.append(
                        self._maker.entry(aim.exchange, routed, value or b"", kind, due_ms)
                    )
                    way = target, routed, kind
                    index = self._ways.get(way)
                    into.going.append(self._way(way) if index is None else index)
                else:
                    message = self._message(value, key, ordering_key, properties, event_ms)
                    self._put(aim, message, due_ms)
        except RowRefused as refused:
            raise bad_request(str(refused)) from refused
        for topic in list(self._pulsar):
            self._flush(topic)
        into.expires = self._maker.expires
        into.delays = into.delays or self._maker.delays
        into.destinations = list(self._known)
        return into

    def _way(self, way: tuple[int, bytes, Kind]) -> int:
        target, key, kind = way
        aim = self._aims[target]
        assert isinstance(aim, AmqpAim), "only AMQP routes"
        if aim.topic is not None:
            destination = Destination(topic=aim.topic)
        else:
            routing_key = key.decode("utf-8", "surrogateescape")
            destination = Destination(
                None, aim.vhost, aim.exchange, routing_key, kind.copies, kind.headers.hex()
            )
        self._ways[way] = index = self._index(destination)
        return index

    def _index(self, destination: Destination) -> int:
        return self._known.setdefault(destination, len(self._known))

    def _message(
        self,
        value: bytes | None,
        key: bytes | None,
        ordering_key: bytes | None,
        properties: int,
        event_time_ms: int,
    ) -> Message:
        given = self._rows.properties[properties] if properties >= 0 else {}
        return Message(
            value or b"",
            key,
            ordering_key,
            {name: each if isinstance(each, str) else _text(each) for name, each in given.items()},
            self._now_ms,
            event_time_ms,
            PRODUCER,
            is_null=value is None,
        )

    def _put(self, aim: PulsarAim, message: Message, due_ms: int) -> None:
        key = message.key if message.ordering_key is None else message.ordering_key
        if len(aim.topics) == 1:
            topic = aim.topics[0]
        elif message.key:
            topic = aim.topics[partition_of(message.key, len(aim.topics))]
        else:
            # As Pulsar clients do: one partition for a batch, which is a body here.
            topic = aim.topics[self._now_ms % len(aim.topics)]
        if due_ms:
            self._flush(topic)
            self._into.entries.append(make_entry([message], key, due_ms))
            self._into.going.append(self._index(Destination(topic=topic)))
            self._into.delays = True
        else:
            self._pulsar.setdefault(topic, []).append(message)

    def _flush(self, topic: str) -> None:
        """Make entries of the rows so far for ``topic``, to keep their order."""
        made = make_entries(self._pulsar.pop(topic, NO_ROWS))
        self._into.entries += made
        self._into.going += [self._index(Destination(topic=topic))] * len(made)


def _text(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
