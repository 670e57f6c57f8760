"""Ordering: the first of very many, compared with a plain sort."""

from collections.abc import Sequence
from typing import Any

import trio
from hypothesis import given
from hypothesis import strategies as st

from arneb.http.management.figures.freshness import (
    REUSE_FACTOR,
    SHORT_S,
    SPARING_FACTOR,
    SPARING_S,
    Pause,
    Work,
    fresh_for_s,
)
from arneb.http.management.lists import ordering
from arneb.http.management.lists.ordering import (
    FIGURES_PER_TURN,
    MERGED_PER_TURN,
    SPARE,
    Orders,
    comparable,
    in_order,
)

FIGURES = st.one_of(
    st.lists(st.integers(0, 3), max_size=30),
    st.lists(st.sampled_from(["", "a", "b"]), max_size=30),
    st.lists(st.booleans(), max_size=30),
    st.lists(st.none() | st.integers(-2, 2), max_size=30),
    st.lists(st.none() | st.integers(-2, 2) | st.booleans() | st.text("ab", max_size=2)),
)


async def no_pause() -> None:
    """Gives others a turn at once."""


@given(FIGURES, st.integers(0, 31), st.booleans(), st.integers(1, 5))
def test_the_first_are_those_of_a_plain_sort(
    figures: list[Any], end: int, reverse: bool, at_once: int
) -> None:
    items = list(enumerate(figures))
    found = trio.run(sorted_by_pieces, items, end, reverse, at_once)
    plain = sorted(items, key=lambda item: (comparable(item[1]), item[0]), reverse=reverse)
    assert found == plain[:end]


async def sorted_by_pieces(
    items: list[Any], end: int, reverse: bool, at_once: int
) -> list[tuple[int, Any]]:
    before, ordering.FIGURES_PER_TURN = ordering.FIGURES_PER_TURN, at_once  # type: ignore[misc]
    try:
        return await in_order(
            items, lambda item: item[1], no_pause, end=end, reverse=reverse, at_once=at_once
        )
    finally:
        ordering.FIGURES_PER_TURN = before  # type: ignore[misc]


async def test_very_many_are_sorted_in_turns_and_each_is_read_once() -> None:
    looked, pauses, most, since = 0, 0, 0, 0

    async def pause() -> None:
        nonlocal pauses, most, since
        pauses, most, since = pauses + 1, max(most, since), 0

    def figure(number: int) -> int:
        nonlocal looked, since
        looked, since = looked + 1, since + 1
        return number * 7919 % 50_021

    found = await in_order(range(50_000), figure, pause, end=100)
    assert found == sorted(range(50_000), key=lambda number: number * 7919 % 50_021)[:100]
    assert looked == 50_000
    assert most <= FIGURES_PER_TURN
    assert pauses >= 50_000 // FIGURES_PER_TURN


async def test_an_order_that_took_long_is_cached_for_a_while_and_no_longer() -> None:
    now, looked = 0.0, list[int]()

    async def find(some: Sequence[int], pause: Pause) -> list[int]:
        nonlocal now
        now += 1e-6 * len(some)
        looked.append(len(some))
        return list(some)[:10]

    orders, items = Orders(lambda: now), list(range(50_000))

    async def ask(key: str) -> Sequence[int]:
        return await orders.kept(key, 1, items, 5, find, no_pause)

    for _ in range(3):
        assert await ask("a") == list(range(10))
    assert looked == [50_000, 10, 10], "values are looked up once, then only sorted"
    await ask("b")
    assert looked == [50_000, 10, 10, 50_000]
    now += SPARING_S
    await ask("a")
    assert looked[4:] == [50_000]


async def test_known_objects_are_in_the_order_of_their_current_values() -> None:
    now, figures = 0.0, {name: number for number, name in enumerate("abcdef")}

    async def find(some: Sequence[str], pause: Pause) -> list[str]:
        nonlocal now
        now += 0.1
        return await in_order(some, figures.__getitem__, no_pause, end=3)

    orders = Orders(lambda: now)
    assert await orders.kept("k", 1, "abcdef", 2, find, no_pause) == ["a", "b", "c"]
    figures["a"] = 9
    assert await orders.kept("k", 1, "abcdef", 2, find, no_pause) == ["b", "c", "a"]


async def test_the_turns_of_others_do_not_count_as_work() -> None:
    now = 0.0

    async def others() -> None:
        nonlocal now
        now += 5.0

    work = Work(others, lambda: now)
    now += 0.1
    await work.pause()
    now += 0.2
    await work.pause()
    assert round(work.took_s, 9) == 0.3
    assert "0.3000 s" in repr(work)


async def test_how_long_an_order_is_cached_depends_on_the_work_it_took() -> None:
    now, busy_s, looked = 0.0, 5.0, list[int]()

    async def others() -> None:
        nonlocal now
        now += busy_s

    async def find(some: Sequence[int], pause: Pause) -> list[int]:
        nonlocal now
        now += 0.01
        await pause()
        looked.append(len(some))
        return list(some)[:9]

    orders = Orders(lambda: now)
    await orders.kept("k", 1, range(100), 1, find, others)
    busy_s = 0.0
    for later_s in (1.9, 0.2):
        now += later_s
        await orders.kept("k", 1, range(100), 1, find, others)
    assert looked == [100, 9, 100]


@given(st.floats(0, 0.03) | st.floats(0, 1000))
def test_repeated_sorting_takes_a_fiftieth_of_the_time_at_most(took_s: float) -> None:
    fresh_s = fresh_for_s(took_s)
    assert took_s <= SHORT_S if not fresh_s else fresh_s >= REUSE_FACTOR * took_s
    assert fresh_s <= max(SPARING_S, REUSE_FACTOR * took_s), (
        "the order is no older than the time to make it allows"
    )
    if SHORT_S < took_s <= SPARING_S / SPARING_FACTOR:
        assert fresh_s >= SPARING_FACTOR * took_s * 0.999


@given(st.data(), st.integers(1, 5), st.integers(0, 4), st.booleans())
def test_objects_that_come_and_go_are_in_their_right_places(
    data: st.DataObject, end: int, spare: int, reverse: bool
) -> None:
    """The figures stay the same, so the order must equal one that is recomputed each time."""
    items = st.lists(st.integers(0, 40), unique=True, max_size=15).map(sorted)
    now = 0.0

    def figure(item: int) -> int:
        return item * 7 % 11

    async def find(some: Sequence[int], pause: Pause) -> list[int]:
        nonlocal now
        now += 1.0
        return await in_order(some, figure, no_pause, end=end + spare, reverse=reverse)

    async def play() -> None:
        orders = Orders(lambda: now)
        for stamp in range(4):
            there = data.draw(items)
            first = await orders.kept("a", stamp, there, end, find, no_pause)
            ordered = sorted(there, key=lambda item: (figure(item), item), reverse=reverse)
            assert first[:end] == ordered[:end]

    trio.run(play)


async def test_few_figures_are_read_again_when_some_come_and_go() -> None:
    now, looked, pauses = 0.0, 0, 0

    def figure(item: int) -> int:
        nonlocal looked, now
        looked, now = looked + 1, now + 1e-5
        return -(item % 5000)

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    async def find(some: Sequence[int], pause: Pause) -> list[int]:
        return await in_order(some, figure, pause, end=100 + SPARE)

    orders = Orders(lambda: now)
    items = list(range(50_000))
    await orders.kept("a", 0, items, 100, find, pause)
    assert looked == 50_000
    looked = pauses = 0
    for stamp in range(1, 6):
        items = [*items[stamp:], 100_000 + stamp]
        first = await orders.kept("a", stamp, items, 100, find, pause)
        assert first[0] == 4999
    assert looked <= 5 * (100 + SPARE + 5)
    assert pauses >= 5 * 2 * 50_000 // MERGED_PER_TURN
    items = [each for each in items if each % 5000 < 4900]
    await orders.kept("a", 9, items, 100, find, pause)
    assert looked > 30_000, "too few of the first rows are left, so all are looked at"


async def test_an_order_that_took_no_time_is_computed_each_time() -> None:
    orders = Orders(lambda: 0.0)
    answers = iter(range(9))

    async def find(_: Sequence[int], pause: Pause) -> list[int]:
        return [next(answers)]

    assert [await orders.kept("a", 1, [], 1, find, no_pause) for _ in range(2)] == [[0], [1]]
