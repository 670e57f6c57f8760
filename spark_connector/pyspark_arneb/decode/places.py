"""The columns that follow from a message's position, not from its content.

The rule: a chunk lies in one ledger of one topic, so most of these columns are one value repeated,
made once and sliced; Arrow computes the others by counting. They cost next to nothing for entries
without batches, which is why they are separate from the messages' columns.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from arneb_core.api.entries.ledger_ids import LedgerIds
from arneb_core.api.entries.position import ENTRY_MASK, ledger_of
from pyspark_arneb.decode.message_id import message_id_head, message_id_tail, varint
from pyspark_arneb.log.topics import partition_index, short_name, without_partition
from pyspark_arneb.plan.ranges import Span
from pyspark_arneb.schema import Field

NO_BATCH: Final = -1

OFFSET_LEDGER_SHIFT: Final = 36
OFFSET_ENTRY_SHIFT: Final = 16
OFFSET_ENTRIES_MAX: Final = 1 << (OFFSET_LEDGER_SHIFT - OFFSET_ENTRY_SHIFT)
OFFSET_BATCH_MAX: Final = 1 << OFFSET_ENTRY_SHIFT
"""Kafka's offset is one number: 27 bits of ledger, 20 of entry, 16 of batch index."""

PLACED: Final = frozenset(
    {
        Field.TOPIC,
        Field.PARTITION,
        Field.LEDGER_ID,
        Field.ENTRY_ID,
        Field.BATCH_INDEX,
        Field.MESSAGE_ID,
        Field.KAFKA_TOPIC,
        Field.KAFKA_PARTITION,
        Field.OFFSET,
    }
)
"""The fields whose columns are made here."""


class Places:
    """The place columns of one span."""

    def __init__(self, span: Span) -> None:
        self._ledger = ledger_of(span.first)
        self._shown = LedgerIds(span.topic_id).of(self._ledger)
        """The ledger in message ids."""
        self._partition = partition_index(span.topic)
        self._repeated: dict[Field, Any] = {}
        self._constants = {
            Field.TOPIC: pa.scalar(span.topic, pa.string()),
            Field.PARTITION: pa.scalar(self._partition, pa.int32()),
            Field.LEDGER_ID: pa.scalar(int(self._ledger), pa.int64()),
            Field.KAFKA_TOPIC: pa.scalar(short_name(without_partition(span.topic)), pa.string()),
            Field.KAFKA_PARTITION: pa.scalar(max(0, self._partition), pa.int32()),
        }

    def __repr__(self) -> str:
        return f"<Places in ledger {self._ledger}>"

    def column(
        self, field: Field, positions: Sequence[int], batch_indexes: Sequence[int] | None
    ) -> "pa.Array":
        """Return the column of one of the fields :data:`PLACED`; ``batch_indexes`` None: no entry
        is a batch."""
        constant = self._constants.get(field)
        if constant is not None:
            return self._repeat(field, constant, len(positions))
        match field:
            case Field.ENTRY_ID:
                return self._entry_ids(positions)
            case Field.BATCH_INDEX if batch_indexes is None:
                return self._repeat(field, pa.scalar(NO_BATCH, pa.int32()), len(positions))
            case Field.BATCH_INDEX:
                return pa.array(batch_indexes, pa.int32())
            case Field.MESSAGE_ID:
                return self._message_ids(positions, batch_indexes)
            case Field.OFFSET:
                return self._offsets(positions, batch_indexes)
        raise AssertionError(f"{field} does not follow from the place")

    def _repeat(self, field: Field, value: "pa.Scalar", rows: int) -> "pa.Array":
        known = self._repeated.get(field)
        if known is None or len(known) < rows:
            known = self._repeated[field] = pa.repeat(value, rows)
        return known.slice(0, rows)

    def _entry_ids(self, positions: Sequence[int]) -> "pa.Array":
        if isinstance(positions, range):
            first = positions[0] & ENTRY_MASK
            return pa.arange(first, first + len(positions))
        return pa.array([place & ENTRY_MASK for place in positions], pa.int64())

    def _message_ids(
        self, positions: Sequence[int], batch_indexes: Sequence[int] | None
    ) -> "pa.Array":
        head = message_id_head(self._shown)
        if batch_indexes is None and isinstance(positions, range):
            tail = message_id_tail(self._partition, NO_BATCH)
            return _counted_ids(head, positions[0] & ENTRY_MASK, len(positions), tail)
        ids = {place: head + varint(place & ENTRY_MASK) for place in set(positions)}
        if batch_indexes is None:
            tail = message_id_tail(self._partition, NO_BATCH)
            return pa.array([ids[place] + tail for place in positions], pa.binary())
        tails = {index: message_id_tail(self._partition, index) for index in set(batch_indexes)}
        return pa.array(
            [
                ids[place] + tails[index]
                for place, index in zip(positions, batch_indexes, strict=True)
            ],
            pa.binary(),
        )

    def _offsets(self, positions: Sequence[int], batch_indexes: Sequence[int] | None) -> "pa.Array":
        base = self._ledger << OFFSET_LEDGER_SHIFT
        highest = max(positions) & ENTRY_MASK
        indexes = [max(index, 0) for index in batch_indexes or ()]
        if highest >= OFFSET_ENTRIES_MAX or max(indexes, default=0) >= OFFSET_BATCH_MAX:
            raise OverflowError(
                f"column offset: expected entry ids below {OFFSET_ENTRIES_MAX} and batch indexes "
                f"below {OFFSET_BATCH_MAX}, got {highest} and {max(indexes, default=0)} in ledger "
                f"{self._ledger}; use columnStyle arneb or pulsar"
            )
        step = 1 << OFFSET_ENTRY_SHIFT
        if isinstance(positions, range) and not indexes:
            first = base + (positions[0] & ENTRY_MASK) * step
            return pa.arange(first, first + len(positions) * step, step)
        offsets = [
            base + (place & ENTRY_MASK) * step + index
            for place, index in zip(positions, indexes or [0] * len(positions), strict=True)
        ]
        return pa.array(offsets, pa.int64())


def _counted_ids(head: bytes, first: int, count: int, tail: bytes) -> "pa.Array":
    """Return the ids of consecutive entries, made as columns of bytes: ids whose varints are
    equally long differ only in the varints' bytes."""
    parts: list[pa.Array] = []
    end = first + count
    while first < end:
        size = len(varint(first))
        stop = min(end, 1 << 7 * size)
        parts.append(_equally_long_ids(head, first, stop - first, size, tail))
        first = stop
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _equally_long_ids(head: bytes, first: int, count: int, size: int, tail: bytes) -> "pa.Array":
    width = len(head) + size + len(tail)
    ids = bytearray((head + bytes(size) + tail) * count)
    for index in range(size):
        more = 0x80 if index < size - 1 else 0
        ids[len(head) + index :: width] = _varint_bytes(first, count, 7 * index, more)
    buffers = [None, pa.py_buffer(ids)]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), count, buffers).cast(pa.binary())


def _varint_bytes(first: int, count: int, shift: int, more: int) -> bytes:
    """Return seven bits of each of the consecutive numbers, with the continuation bit."""
    step = 1 << shift
    values = range(first >> shift, (first + count - 1 >> shift) + 1)
    cycle = bytes(value & 0x7F | more for value in values[:0x80])
    skipped = first & step - 1
    if step == 1:
        return (cycle * (count // len(cycle) + 1))[:count]
    return b"".join(bytes([value & 0x7F | more]) * step for value in values)[skipped:][:count]
