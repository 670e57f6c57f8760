"""Rows on their way to Arrow: the content of messages, column by column.

The rule: each kind of rows makes the same columns from another form of messages, and never fails on
what a publisher wrote: a time outside the calendar is null, and invalid UTF-8 has replacement
characters.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Final, Protocol

import pyarrow as pa

from arneb_core.api.entries.codec import Codec, ColumnCodec, Message, MessageColumns
from arneb_core.api.entries.entry import HEADER_BYTES, EntryFlag, Origin, read_header
from pyspark_arneb.decode.amqp_runs import AmqpRun, Kind
from pyspark_arneb.decode.headers import (
    DEATHS,
    EXCHANGE_NAME,
    kafka_headers,
    property_maps,
    texts,
    typed_headers,
)
from pyspark_arneb.decode.heads import PUBLISHED_OFFSET, Heads
from pyspark_arneb.decode.places import NO_BATCH
from pyspark_arneb.decode.times import times_of_column, times_of_ms
from pyspark_arneb.schema import Field, RowFlag

TIMESTAMP_TYPES: Final = {Origin.AMQP: 1, Origin.PULSAR: 0, Origin.BROKER: 1}
"""Kafka's ``timestampType``: 0 = the producer's clock, 1 = the broker's."""

HEADED: Final = frozenset({Field.DELIVER_AT, Field.EXPIRES_AT})
"""Fields that are in the headers of entries, whatever their origin."""

FROM_PROPERTIES: Final[Mapping[Field, Callable[[Sequence[Mapping[str, str]]], pa.Array]]] = {
    Field.PROPERTIES: property_maps,
    Field.HEADERS: typed_headers,
    Field.KAFKA_HEADERS: kafka_headers,
}

KINDS_KNOWN_MAX: Final = 4096
"""Property lists that one task caches."""


class Rows(Protocol):
    """Some rows, from which columns can be made."""

    @property
    def positions(self) -> Sequence[int]:
        """The position of each row's entry."""
        ...

    @property
    def batch_indexes(self) -> Sequence[int] | None:
        """Each row's index in its entry; None = no entry is a batch."""
        ...

    def column(self, field: Field) -> pa.Array:
        """Return a column that does not follow from the position."""
        ...


@dataclass(frozen=True, slots=True)
class SingleRows:
    """Rows of entries with one message each, when no column needs the bodies."""

    positions: Sequence[int]
    heads: Heads
    batch_indexes: Sequence[int] | None = None

    def column(self, field: Field) -> pa.Array:
        return head_column(field, self.heads)


@dataclass(frozen=True, slots=True)
class BatchRows:
    """Rows of entries with any number of messages, when no column needs the bodies."""

    positions: Sequence[int]
    heads: Heads
    counts: Sequence[int]
    batch_indexes: Sequence[int]

    def column(self, field: Field) -> pa.Array:
        return repeated(head_column(field, self.heads), self.counts)


def head_column(field: Field, heads: Heads) -> pa.Array:
    """Return one of the columns :data:`HEADED`, for each entry."""
    if field is Field.DELIVER_AT:
        return heads.deliver_at()
    assert field is Field.EXPIRES_AT, f"{field} does not stand in the header"
    return heads.expires_at()


def repeated(column: pa.Array, counts: Sequence[int]) -> pa.Array:
    """Expand a column of entries to one of rows."""
    if max(counts, default=1) == 1:
        return column
    if column.null_count == len(column):
        return pa.nulls(sum(counts), column.type)
    return column.take(pa.array(list(each_repeated(range(len(counts)), counts)), pa.int32()))


def each_repeated(items: Sequence[int], counts: Sequence[int]) -> Sequence[int]:
    """Repeat each item as often as its count says."""
    if max(counts, default=1) == 1:  # no count is 0
        return items
    return list(chain.from_iterable(map(repeat, items, counts)))


class KnownProperties:
    """The properties of AMQP messages, cached by kind, because many messages have the same."""

    __slots__ = ("_codec", "_known")

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._known: dict[Kind, Mapping[str, str]] = {}

    def __repr__(self) -> str:
        return f"<KnownProperties of {len(self._known)} kinds>"

    def of(self, run: AmqpRun, entries: Sequence[bytes]) -> "SharedProperties":
        """Return the properties of a run; one entry of each new kind is decoded.

        Raises :class:`ValueError` when the codec cannot decode one of them.
        """
        indices, kinds = run.kinds()
        if len(self._known) > KINDS_KNOWN_MAX:
            self._known.clear()
        if not self._known.keys() >= set(kinds):
            for number, entry in zip(indices.to_pylist(), entries, strict=True):
                if kinds[number] not in self._known:
                    (message,) = self._codec.decode(entry)
                    self._known[kinds[number]] = message.properties
        return SharedProperties([self._known[kind] for kind in kinds], indices)


@dataclass(frozen=True, slots=True)
class SharedProperties:
    """The properties of messages, many of which share them."""

    different: Sequence[Mapping[str, str]]
    indices: pa.Array
    """For each message, the index of its properties."""

    def column(self, make: Callable[[Sequence[Mapping[str, str]]], pa.Array]) -> pa.Array:
        """Return a column that follows from the properties."""
        return make(self.different).take(self.indices)


@dataclass(frozen=True, slots=True)
class AmqpRows:
    """Rows of a run of AMQP entries: one message each."""

    positions: Sequence[int]
    heads: Heads
    run: AmqpRun
    properties: SharedProperties | None = None
    """None: no column needs them."""
    batch_indexes: None = None

    def column(self, field: Field) -> pa.Array:
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
            case Field.SEQUENCE_ID | Field.SCHEMA_VERSION:
                return pa.nulls(rows, pa.int64())
            case Field.FLAGS:
                return self.run.flags()
            case Field.EXCHANGE:
                return self.run.exchanges()
            case Field.ORDERING_KEY:
                return pa.nulls(rows, pa.binary())
            case Field.DELIVER_AT | Field.EXPIRES_AT:
                return head_column(field, self.heads)
            case Field.TIMESTAMP_TYPE:
                return pa.repeat(pa.scalar(TIMESTAMP_TYPES[Origin.AMQP], pa.int32()), rows)
        if field in DEATHS:
            if self.properties is None or not self.heads.have(EntryFlag.DEAD_LETTERED):
                return pa.nulls(rows, pa.string())
            found = self.properties.column(lambda each: death_texts(field, each)).to_pylist()
            return of_flagged(found, self.heads.flags)
        assert self.properties is not None, f"{field} was not asked for"
        return self.properties.column(FROM_PROPERTIES[field])


def death_texts(field: Field, properties: Sequence[Mapping[str, str]]) -> pa.Array:
    """Return a column of the dead-letter headers."""
    return texts([each.get(DEATHS[field]) for each in properties])


def of_flagged(items: Sequence[str | None], flags: Sequence[int]) -> pa.Array:
    """Keep only the items of dead letters: in other messages the headers were set by the publisher
    and prove nothing."""
    pairs = zip(items, flags, strict=True)
    return pa.array([i if f & EntryFlag.DEAD_LETTERED else None for i, f in pairs], pa.string())


@dataclass(frozen=True, slots=True)
class MessageRows:
    """Rows of the messages of entries of one origin, field by field."""

    origin: Origin
    positions: Sequence[int]
    heads: Heads
    counts: Sequence[int]
    columns: MessageColumns

    @property
    def batch_indexes(self) -> Sequence[int] | None:
        indexes = self.columns.batch_indexes
        return None if indexes.count(NO_BATCH) == len(indexes) else indexes

    def column(self, field: Field) -> pa.Array:
        columns = self.columns
        rows = len(columns.values)
        match field:
            case Field.KEY:
                return pa.array(columns.keys, pa.binary())
            case Field.VALUE:
                return pa.array(columns.values, pa.binary())
            case Field.PUBLISH_TIME if self.origin is Origin.AMQP:
                published = times_of_column(self.heads.numbers(PUBLISHED_OFFSET, 8))
                return repeated(published, self.counts)
            case Field.PUBLISH_TIME:
                return times_of_ms(columns.publish_times_ms)
            case Field.EVENT_TIME:
                return times_of_ms(columns.event_times_ms)
            case Field.PRODUCER_NAME:
                return _names(columns.producer_names)
            case Field.SEQUENCE_ID:
                return _sequence_ids(columns.sequence_ids)
            case Field.FLAGS:
                return self._flags()
            case Field.ORDERING_KEY:
                return _optional(columns.ordering_keys, pa.binary())
            case Field.SCHEMA_VERSION:
                return _versions(columns.schema_versions)
            case Field.EXCHANGE:
                return self._exchanges()
            case Field.DELIVER_AT | Field.EXPIRES_AT:
                return repeated(head_column(field, self.heads), self.counts)
            case Field.TIMESTAMP_TYPE:
                return pa.repeat(pa.scalar(TIMESTAMP_TYPES[self.origin], pa.int32()), rows)
        if field in DEATHS:
            if not self.heads.have(EntryFlag.DEAD_LETTERED):
                return pa.nulls(rows, pa.string())
            flags = each_repeated(self.heads.flags, self.counts)
            return of_flagged(death_texts(field, columns.properties).to_pylist(), flags)
        return FROM_PROPERTIES[field](columns.properties)

    def _flags(self) -> pa.Array:
        flags: list[int] = list(self.heads.flags)
        for index in self.columns.raw:
            flags[index] |= RowFlag.RAW
        return repeated(pa.array(flags, pa.int32()), self.counts)

    def _exchanges(self) -> pa.Array:
        rows = len(self.columns.values)
        if self.origin is not Origin.AMQP:
            return pa.nulls(rows, pa.string())
        names: list[str | None] = [each.get(EXCHANGE_NAME, "") for each in self.columns.properties]
        for index in self.columns.raw:  # AMQP's entries are one row each
            names[index] = None
        return texts(names)


def decoded(
    codec: Codec, entries: Sequence[bytes], *, properties: bool, bytes_max: int
) -> MessageColumns:
    """Decode entries of the codec's origin until their values take ``bytes_max`` bytes;
    ``columns.entries`` says how many entries that were, at least one."""
    if isinstance(codec, ColumnCodec):
        return codec.decode_columns(entries, properties=properties, bytes_max=bytes_max)
    columns = MessageColumns()
    bytes_read = 0
    for entry in entries:
        bytes_read += _add(columns, codec, entry)
        columns.entries += 1
        if bytes_read >= bytes_max:
            break
    return columns


def _add(columns: MessageColumns, codec: Codec, entry: bytes) -> int:
    """Add the messages of an entry; return their size."""
    header = read_header(entry)
    messages: Sequence[Message] = ()
    with suppress(ValueError):
        messages = codec.decode(entry)
    if len(messages) != header.messages:
        indexes = range(header.messages) if header.messages > 1 else (-1,)
        columns.add_raw(entry[HEADER_BYTES:], header.publish_time_ms, indexes)
        return len(entry)
    for message in messages:
        columns.add(message)
    return sum(len(message.value) for message in messages)


def _sequence_ids(numbers: Sequence[int]) -> pa.Array:
    """Unsigned sequence ids as Spark's signed longs, as Java's clients show them; null for -1."""
    try:
        column = pa.array(numbers, pa.uint64())
    except (OverflowError, pa.ArrowInvalid):
        return pa.array([_signed(number) for number in numbers], pa.int64())
    return column.view(pa.int64())


def _signed(number: int) -> int | None:
    if number == -1:
        return None
    return number - (1 << 64) if number >= 1 << 63 else number


def _names(names: Sequence[str]) -> pa.Array:
    """Return names as a column, null where empty; mostly they are one producer's."""
    if len(set(names)) == 1:
        return texts([names[0] or None]).take(pa.array([0] * len(names), pa.int8()))
    return texts([name or None for name in names])


def _optional(items: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    return pa.nulls(len(items), kind) if not any(items) else pa.array(items, kind)


def _versions(versions: Sequence[bytes | None]) -> pa.Array:
    """Return schema versions as the numbers that brokers assign; null where there is none."""
    if not any(versions):
        return pa.nulls(len(versions), pa.int64())
    numbers = {
        version: int.from_bytes(version, "big", signed=True)
        if version is not None and len(version) == 8
        else None
        for version in set(versions)
    }
    return pa.array([numbers[version] for version in versions], pa.int64())
