"""Sealing in slices makes the same bucket as sealing all at once."""

from collections.abc import Callable, Sequence
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from arneb_core.api.entries.due_key import DueKey, TimedRun, due_key, time_of
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed
from arneb_core.api.topics.settings import DelayedSettings
from arneb_core.delayed import sealing
from arneb_core.delayed.bucket import Bucket, Put, sealed
from arneb_core.delayed.sealing import SLICE_ENTRIES, Sealing, slices
from arneb_core.delayed.segment_store import Segments, SegmentStore
from arneb_core.delayed.sorted_runs import SortedRuns, records_of_keys
from arneb_core.delayed.unsealed import SORTED_AT_ONCE, UnsealedKeys
from arneb_core.store.format.schema import TopicId

TOPIC = TopicId(7)
TODAY_MS = 1_795_000_000_000
SMALL = DelayedSettings(segment_entries=3, segment_ms=20)

times = st.lists(st.integers(0, 99), min_size=1, max_size=40)


def keys_at(times: Sequence[int]) -> list[DueKey]:
    return [due_key(time, Position(position)) for position, time in enumerate(times)]


class Turns:
    """A store that is asked for nothing but the next turn, which comes at once."""

    total = 0

    def get(self, names: Sequence[object], then: Callable[[Segments | StoreFailed], None]) -> None:
        assert not names
        self.total += 1
        then({})


def made(parts: Sequence[Sequence[DueKey]], settings: DelayedSettings) -> tuple[Bucket, list[Put]]:
    found: list[tuple[Bucket, list[Put]]] = []
    runs = SortedRuns(parts, records_of_keys, None)
    making = Sealing(TOPIC, 5, runs, settings, cast(SegmentStore, Turns()))
    making.start(lambda bucket, puts: found.append((bucket, list(puts))), lambda error: None)
    (only,) = found
    return only


@given(st.lists(times, min_size=1, max_size=6), st.integers(1, 9))
def test_slices_are_all_keys_in_order_and_none_is_long(times: list[list[int]], size: int) -> None:
    numbered = iter(range(1000))
    parts = [sorted(due_key(each, Position(next(numbered))) for each in some) for some in times]
    found = list(slices(parts, size))
    assert [key for each in found for key in each] == sorted(key for part in parts for key in part)
    assert all(found)
    assert max(map(len, found)) <= 2 * max(size, len(parts))


@given(times, st.integers(1, 5), st.integers(1, 9))
def test_the_bucket_is_that_of_all_keys_at_once(times: list[int], parts: int, size: int) -> None:
    keys = keys_at(times)
    expected = sealed(TOPIC, 5, sorted(keys), SMALL.segment_entries, SMALL.segment_ms)
    with_size, sealing.SLICE_ENTRIES = sealing.SLICE_ENTRIES, size  # type: ignore[misc]
    try:
        assert (
            made([sorted(keys[n::parts]) for n in range(min(parts, len(keys)))], SMALL) == expected
        )
    finally:
        sealing.SLICE_ENTRIES = with_size  # type: ignore[misc]


@given(st.lists(times, max_size=5), st.booleans())
def test_the_parts_of_what_is_in_memory_are_sorted_and_all_of_it(
    added: list[list[int]], asked: bool
) -> None:
    unsealed, expected, position = UnsealedKeys(), list[DueKey](), 0
    for some in added:
        keys = [due_key(time, Position(position + n)) for n, time in enumerate(some)]
        position += len(keys)
        if keys:
            unsealed.add(keys, min(keys))
        expected += keys
        if asked:
            unsealed.keys()
    parts = unsealed.sorted_runs().parts if expected else []
    assert all(list(part) == sorted(part) and part for part in parts)
    assert sorted(key for part in parts for key in part) == sorted(expected)


@pytest.mark.parametrize("as_runs", [False, True])
def test_what_came_in_no_order_is_packed_a_slice_a_turn(as_runs: bool) -> None:
    unsealed, count = UnsealedKeys(), 3 * SORTED_AT_ONCE + 5
    keys = [due_key(TODAY_MS + n * 7919 % 100_003, Position(n)) for n in range(count)]
    for start in range(0, count, 1000):
        part = keys[start : start + 1000]
        if as_runs:
            stamps = b"".join(time_of(key).to_bytes(8, "big") for key in part)
            unsealed.add_run(TimedRun(Position(start), stamps, min(part)))
        else:
            unsealed.add(part, min(part))
    parts, records, members = unsealed.sorted_runs()
    assert len(parts) >= 3
    # No key was made of what came as runs.
    assert isinstance(parts[0][0], float) == as_runs
    assert (members == BitMap64(range(count))) == as_runs
    assert b"".join(map(records, slices(parts, SLICE_ENTRIES))) == records_of_keys(sorted(keys))
    assert max(map(len, slices(parts, SLICE_ENTRIES))) <= 2 * SLICE_ENTRIES
