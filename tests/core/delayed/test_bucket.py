"""A bucket: sealed in segments by number and by time, and found again after any key."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from arneb_core.api.entries.due_key import DueKey, due_key, position_of, time_of
from arneb_core.api.entries.position import Position
from arneb_core.delayed.bucket import (
    all_members,
    count_between,
    cut,
    highest_position,
    keys_between,
    records_between,
    sealed,
)
from arneb_core.store.format.delayed_rows import (
    key_of,
    keys_of,
    records_of,
    unpack_head,
    unpack_members,
    unpack_segment,
)
from arneb_core.store.format.schema import DelayedKind, Table, TopicId, parse_delayed_key

TOPIC = TopicId(3)
KEYS = st.dictionaries(
    st.integers(0, 500).map(Position), st.integers(0, 200), min_size=1, max_size=40
).map(lambda times: sorted(due_key(at_ms, reached) for reached, at_ms in times.items()))
SIZES = st.integers(1, 9)
SPANS = st.integers(1, 80)


@given(KEYS, SIZES, SPANS)
def test_parts_are_whole_in_order_and_within_both_bounds(
    keys: list[DueKey], entries_max: int, span_ms: int
) -> None:
    parts = [keys_of(each) for each in cut(records_of(keys), entries_max, span_ms)]
    assert [key for part in parts for key in part] == keys
    for part in parts:
        assert 1 <= len(part) <= entries_max
        assert time_of(part[-1]) < time_of(part[0]) + span_ms
    for part, following in itertools.pairwise(parts):
        # None is smaller than it must be.
        assert len(part) == entries_max or time_of(following[0]) >= time_of(part[0]) + span_ms


@given(
    KEYS, SIZES, SPANS, st.integers(-1, 201), st.integers(0, 201), st.integers(0, 500),
    st.integers(1, 9),
)  # fmt: skip
def test_rows_say_what_the_bucket_says(
    keys: list[DueKey],
    entries_max: int,
    span_ms: int,
    at_ms: int,
    until_ms: int,
    reached: int,
    limit: int,
) -> None:
    bucket, puts = sealed(TOPIC, 9, keys, entries_max, span_ms)
    rows = {parse_delayed_key(key)[1:]: value for table, key, value in puts if value is not None}
    assert {table for table, _, _ in puts} == {Table.DELAYED}
    assert list(unpack_head(rows.pop((9, DelayedKind.HEAD, 0)))) == list(bucket.spans)
    assert unpack_members(rows.pop((9, DelayedKind.MEMBERS, 0))) == bucket.members
    assert bucket.members == BitMap64(map(position_of, keys))
    assert (bucket.entries, bucket.last) == (len(keys), keys[-1])
    assert highest_position(bucket) == max(map(position_of, keys))
    behind = due_key(max(0, at_ms), Position(reached)) if at_ms >= 0 else DueKey(-1)
    until = max(behind, due_key(until_ms, Position(reached)))
    segments = [rows[each] for each in sorted(rows)]
    parts = [records_between(unpack_segment(row), behind, until) for row in segments]
    found = [key_of(record) for part in parts for record in part]
    assert found == [key for key in keys if behind < key <= until]
    assert_between(segments, keys, behind, until, limit)
    first = bucket.segment_after(behind)
    following = [key for key in keys if key > behind]
    if first is None:
        assert not following
    else:
        assert following[0] in keys_of(unpack_segment(segments[first]))


def assert_between(
    segments: list[bytes], keys: list[DueKey], behind: DueKey, until: DueKey, limit: int
) -> None:
    """What is found of a segment, and counted of it, are those of ``keys`` that are in it."""
    end = DueKey(until + 1)
    for row in segments:
        records = unpack_segment(row)
        its = [key for key in keys_of(records) if key > behind]
        wanted = [key for key in its if key < end][:limit]
        assert keys_between(records, behind, end, limit) == (wanted, (*its, -1)[len(wanted)])
        assert count_between(records, behind, end) == sum(1 for key in its if key < end)


@given(KEYS, SIZES, SPANS)
def test_a_bucket_takes_all_of_its_rows_along(
    keys: list[DueKey], entries_max: int, span_ms: int
) -> None:
    bucket, puts = sealed(TOPIC, 9, keys, entries_max, span_ms)
    assert {key for _, key, value in bucket.removal(TOPIC) if value is None} == {
        key for _, key, _ in puts
    }
    assert all_members([bucket, bucket]) == bucket.members
