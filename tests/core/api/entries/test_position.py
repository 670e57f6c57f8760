"""A position: one int that behaves like the pair (ledger, entry)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import (
    AFTER_ALL,
    BEFORE_ALL,
    ENTRY_MASK,
    Position,
    before,
    entry_of,
    ledger_of,
    position_at,
    render,
)
from arneb_core.testing.strategies import positions

LEDGERS = st.integers(1, (1 << 31) - 2)
ENTRIES = st.integers(0, ENTRY_MASK - 1)
PAIRS = st.tuples(LEDGERS, ENTRIES)


@given(LEDGERS, ENTRIES)
def test_a_position_gives_its_parts_back(ledger: int, entry: int) -> None:
    position = position_at(ledger, entry)
    assert (ledger_of(position), entry_of(position)) == (ledger, entry)


@given(PAIRS, PAIRS)
def test_positions_sort_like_pairs(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (position_at(*one) < position_at(*other)) == (one < other)
    assert (position_at(*one) == position_at(*other)) == (one == other)


@given(positions())
def test_every_position_lies_between_the_ends(position: Position) -> None:
    assert BEFORE_ALL < position < AFTER_ALL
    assert position < 1 << 63, "it must fit a signed 64-bit integer"


@given(LEDGERS, ENTRIES)
def test_before_is_the_greatest_bound_below(ledger: int, entry: int) -> None:
    position = position_at(ledger, entry)
    assert before(position) + 1 == position
    assert before(position) == position_at(ledger, entry - 1)


@given(LEDGERS)
def test_the_bound_before_a_ledger_is_no_entry_of_the_ledger_below(ledger: int) -> None:
    bound = before(position_at(ledger, 0))
    assert entry_of(bound) == ENTRY_MASK
    assert bound > position_at(ledger - 1, ENTRY_MASK - 1)


@given(LEDGERS, ENTRIES)
def test_people_read_ledger_and_entry(ledger: int, entry: int) -> None:
    assert render(position_at(ledger, entry)) == f"{ledger}:{entry}"
    assert render(before(position_at(ledger, 0))) == f"{ledger}:-1"


@pytest.mark.parametrize(
    ("position", "text"),
    [(BEFORE_ALL, "1:-1"), (position_at(1, 0), "1:0"), (position_at(42, 7), "42:7")],
)
def test_the_text_of_a_position(position: Position, text: str) -> None:
    assert render(position) == text
