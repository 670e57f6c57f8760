"""Due keys: they sort as moments do, and within a moment as the log does."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.due_key import (
    AFTER_ALL_TIME,
    BEFORE_ALL_TIME,
    due_key,
    end_of,
    keys_in,
    position_of,
    positions_in,
    time_of,
)
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position

times = st.integers(1, 2**64 - 2)
positions = st.integers(0, 2**64 - 1).map(Position)
moments = st.tuples(times, positions)


@given(moments)
def test_a_key_says_when_and_where(moment: tuple[int, Position]) -> None:
    key = due_key(*moment)
    assert (time_of(key), position_of(key)) == moment
    assert BEFORE_ALL_TIME < key < end_of(moment[0]) < AFTER_ALL_TIME


@given(moments, moments)
def test_keys_sort_by_time_and_then_by_place(
    one: tuple[int, Position], other: tuple[int, Position]
) -> None:
    assert (due_key(*one) < due_key(*other)) == (one < other)
    assert (due_key(*one) < end_of(other[0])) == (one[0] <= other[0])


@given(st.lists(moments))
def test_places_are_in_log_order(found: list[tuple[int, Position]]) -> None:
    keys = [due_key(*each) for each in found]
    assert positions_in(keys) == sorted(position for _, position in found)


@given(st.integers(0, 2**40).map(Position), st.lists(st.just(0) | times, max_size=9))
def test_only_delayed_entries_of_a_run_have_keys(first: Position, at_ms: list[int]) -> None:
    entries = [EntryHeader(Origin.AMQP, 1, deliver_at_ms=each).pack() for each in at_ms]
    wanted = [due_key(when, Position(first + i)) for i, when in enumerate(at_ms) if when]
    assert keys_in(first, entries) == wanted
