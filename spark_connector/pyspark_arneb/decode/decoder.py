"""Chunks of entries as Arrow record batches: one row a message.

The rule: what the bytes of an entry mean is known to its origin's codec alone
(:mod:`arneb_core.api.codec`); this module hands entries to it and bounds what comes back. Runs of
AMQP entries take the short cut of :mod:`pyspark_arneb.decode.amqp_runs`.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Final

import pyarrow as pa

from arneb_core.api.codec import Codec, Message, codecs
from arneb_core.api.entry import ENTRY_FORMAT, HEADER_BYTES, EntryHeader, Origin, read_header
from pyspark_arneb.decode.amqp_runs import amqp_run
from pyspark_arneb.decode.chunks import ROWS_MAX, Chunk
from pyspark_arneb.decode.places import PLACED, Places
from pyspark_arneb.decode.rows import AmqpRows, MessageRows, PlaceRows, Rows, SharedProperties
from pyspark_arneb.plan.ranges import Span
from pyspark_arneb.schema import DEAR, Column, RowFlag, arrow_schema

BATCH_BYTES_MAX: Final = 1 << 20
"""A batch ends with the message whose value takes it past this; an entry that was compressed
may hold far more than it seems to."""

_KIND: Final = itemgetter(slice(0, 2))
_AMQP: Final = {bytes([ENTRY_FORMAT, Origin.AMQP])}


class Decoder:
    """Makes record batches of the chunks of one span."""

    def __init__(self, span: Span, columns: Sequence[Column]) -> None:
        self._places = Places(span)
        self._fields = [column.field for column in columns]
        self._schema = arrow_schema(columns)
        self._needs_properties = not DEAR.isdisjoint(self._fields)
        self._needs_messages = not PLACED.issuperset(self._fields)

    def batches(self, chunk: Chunk) -> Iterator["pa.RecordBatch"]:
        """The chunk's messages, in the log's order.

        Raises :class:`ValueError` on bytes that are no entry, and :class:`LookupError` when
        the codec of an entry's origin is not installed.
        """
        rows = self._short_cut(chunk)
        if rows is not None:
            yield self._batch(rows)
            return
        for decoded in message_rows(chunk, codecs()):
            yield self._batch(decoded)

    def _short_cut(self, chunk: Chunk) -> Rows | None:
        """The chunk's rows, if its entries are AMQP's, each of which is one message."""
        entries = chunk.entries
        if not self._needs_messages and set(map(_KIND, entries)) == _AMQP:
            return PlaceRows(chunk.positions)
        run = amqp_run(entries)
        if run is None or not self._needs_properties:
            return None if run is None else AmqpRows(chunk.positions, run)
        try:
            shared = SharedProperties.of(run, entries, _codec(Origin.AMQP, codecs()))
        except ValueError:
            return None
        return AmqpRows(chunk.positions, run, shared)

    def _batch(self, rows: Rows) -> "pa.RecordBatch":
        indexes = rows.batch_indexes
        arrays = [
            self._places.column(field, rows.positions, indexes)
            if field in PLACED
            else rows.column(field)
            for field in self._fields
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def message_rows(chunk: Chunk, known: Mapping[Origin, Codec]) -> Iterator[MessageRows]:
    """The chunk's messages, at most :data:`ROWS_MAX` and about :data:`BATCH_BYTES_MAX` at once."""
    rows = MessageRows()
    bytes_gathered = 0
    for place, entry in zip(chunk.positions, chunk.entries, strict=True):
        header = read_header(entry)
        messages, flags = _decode(header, entry, known)
        for message in messages:
            rows.add(place, header.origin, flags, message)
            bytes_gathered += len(message.value)
            if len(rows.messages) == ROWS_MAX or bytes_gathered >= BATCH_BYTES_MAX:
                yield rows
                rows = MessageRows()
                bytes_gathered = 0
    if rows.messages:
        yield rows


def _decode(
    header: EntryHeader, entry: bytes, known: Mapping[Origin, Codec]
) -> tuple[Sequence[Message], int]:
    """The entry's messages and the flags of their rows."""
    codec = _codec(header.origin, known)
    try:
        return codec.decode(entry), int(header.flags)
    except ValueError:
        # Encrypted by its producer, or a part of a larger message: the row keeps what there is.
        raw = Message(entry[HEADER_BYTES:], publish_time_ms=header.publish_time_ms)
        return [raw], header.flags | RowFlag.RAW


def _codec(origin: Origin, known: Mapping[Origin, Codec]) -> Codec:
    codec = known.get(origin)
    if codec is None:
        raise LookupError(
            f"no codec for entries of origin {origin.name}: install the distribution "
            "arneb, not only its files, where Spark's executors run"
        )
    return codec
