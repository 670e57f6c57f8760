"""Chunks of entries as Arrow record batches: one row a message.

The rule: what the bytes of an entry mean is known to its origin's codec alone
(:mod:`arneb_core.codec`); this module lines messages up into columns. Runs of AMQP entries
take the short cut of :mod:`pyspark_arneb.amqp_runs`.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from arneb_core.codec import Codec, Message, codecs
from arneb_core.entry import HEADER_BYTES, EntryHeader, Origin, read_header
from arneb_core.position import Position
from pyspark_arneb.amqp_runs import AmqpRun
from pyspark_arneb.chunks import ROWS_MAX, Chunk
from pyspark_arneb.places import Places
from pyspark_arneb.ranges import Span
from pyspark_arneb.schema import DEAR, Column, Field, RowFlag, arrow_schema

BATCH_BYTES_MAX: Final = 1 << 20
"""A batch ends with the message with which its keys and values exceed this."""

TIME_MS_MAX: Final = 253_402_300_799_999
"""The last ms of the year 9999, the last that Spark shows. A publisher may write any number
into its timestamp; one beyond this is null instead of failing the query."""

_MS: Final = pa.timestamp("ms", "UTC")
_US: Final = pa.timestamp("us", "UTC")


class Rows(Protocol):
    """Some rows, from which columns can be made."""

    @property
    def positions(self) -> Sequence[Position]:
        """Where each row's entry stands."""
        ...

    @property
    def batch_indexes(self) -> Sequence[int] | None:
        """Each row's index in its entry; None = no entry is a batch."""
        ...

    def column(self, field: Field) -> "pa.Array":
        """A column that depends on what the messages say."""
        ...


class Decoder:
    """Makes record batches of the chunks of one span."""

    def __init__(self, span: Span, columns: Sequence[Column]) -> None:
        self._places = Places(span)
        self._fields = [column.field for column in columns]
        self._schema = arrow_schema(columns)
        self._needs_codec = not DEAR.isdisjoint(self._fields)

    def batches(self, chunk: Chunk) -> Iterator["pa.RecordBatch"]:
        """The chunk's messages, in the log's order.

        Raises :class:`ValueError` on bytes that are no entry, and :class:`LookupError` when
        the codec of an entry's origin is not installed.
        """
        run = None if self._needs_codec else AmqpRun.of(chunk.entries)
        if run is not None:
            yield self._batch(AmqpRows(chunk.positions, run))
            return
        for rows in message_rows(chunk, codecs()):
            yield self._batch(rows)

    def _batch(self, rows: Rows) -> "pa.RecordBatch":
        arrays = [
            placed if (placed := self._place(field, rows)) is not None else rows.column(field)
            for field in self._fields
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _place(self, field: Field, rows: Rows) -> "pa.Array":
        return self._places.column(field, rows.positions, rows.batch_indexes)


@dataclass(frozen=True, slots=True)
class AmqpRows:
    """Rows of a run of AMQP entries: one message each."""

    positions: Sequence[Position]
    run: AmqpRun
    batch_indexes: None = None

    def column(self, field: Field) -> "pa.Array":
        rows = len(self.positions)
        match field:
            case Field.KEY:
                return self.run.keys()
            case Field.VALUE:
                return self.run.values()
            case Field.PUBLISH_TIME:
                return _times(self.run.publish_times_ms())
            case Field.EVENT_TIME:
                times = self.run.event_times_ms()
                return pa.nulls(rows, _US) if times is None else _optional_times(times)
            case Field.PRODUCER_NAME:
                return pa.nulls(rows, pa.string())
            case Field.SEQUENCE_ID:
                return pa.nulls(rows, pa.int64())
            case Field.FLAGS:
                return pa.array(self.run.flags(), pa.int32())
        raise AssertionError(f"{field} is no column of an AMQP run")


@dataclass(frozen=True, slots=True)
class MessageRows:
    """Rows of any messages, as parallel lists."""

    positions: list[Position] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    flags: list[int] = field(default_factory=list)

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
                return _optional_times([m.publish_time_ms for m in messages])
            case Field.EVENT_TIME:
                return _optional_times([m.event_time_ms or None for m in messages])
            case Field.PRODUCER_NAME:
                return _texts([m.producer_name or None for m in messages])
            case Field.SEQUENCE_ID:
                return pa.array([_signed(m.sequence_id) for m in messages], pa.int64())
            case Field.FLAGS:
                return pa.array(self.flags, pa.int32())
            case Field.PROPERTIES:
                return _maps([m.properties for m in messages])
            case Field.HEADERS:
                return _headers([m.properties for m in messages])
        raise AssertionError(f"{field} is no column of a message")


def message_rows(chunk: Chunk, known: Mapping[Origin, Codec]) -> Iterator[MessageRows]:
    """The chunk's messages in batches that keep the bounds of rows and bytes; a compressed
    entry may hold far more than it seems to."""
    rows = MessageRows()
    bytes_gathered = 0
    for place, entry in zip(chunk.positions, chunk.entries, strict=True):
        header = read_header(entry)
        messages, flags = _decode(header, entry, known)
        for message in messages:
            rows.positions.append(place)
            rows.messages.append(message)
            rows.flags.append(flags)
            bytes_gathered += len(message.value)
            if len(rows.messages) == ROWS_MAX or bytes_gathered >= BATCH_BYTES_MAX:
                yield rows
                rows = MessageRows()
                bytes_gathered = 0
    if rows.messages:
        yield rows


def _decode(
    header: EntryHeader, entry: bytes, known: Mapping[Origin, Codec]
) -> tuple[list[Message], int]:
    """The entry's messages and the flags of their rows."""
    codec = known.get(header.origin)
    if codec is None:
        raise LookupError(
            f"no codec for entries of origin {header.origin.name}: install the distribution "
            "arneb, not only its files, where Spark's executors run"
        )
    try:
        return codec.decode(entry), int(header.flags)
    except ValueError:
        # Encrypted by its producer, or damaged by it: the row keeps what there is.
        raw = Message(entry[HEADER_BYTES:], publish_time_ms=header.publish_time_ms)
        return [raw], header.flags | RowFlag.RAW


def _times(times_ms: "array[int]") -> "pa.Array":
    """Times that the broker wrote itself."""
    numbers = pa.Array.from_buffers(pa.int64(), len(times_ms), [None, pa.py_buffer(times_ms)])
    return numbers.view(_MS).cast(_US)


def _optional_times(times_ms: Sequence[int | None]) -> "pa.Array":
    if any(time is not None and time > TIME_MS_MAX for time in times_ms):
        times_ms = [None if time is None or time > TIME_MS_MAX else time for time in times_ms]
    return pa.array(times_ms, _MS).cast(_US)


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
    kind = pa.map_(pa.string(), pa.string())
    try:
        return pa.array([list(row.items()) for row in properties], kind)
    except UnicodeEncodeError:
        return pa.array(
            [[(_printable(k), _printable(v)) for k, v in row.items()] for row in properties], kind
        )


def _headers(properties: list[Mapping[str, str]]) -> "pa.Array":
    """As Kafka's source: an array of key and value, null when there are none."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    rows: list[Any] = [
        [
            {"key": _printable(key), "value": value.encode("utf-8", "surrogateescape")}
            for key, value in row.items()
        ]
        or None
        for row in properties
    ]
    return pa.array(rows, kind)
