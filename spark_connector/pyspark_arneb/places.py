"""The columns that follow from where a message stands, not from what it says.

The rule: a chunk lies in one ledger of one topic, so most of these columns are one value
repeated, made once and sliced; the others are counted up by Arrow. They cost next to
nothing for entries without batches, which is why they are apart from the messages' columns.
"""

from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import pyarrow as pa

from arneb_core.position import ENTRY_MASK, Position, ledger_of
from pyspark_arneb.message_id import message_id_head, message_id_tail, small_varints, varint
from pyspark_arneb.ranges import Span
from pyspark_arneb.schema import Field
from pyspark_arneb.topics import partition_index, short_name, without_partition

NO_BATCH: Final = -1

OFFSET_LEDGER_SHIFT: Final = 36
OFFSET_ENTRY_SHIFT: Final = 16
OFFSET_ENTRIES_MAX: Final = 1 << (OFFSET_LEDGER_SHIFT - OFFSET_ENTRY_SHIFT)
OFFSET_BATCH_MAX: Final = 1 << OFFSET_ENTRY_SHIFT
"""Kafka's offset is one number: 27 bits of ledger, 20 of entry, 16 of batch index."""

CREATE_TIME: Final = 0
"""Kafka's ``timestampType`` of a time that the producer set; 1 is the broker's."""


class Places:
    """The place columns of one span."""

    def __init__(self, span: Span) -> None:
        self._ledger = ledger_of(span.first)
        self._partition = partition_index(span.topic)
        self._repeated: dict[tuple[Field, int], Any] = {}
        self._constants = {
            Field.TOPIC: pa.scalar(span.topic, pa.string()),
            Field.PARTITION: pa.scalar(self._partition, pa.int32()),
            Field.LEDGER_ID: pa.scalar(int(self._ledger), pa.int64()),
            Field.KAFKA_TOPIC: pa.scalar(short_name(without_partition(span.topic)), pa.string()),
            Field.KAFKA_PARTITION: pa.scalar(max(0, self._partition), pa.int32()),
            Field.TIMESTAMP_TYPE: pa.scalar(CREATE_TIME, pa.int32()),
        }

    def column(
        self, field: Field, positions: Sequence[Position], batch_indexes: Sequence[int] | None
    ) -> "pa.Array":
        """One column; ``batch_indexes`` None = no entry is a batch. None for other fields."""
        constant = self._constants.get(field)
        if constant is not None:
            return self._repeat(field, constant, len(positions))
        if field is Field.ENTRY_ID:
            return self._entry_ids(positions)
        if field is Field.BATCH_INDEX:
            if batch_indexes is None:
                return self._repeat(field, pa.scalar(NO_BATCH, pa.int32()), len(positions))
            return pa.array(batch_indexes, pa.int32())
        if field is Field.MESSAGE_ID:
            return self._message_ids(positions, batch_indexes)
        if field is Field.OFFSET:
            return self._offsets(positions, batch_indexes)
        return None

    def _repeat(self, field: Field, value: "pa.Scalar", rows: int) -> "pa.Array":
        known = self._repeated.get((field, 0))
        if known is None or len(known) < rows:
            known = self._repeated[field, 0] = pa.repeat(value, rows)
        return known.slice(0, rows)

    def _entry_ids(self, positions: Sequence[Position]) -> "pa.Array":
        if isinstance(positions, range):
            first = positions[0] & ENTRY_MASK
            return pa.arange(first, first + len(positions))
        return pa.array([place & ENTRY_MASK for place in positions], pa.int64())

    def _message_ids(
        self, positions: Sequence[Position], batch_indexes: Sequence[int] | None
    ) -> "pa.Array":
        head = message_id_head(self._ledger)
        ids = _entry_varints(positions)
        if batch_indexes is None:
            tail = message_id_tail(self._partition, NO_BATCH)
            return _binary([head + entry + tail for entry in ids])
        tails = {index: message_id_tail(self._partition, index) for index in set(batch_indexes)}
        return _binary(
            [head + entry + tails[index] for entry, index in zip(ids, batch_indexes, strict=True)]
        )

    def _offsets(
        self, positions: Sequence[Position], batch_indexes: Sequence[int] | None
    ) -> "pa.Array":
        base = self._ledger << OFFSET_LEDGER_SHIFT
        entries = [place & ENTRY_MASK for place in positions]
        if not batch_indexes:
            offsets = [base + (entry << OFFSET_ENTRY_SHIFT) for entry in entries]
        else:
            offsets = [
                base + (entry << OFFSET_ENTRY_SHIFT) + max(index, 0)
                for entry, index in zip(entries, batch_indexes, strict=True)
            ]
        highest = max(batch_indexes, default=0) if batch_indexes else 0
        if max(entries, default=0) >= OFFSET_ENTRIES_MAX or highest >= OFFSET_BATCH_MAX:
            raise OverflowError(
                f"column offset: expected entry ids below {OFFSET_ENTRIES_MAX} and batch indexes "
                f"below {OFFSET_BATCH_MAX}, got {max(entries)} and {highest} in ledger "
                f"{self._ledger}; use columnStyle arneb or pulsar"
            )
        return pa.array(offsets, pa.int64())


def _entry_varints(positions: Sequence[Position]) -> Sequence[bytes]:
    small = small_varints()
    if isinstance(positions, range):
        first = positions[0] & ENTRY_MASK
        if first + len(positions) <= len(small):
            return small[first : first + len(positions)]
    return [varint(place & ENTRY_MASK) for place in positions]


def _binary(values: list[bytes]) -> "pa.Array":
    """As ``pa.array(values, pa.binary())``, in two thirds of its time for short values."""
    ends = array("i", accumulate(map(len, values), initial=0))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)
