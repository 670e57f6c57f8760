"""A bucket: what is sealed is cut by number and by time, and found again behind any place."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from arneb_core.api.due_key import DueKey, due_key, place_of, time_of
from arneb_core.api.position import Position
from arneb_core.delayed.bucket import all_members, cut, highest_place, records_behind, sealed
from arneb_core.store.delayed_rows import unpack_head, unpack_members, unpack_segment
from arneb_core.store.schema import DelayedKind, Table, TopicId, parse_delayed_key

TOPIC = TopicId(3)
KEYS = st.dictionaries(
    st.integers(0, 500).map(Position), st.integers(0, 200), min_size=1, max_size=40
).map(lambda times: sorted(due_key(at_ms, place) for place, at_ms in times.items()))
SIZES = st.integers(1, 9)
SPANS = st.integers(1, 80)


@given(KEYS, SIZES, SPANS)
def test_parts_are_whole_in_order_and_within_both_bounds(
    keys: list[DueKey], entries_max: int, span_ms: int
) -> None:
    parts = [list(each) for each in cut(keys, entries_max, span_ms)]
    assert [key for part in parts for key in part] == keys
    for part in parts:
        assert 1 <= len(part) <= entries_max
        assert time_of(part[-1]) < time_of(part[0]) + span_ms
    for part, following in itertools.pairwise(parts):
        # None is smaller than it must be.
        assert len(part) == entries_max or time_of(following[0]) >= time_of(part[0]) + span_ms


@given(KEYS, SIZES, SPANS, st.integers(-1, 201), st.integers(0, 500))
def test_rows_say_what_the_bucket_says(
    keys: list[DueKey], entries_max: int, span_ms: int, at_ms: int, place: int
) -> None:
    bucket, puts = sealed(TOPIC, 9, keys, entries_max, span_ms)
    rows = {parse_delayed_key(key)[1:]: value for table, key, value in puts if value is not None}
    assert {table for table, _, _ in puts} == {Table.DELAYED}
    assert list(unpack_head(rows.pop((9, DelayedKind.HEAD, 0)))) == list(bucket.spans)
    assert unpack_members(rows.pop((9, DelayedKind.MEMBERS, 0))) == bucket.members
    assert bucket.members == BitMap64(map(place_of, keys))
    assert (bucket.entries, bucket.last) == (len(keys), keys[-1])
    assert highest_place(bucket) == max(map(place_of, keys))
    behind = due_key(max(0, at_ms), Position(place)) if at_ms >= 0 else DueKey(-1)
    segments = [rows[each] for each in sorted(rows)]
    found = [key for row in segments for key in records_behind(unpack_segment(row), behind)]
    assert found == [key for key in keys if key > behind]
    first = bucket.segment_behind(behind)
    if first is None:
        assert not found
    else:
        assert found[0] in list(records_behind(unpack_segment(segments[first]), DueKey(-1)))


@given(KEYS, SIZES, SPANS)
def test_a_bucket_takes_all_of_its_rows_along(
    keys: list[DueKey], entries_max: int, span_ms: int
) -> None:
    bucket, puts = sealed(TOPIC, 9, keys, entries_max, span_ms)
    assert {key for _, key, value in bucket.removal(TOPIC) if value is None} == {
        key for _, key, _ in puts
    }
    assert all_members([bucket, bucket]) == bucket.members
