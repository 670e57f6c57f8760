"""A bucket: a sealed part of an index, on disk, in time-sorted segments.

The rule: a bucket is written once and never changed; it is merged into a larger one or removed.
In memory are its head (where each segment begins and ends) and the positions of its entries, a few
bytes per thousand entries; the segments are read when they come due.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.entries.due_key import DueKey, due_key, time_of
from arneb_core.api.entries.position import Position
from arneb_core.store.format.delayed_rows import (
    RECORD_BYTES,
    Span,
    key_of,
    keys_of,
    pack_head,
    pack_members,
    pack_segment,
    positions_of,
    records_of,
    split_records,
)
from arneb_core.store.format.schema import DelayedKind, Table, TopicId, bucket_key, segment_key

Put = tuple[Table, bytes, bytes | None]

BUCKET_ID_MAX: Final = 0xFFFFFFFF


@dataclass(slots=True)
class Bucket:
    """What is known of a bucket without reading its segments."""

    id: int
    spans: Sequence[Span]
    members: BitMap64
    last_keys: list[DueKey] = field(init=False)
    entries: int = field(init=False)
    is_merging: bool = False
    """Its keys are being written into a larger bucket; it stays until that is done."""

    def __post_init__(self) -> None:
        self.last_keys = [span.last for span in self.spans]
        self.entries = sum(span.entries for span in self.spans)

    def __repr__(self) -> str:
        return f"<Bucket {self.id}: {self.entries} entries, {len(self.spans)} segments>"

    @property
    def last(self) -> DueKey:
        """The last key."""
        return self.last_keys[-1]

    def segment_after(self, reached: DueKey) -> int | None:
        """Return the first segment that has keys after ``reached``."""
        index = bisect_right(self.last_keys, reached)
        return index if index < len(self.spans) else None

    def removal(self, topic_id: TopicId) -> list[Put]:
        """Return the deletions of its rows."""
        keys = [bucket_key(topic_id, self.id, DelayedKind.HEAD)]
        keys.append(bucket_key(topic_id, self.id, DelayedKind.MEMBERS))
        keys += [segment_key(topic_id, self.id, index) for index in range(len(self.spans))]
        return [(Table.DELAYED, key, None) for key in keys]


class BucketWriter:
    """Makes the rows of a new bucket, segment by segment."""

    def __init__(self, topic_id: TopicId, bucket_id: int, members: BitMap64 | None = None) -> None:
        """``members``: the positions of all its entries, if they are known."""
        assert 0 < bucket_id <= BUCKET_ID_MAX, "four billion buckets a topic"
        self._topic_id = topic_id
        self._id = bucket_id
        self._spans: list[Span] = []
        self._knows_members = members is not None
        self._members = BitMap64() if members is None else members

    def __repr__(self) -> str:
        return f"<BucketWriter {self._id} of topic {self._topic_id}, {len(self._spans)} spans>"

    def add(self, records: bytes) -> Put:
        """Return the row of the next segment, made of ``records``."""
        row = segment_key(self._topic_id, self._id, len(self._spans))
        first, last = key_of(records[:RECORD_BYTES]), key_of(records[-RECORD_BYTES:])
        self._spans.append(Span(first, last, len(records) // RECORD_BYTES))
        if not self._knows_members:
            self._members.update(positions_of(records))
        return Table.DELAYED, row, pack_segment(records)

    def finish(self) -> tuple[Bucket, list[Put]]:
        """Return the bucket, and the rows that complete it."""
        self._members.run_optimize()
        bucket = Bucket(self._id, self._spans, self._members)
        head = bucket_key(self._topic_id, self._id, DelayedKind.HEAD)
        members = bucket_key(self._topic_id, self._id, DelayedKind.MEMBERS)
        return bucket, [
            (Table.DELAYED, head, pack_head(self._spans)),
            (Table.DELAYED, members, pack_members(self._members)),
        ]


def sealed(
    topic_id: TopicId, bucket_id: int, keys: Sequence[DueKey], segment_entries: int, segment_ms: int
) -> tuple[Bucket, list[Put]]:
    """Make a bucket of ``keys``, which are sorted; return it and all its rows."""
    writer = BucketWriter(topic_id, bucket_id)
    records = records_of(keys)
    puts = [writer.add(part) for part in cut(records, segment_entries, segment_ms)]
    bucket, rows = writer.finish()
    return bucket, puts + rows


def cut(records: bytes, entries_max: int, span_ms: int) -> Iterator[bytes]:
    """Cut sorted records into parts of at most ``entries_max`` entries and ``span_ms`` of time."""
    numbers, key_at, start = _numbers(records), _key_at(records), 0
    while start < len(numbers):
        end = due_key(time_of(key_at(start)) + span_ms, Position(0))
        most = min(len(numbers), start + entries_max)
        stop = bisect_left(numbers, int(end), start, most, key=key_at)
        yield records[start * RECORD_BYTES : stop * RECORD_BYTES]
        start = stop


def records_between(records: bytes, reached: DueKey, last: DueKey) -> Sequence[bytes]:
    """Return the records of a segment after ``reached`` and up to ``last``, one by one."""
    numbers, key_at = _numbers(records), _key_at(records)
    start = bisect_right(numbers, int(reached), key=key_at)
    stop = bisect_right(numbers, int(last), start, key=key_at)
    return split_records(records[start * RECORD_BYTES : stop * RECORD_BYTES])


def keys_between(
    records: bytes, reached: DueKey, end: DueKey, limit: int
) -> tuple[list[DueKey], int]:
    """Return at most ``limit`` keys of a segment after ``reached`` and before ``end``, and the
    first key that follows those, -1 for none."""
    numbers, key_at = _numbers(records), _key_at(records)
    start = bisect_right(numbers, int(reached), key=key_at)
    stop = bisect_left(numbers, int(end), start, min(len(numbers), start + limit), key=key_at)
    following = key_at(stop) if stop < len(numbers) else -1
    return keys_of(memoryview(records)[start * RECORD_BYTES : stop * RECORD_BYTES]), following


def count_between(records: bytes, reached: DueKey, end: DueKey) -> int:
    """Count the keys of a segment after ``reached`` and before ``end``."""
    numbers, key_at = _numbers(records), _key_at(records)
    start = bisect_right(numbers, int(reached), key=key_at)
    return bisect_left(numbers, int(end), start, key=key_at) - start


def _numbers(records: bytes) -> range:
    return range(len(records) // RECORD_BYTES)


def _key_at(records: bytes) -> Callable[[int], int]:
    """Return a function that gives the key of a record by its number."""
    return lambda number: int.from_bytes(
        records[number * RECORD_BYTES : (number + 1) * RECORD_BYTES], "big"
    )


def all_members(buckets: Sequence[Bucket]) -> BitMap64:
    """Return the positions of the entries of ``buckets``."""
    members = BitMap64()
    for each in buckets:
        members |= each.members
    return members


def highest_position(bucket: Bucket) -> Position:
    """Return the last of its entries in the log."""
    return Position(bucket.members.max())
