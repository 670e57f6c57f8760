"""Rows on their way to Arrow: what the messages say, column by column.

The rule: each kind of rows makes the same columns from another form of messages, and never
fails on what a publisher wrote: a time that no calendar has is null, a text that is no UTF-8
has replacement characters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from arneb_core.api.codec import Codec, Message
from arneb_core.api.entry import Origin
from pyspark_arneb.decode.amqp_runs import AmqpRun
from pyspark_arneb.decode.times import times_of_ms
from pyspark_arneb.schema import Field

TIMESTAMP_TYPES: Final = {Origin.AMQP: 1, Origin.PULSAR: 0}
"""Kafka's ``timestampType``: 0 = the producer's clock, 1 = the broker's."""

_MAP: Final = pa.map_(pa.string(), pa.string())
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Rows(Protocol):
    """Some rows, from which columns can be made."""

    @property
    def positions(self) -> Sequence[int]:
        """Where each row's entry stands."""
        ...

    @property
    def batch_indexes(self) -> Sequence[int] | None:
        """Each row's index in its entry; None = no entry is a batch."""
        ...

    def column(self, field: Field) -> "pa.Array":
        """A column that does not follow from the place."""
        ...


@dataclass(frozen=True, slots=True)
class PlaceRows:
    """Rows of which nobody asks what they say; no entry is a batch."""

    positions: Sequence[int]
    batch_indexes: None = None

    def column(self, field: Field) -> "pa.Array":
        raise AssertionError(f"{field} was not asked for")


@dataclass(frozen=True, slots=True)
class SharedProperties:
    """The properties of many messages, of which many have the same."""

    different: list[Mapping[str, str]]
    indexes: list[int]
    """For each message, which of them are its own."""

    @classmethod
    def of(cls, run: AmqpRun, entries: Sequence[bytes], codec: Codec) -> "SharedProperties":
        """Decode one entry of each kind, for the property list is the slowest part of it.

        Raises :class:`ValueError` when there is one that the codec cannot decode.
        """
        shared = cls([], [])
        numbers: dict[object, int] = {}
        for kind, entry in zip(run.kinds(), entries, strict=True):
            number = numbers.setdefault(kind, len(numbers))
            if number == len(shared.different):
                (message,) = codec.decode(entry)
                shared.different.append(message.properties)
            shared.indexes.append(number)
        return shared


@dataclass(frozen=True, slots=True)
class AmqpRows:
    """Rows of a run of AMQP entries: one message each."""

    positions: Sequence[int]
    run: AmqpRun
    properties: SharedProperties | None = None
    """None = nobody asks for them."""
    batch_indexes: None = None

    def column(self, field: Field) -> "pa.Array":
        rows = len(self.positions)
        match field:
            case Field.KEY:
                return self.run.keys()
            case Field.VALUE:
                return self.run.values()
            case Field.PUBLISH_TIME:
                return self.run.publish_times()
            case Field.EVENT_TIME:
                return self.run.event_times()
            case Field.PRODUCER_NAME:
                return pa.nulls(rows, pa.string())
            case Field.SEQUENCE_ID:
                return pa.nulls(rows, pa.int64())
            case Field.FLAGS:
                return self.run.flags()
            case Field.TIMESTAMP_TYPE:
                return pa.repeat(pa.scalar(TIMESTAMP_TYPES[Origin.AMQP], pa.int32()), rows)
            case Field.PROPERTIES if self.properties is not None:
                return _maps(self.properties.different).take(pa.array(self.properties.indexes))
            case Field.HEADERS if self.properties is not None:
                return _headers(self.properties.different).take(pa.array(self.properties.indexes))
        raise AssertionError(f"{field} is no column of an AMQP run")


@dataclass(frozen=True, slots=True)
class MessageRows:
    """Rows of any messages, as parallel lists."""

    positions: list[int] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)

    def add(self, place: int, origin: Origin, flags: int, message: Message) -> None:
        """One row more."""
        self.positions.append(place)
        self.origins.append(origin)
        self.flags.append(flags)
        self.messages.append(message)

    @property
    def batch_indexes(self) -> list[int]:
        return [message.batch_index for message in self.messages]

    def column(self, field: Field) -> "pa.Array":
        messages = self.messages
        match field:
            case Field.KEY:
                return pa.array([m.key for m in messages], pa.binary())
            case Field.VALUE:
                return pa.array([m.value for m in messages], pa.binary())
            case Field.PUBLISH_TIME:
                return times_of_ms([m.publish_time_ms for m in messages])
            case Field.EVENT_TIME:
                return times_of_ms([m.event_time_ms for m in messages])
            case Field.PRODUCER_NAME:
                return _texts([m.producer_name or None for m in messages])
            case Field.SEQUENCE_ID:
                return pa.array([_signed(m.sequence_id) for m in messages], pa.int64())
            case Field.FLAGS:
                return pa.array(self.flags, pa.int32())
            case Field.TIMESTAMP_TYPE:
                return pa.array([TIMESTAMP_TYPES[origin] for origin in self.origins], pa.int32())
            case Field.PROPERTIES:
                return _maps([m.properties for m in messages])
            case Field.HEADERS:
                return _headers([m.properties for m in messages])
        raise AssertionError(f"{field} is no column of a message")


def _signed(number: int) -> int | None:
    """An unsigned sequence id as Spark's signed long, as Java's clients show it; null for -1."""
    if number == -1:
        return None
    return number - (1 << 64) if number >= 1 << 63 else number


def _texts(texts: list[str | None]) -> "pa.Array":
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if text is None else _printable(text) for text in texts], pa.string())


def _printable(text: str) -> str:
    """The text with what was no UTF-8 on the wire replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _maps(properties: list[Mapping[str, str]]) -> "pa.Array":
    try:
        return pa.array([list(row.items()) for row in properties], _MAP)
    except UnicodeEncodeError:
        printable = [[(_printable(k), _printable(v)) for k, v in p.items()] for p in properties]
        return pa.array(printable, _MAP)


def _headers(properties: list[Mapping[str, str]]) -> "pa.Array":
    """As Kafka's source: an array of key and value, null when there are none."""
    rows: list[Any] = [
        [
            {"key": _printable(key), "value": value.encode("utf-8", "surrogateescape")}
            for key, value in row.items()
        ]
        or None
        for row in properties
    ]
    return pa.array(rows, _HEADERS)
