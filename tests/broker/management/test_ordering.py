"""Ordering: the first of very many, against a plain sort."""

from typing import Any

import trio
from hypothesis import given
from hypothesis import strategies as st

from arneb.http.management import ordering
from arneb.http.management.ordering import FIGURES_PER_TURN, Orders, comparable, in_order

FIGURES = st.one_of(
    st.lists(st.integers(0, 3), max_size=30),
    st.lists(st.sampled_from(["", "a", "b"]), max_size=30),
    st.lists(st.booleans(), max_size=30),
    st.lists(st.none() | st.integers(-2, 2), max_size=30),
    st.lists(st.none() | st.integers(-2, 2) | st.booleans() | st.text("ab", max_size=2)),
)


async def no_pause() -> None:
    """Others have their turn at once."""


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


async def test_very_many_are_found_in_turns_and_each_is_looked_at_once() -> None:
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


async def test_an_order_that_took_long_is_kept_for_a_while_and_no_longer() -> None:
    now, found = 0.0, 0

    async def find() -> list[int]:
        nonlocal now, found
        now, found = now + 0.1, found + 1
        return [found]

    orders = Orders(lambda: now)
    assert [await orders.kept("a", find) for _ in range(3)] == [[1], [1], [1]]
    assert await orders.kept("b", find) == [2]
    now += 6
    assert await orders.kept("a", find) == [3]


async def test_an_order_that_took_no_time_is_found_out_each_time() -> None:
    orders = Orders(lambda: 0.0)
    answers = iter(range(9))

    async def find() -> list[int]:
        return [next(answers)]

    assert [await orders.kept("a", find) for _ in range(2)] == [[0], [1]]
