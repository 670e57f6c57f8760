"""Chunks of entries as Arrow record batches: one row a message.

The rule: only the codec of an entry's origin (:mod:`arneb_core.api.entries.codec`) knows what its
bytes mean; this module passes entries to it and bounds the results. Runs of AMQP entries take the
short cut of :mod:`pyspark_arneb.decode.amqp_runs`. An entry's number of rows follows from its
header, so it never depends on which columns are read.
"""

from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Final

import pyarrow as pa

from arneb_core.api.entries.codec import Codec, ColumnCodec, codecs
from arneb_core.api.entries.entry import EntryFlag, Origin
from pyspark_arneb.decode.amqp_runs import amqp_run
from pyspark_arneb.decode.chunks import ROWS_MAX, Chunk, Damage
from pyspark_arneb.decode.headers import DEATHS
from pyspark_arneb.decode.heads import Heads, different
from pyspark_arneb.decode.places import NO_BATCH, PLACED, Places
from pyspark_arneb.decode.rows import (
    FROM_PROPERTIES,
    HEADED,
    AmqpRows,
    BatchRows,
    KnownProperties,
    MessageRows,
    Rows,
    SingleRows,
    decoded,
    each_repeated,
)
from pyspark_arneb.plan.ranges import Span
from pyspark_arneb.schema import Column, Field, RowFlag, arrow_schema
from pyspark_arneb.values.forms import ValueForm

BATCH_BYTES_MAX: Final = 1 << 20
"""A batch ends with the entry whose values take it past this many bytes: a compressed entry may
hold far more than its size suggests."""

_INDEXED: Final = frozenset({Field.BATCH_INDEX, Field.MESSAGE_ID, Field.OFFSET})
"""The fields for which a batch of one message differs from a single message."""


class Decoder:
    """Converts the chunks of one span to record batches."""

    def __init__(
        self, span: Span, columns: Sequence[Column], form: ValueForm | None = None
    ) -> None:
        """``form`` says how values are converted; None: they stay bytes."""
        self._places = Places(span)
        self._columns = tuple(columns)
        self._fields = frozenset(column.field for column in columns)
        self._schema = arrow_schema(columns)
        self._needs_bodies = not self._fields <= (PLACED | HEADED)
        self._needs_indexes = not _INDEXED.isdisjoint(self._fields)
        self._form = form
        self._codecs = codecs()
        self._known: KnownProperties | None = None

    def __repr__(self) -> str:
        return f"<Decoder of {', '.join(column.name for column in self._columns)}>"

    def batches(self, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Yield the chunk's messages, in the log's order.

        Raises :class:`LookupError` when the codec of an entry's origin is not installed.
        """
        origins = different(chunk.heads.origins)
        if len(origins) == 1:
            (origin,) = origins
            for rows in self._rows(Origin(origin), chunk):
                yield from sliced(self._batch(rows))
        else:
            yield from self._mixed(chunk, sorted(origins))

    def damaged(self, damage: Damage) -> pa.RecordBatch:
        """Return the one row for damage: its first position, and the stored bytes."""
        flags = pa.array([RowFlag.RAW | RowFlag.CORRUPT], pa.int32())
        arrays: list[pa.Array] = []
        for column in self._columns:
            if column.field in PLACED:
                arrays.append(self._places.column(column.field, [damage.first], None))
            elif column.field is Field.FLAGS:
                arrays.append(flags)
            elif column.field is Field.VALUE and column.type == pa.binary():
                arrays.append(pa.array([damage.stored], pa.binary()))
            else:
                arrays.append(pa.nulls(1, column.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _mixed(self, chunk: Chunk, origins: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """Decode a chunk of several origins: each origin in one go, then put into order."""
        found: list[pa.RecordBatch] = []
        places: list[tuple[int, int]] = []
        for origin in origins:
            part = chunk.picked([each == origin for each in chunk.heads.origins])
            assert part is not None, "there are entries of each of the origins"
            for rows in self._rows(Origin(origin), part):
                indexes = rows.batch_indexes or [0] * len(rows.positions)
                places += zip(rows.positions, indexes, strict=True)
                found.append(self._batch(rows))
        order = sorted(range(len(places)), key=places.__getitem__)
        table = pa.Table.from_batches(found, self._schema).take(pa.array(order, pa.int32()))
        for batch in table.combine_chunks().to_batches():
            yield from sliced(batch)

    def _rows(self, origin: Origin, chunk: Chunk) -> Iterator[Rows]:
        """Yield the chunk's rows; all its entries are of ``origin``."""
        if not self._needs_bodies:
            yield from self._unread(origin, chunk)
            return
        codec = self._codec(origin)
        if origin is Origin.AMQP:
            short = self._short_cut(codec, chunk)
            if short is not None:
                yield short
                return
        properties = self._needs_properties(origin, chunk.heads)
        for start, stop in groups(chunk.heads.messages):
            while start < stop:
                columns = decoded(
                    codec, chunk.entries[start:stop], properties=properties,
                    bytes_max=BATCH_BYTES_MAX,
                )  # fmt: skip
                end = start + columns.entries
                heads = chunk.heads.part(start, end)
                counts = heads.messages
                places = each_repeated(chunk.positions[start:end], counts)
                yield MessageRows(origin, places, heads, counts, columns)
                start = end

    def _unread(self, origin: Origin, chunk: Chunk) -> Iterator[Rows]:
        """Yield the rows when no column needs the bodies."""
        if chunk.heads.are_single:
            found = self._single_indexes(origin, chunk.entries)
            yield SingleRows(chunk.positions, chunk.heads, found)
            return
        messages = chunk.heads.messages
        for start, stop in groups(messages):
            heads = chunk.heads.part(start, stop)
            counts = messages[start:stop]
            singles = self._single_indexes(origin, chunk.entries[start:stop])
            indexes: list[int] = []
            for count, single in zip(counts, singles or repeat(NO_BATCH), strict=False):
                indexes += range(count) if count > 1 else (single,)
            places = each_repeated(chunk.positions[start:stop], counts)
            yield BatchRows(places, heads, counts, indexes)

    def _single_indexes(self, origin: Origin, entries: Sequence[bytes]) -> Sequence[int] | None:
        """Return for each entry the batch index of its message, if it has only one; None if no
        entry is a batch or no column needs it."""
        codec = self._codec(origin)
        if not self._needs_indexes or not isinstance(codec, ColumnCodec):
            return None
        found = codec.are_batches(entries)
        return [NO_BATCH + each for each in found] if any(found) else None

    def _short_cut(self, codec: Codec, chunk: Chunk) -> Rows | None:
        run = amqp_run(chunk.entries)
        if run is None or not self._needs_properties_of_run(chunk.heads):
            return None if run is None else AmqpRows(chunk.positions, chunk.heads, run)
        if self._known is None:
            self._known = KnownProperties(codec)
        try:
            shared = self._known.of(run, chunk.entries)
        except ValueError:
            return None
        return AmqpRows(chunk.positions, chunk.heads, run, shared)

    def _needs_properties_of_run(self, heads: Heads) -> bool:
        """Return whether the columns of a run of AMQP entries need their properties."""
        if not self._fields.isdisjoint(FROM_PROPERTIES):
            return True
        return not self._fields.isdisjoint(DEATHS) and heads.have(EntryFlag.DEAD_LETTERED)

    def _needs_properties(self, origin: Origin, heads: Heads) -> bool:
        """Return whether the columns need the messages' properties."""
        named = origin is Origin.AMQP and Field.EXCHANGE in self._fields
        return named or self._needs_properties_of_run(heads)

    def _codec(self, origin: Origin) -> Codec:
        codec = self._codecs.get(origin)
        if codec is None:
            raise LookupError(
                f"no codec for entries of origin {origin.name}: install the distribution "
                "arneb, not only its files, where Spark's executors run"
            )
        return codec

    def _batch(self, rows: Rows) -> pa.RecordBatch:
        indexes = rows.batch_indexes
        arrays = [
            self._places.column(field, rows.positions, indexes)
            if field in PLACED
            else self._value(rows)
            if field is Field.VALUE
            else rows.column(field)
            for field in (column.field for column in self._columns)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _value(self, rows: Rows) -> pa.Array:
        values = rows.column(Field.VALUE)
        if self._form is None:
            return values
        versions = rows.column(Field.SCHEMA_VERSION)
        return self._form.read(values.to_pylist(), versions.to_pylist())


def groups(messages: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield ranges of entries that become at most :data:`ROWS_MAX` rows, or are one entry."""
    start = rows = 0
    for index, count in enumerate(messages):
        if rows and rows + count > ROWS_MAX:
            yield start, index
            start, rows = index, 0
        rows += count
    yield start, len(messages)


def sliced(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch in parts of at most :data:`ROWS_MAX` rows and about
    :data:`BATCH_BYTES_MAX`."""
    rows = ROWS_MAX
    if batch.nbytes > 2 * BATCH_BYTES_MAX:
        rows = min(rows, max(1, batch.num_rows * BATCH_BYTES_MAX // batch.nbytes))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
