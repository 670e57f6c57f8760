"""The ledger index against a plain list of entries."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from arneb_core.api.entries.position import (
    AFTER_ALL,
    BEFORE_ALL,
    LedgerId,
    Position,
    before,
    ledger_of,
    position_at,
)
from arneb_core.log.ledgers import LedgerIndex, LedgerInfo
from arneb_core.testing.invariants import check_ledgers
from arneb_core.testing.strategies import CHUNK_SIZES, ledger_indexes, positions

PLACES = st.one_of(
    st.builds(position_at, st.integers(1, 14), st.integers(-1, 8)),
    positions(ledger_max=14),
    st.sampled_from([BEFORE_ALL, AFTER_ALL]),
)


def check_answers(
    index: LedgerIndex, entries: Sequence[Position], low: Position, high: Position
) -> None:
    """Every question about two places has the answer that the list of entries gives."""
    assert index.contains(low) == (low in entries)
    assert index.after(low) == next((p for p in entries if p > low), None)
    assert index.at_or_before(low) == next((p for p in reversed(entries) if p <= low), None)
    assert index.count_after(low) == sum(p > low for p in entries)
    between = [p for p in entries if low < p <= high]
    assert index.count_between(low, high) == len(between)
    runs = list(index.runs(low, high))
    assert [p for first, last in runs for p in range(first, last + 1)] == between
    assert all(ledger_of(first) == ledger_of(last) for first, last in runs)
    assert len({ledger_of(first) for first, _ in runs}) == len(runs)


class LedgersAgainstAList(RuleBasedStateMachine):
    """Opens, extends, closes and drops ledgers, and asks everything after each step."""

    def __init__(self) -> None:
        super().__init__()
        self.index = LedgerIndex()
        self.entries: list[Position] = []
        self.ids: list[int] = []
        self.used = 0
        self.open = False
        self.extended = 0
        self.now_ms = 10

    @precondition(lambda self: not self.open)
    @rule(gap=st.integers(1, 3))
    def begin(self, gap: int) -> None:
        self.used += gap
        info = self.index.open(LedgerId(self.used), self.now_ms)
        assert info == LedgerInfo(
            LedgerId(self.used), created_ms=self.now_ms, messages_before=2 * self.extended
        )
        assert self.index.at(self.used) == info
        self.ids.append(self.used)
        self.open = True

    @precondition(lambda self: self.open)
    @rule(count=st.integers(1, 4))
    def extend(self, count: int) -> None:
        first = self.index.next_append
        assert self.index.extend(count, 2 * count, 30 * count) == first
        self.entries += [Position(first + i) for i in range(count)]
        assert self.index.last == self.entries[-1]
        self.extended += count
        assert self.index.messages_ever == 2 * self.extended

    @precondition(lambda self: self.open)
    @rule()
    def close(self) -> None:
        info = self.index.close(self.now_ms)
        assert info.closed_ms == self.now_ms
        assert info.entries == sum(ledger_of(p) == self.used for p in self.entries)
        assert self.index.next_append == position_at(self.used + 1, 0)
        self.open = False

    @precondition(lambda self: len(self.ids) > 1)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        last = data.draw(st.integers(0, self.ids[-1] - 1))
        dropped = self.index.drop_through(LedgerId(last))
        assert [info.id for info in dropped] == [i for i in self.ids if i <= last]
        self.ids = [i for i in self.ids if i > last]
        self.entries = [p for p in self.entries if ledger_of(p) > last]

    @rule(low=PLACES, high=PLACES)
    def ask(self, low: Position, high: Position) -> None:
        check_answers(self.index, self.entries, low, high)

    @rule()
    def load(self) -> None:
        again = LedgerIndex(list(self.index))
        assert list(again) == list(self.index)
        check_answers(again, self.entries, BEFORE_ALL, AFTER_ALL)
        check_ledgers(again)

    @invariant()
    def counts_agree(self) -> None:
        check_ledgers(self.index)
        assert [info.id for info in self.index] == self.ids
        assert self.index.entries == len(self.entries)
        assert self.index.messages == 2 * len(self.entries)
        assert self.index.bytes == 30 * len(self.entries)
        assert (self.index.current is not None) == self.open


TestLedgersAgainstAList = LedgersAgainstAList.TestCase


@given(ledger_indexes(), PLACES, PLACES)
def test_a_loaded_index_gives_the_answers_of_a_list(
    index: LedgerIndex, low: Position, high: Position
) -> None:
    entries = [position_at(info.id, i) for info in index for i in range(info.entries)]
    check_answers(index, entries, low, high)


@given(ledger_indexes(CHUNK_SIZES), PLACES, PLACES)
def test_counting_and_the_runs_agree(index: LedgerIndex, low: Position, high: Position) -> None:
    runs = list(index.runs(low, high))
    assert index.count_between(low, high) == sum(last - first + 1 for first, last in runs)
    if low <= high:
        after_low, after_high = index.count_after(low), index.count_after(high)
        assert index.count_between(low, high) == after_low - after_high
    check_ledgers(index)


def test_an_empty_index_has_nothing_and_begins_at_the_first_ledger() -> None:
    index = LedgerIndex()
    assert index.first is index.last is None
    assert index.current is None
    assert index.after(BEFORE_ALL) is index.at_or_before(AFTER_ALL) is None
    assert index.next_append == position_at(1, 0)
    assert before(index.next_append) == index.floor == BEFORE_ALL
    assert index.count_after(BEFORE_ALL) == index.count_between(BEFORE_ALL, AFTER_ALL) == 0
    assert list(index.runs(BEFORE_ALL, AFTER_ALL)) == []


def test_the_next_entry_after_a_closed_ledger_skips_empty_ones() -> None:
    index = LedgerIndex(
        [
            LedgerInfo(LedgerId(2), 2, 2, 2, 1, 1),
            LedgerInfo(LedgerId(3), 0, 0, 0, 1, 1),
            LedgerInfo(LedgerId(7), 1, 1, 1, 1),
        ]
    )
    assert index.after(position_at(2, 1)) == position_at(7, 0)
    assert index.at_or_before(before(position_at(7, 0))) == position_at(2, 1)
    assert index.floor == before(position_at(2, 0))
    index.drop_through(LedgerId(2))
    assert index.first == position_at(7, 0)
    assert index.at_or_before(position_at(6, 5)) is None


def test_a_ledger_closed_at_time_zero_stays_closed() -> None:
    index = LedgerIndex()
    index.open(LedgerId(1), 0)
    index.close(0)
    assert index.current is None


def test_misuse_is_refused_and_changes_nothing() -> None:
    index = LedgerIndex()
    with pytest.raises(ValueError, match="expected an open ledger"):
        index.extend(1, 1, 1)
    with pytest.raises(ValueError, match="expected an open ledger"):
        index.close(1)
    with pytest.raises(ValueError, match="above 0, got 0"):
        index.open(LedgerId(0), 1)
    index.open(LedgerId(4), 1)
    with pytest.raises(ValueError, match="ledger 4 to be closed"):
        index.open(LedgerId(5), 1)
    with pytest.raises(ValueError, match="keep the last ledger"):
        index.drop_through(LedgerId(4))
    index.close(2)
    with pytest.raises(ValueError, match="above 4, got 4"):
        index.open(LedgerId(4), 1)
    with pytest.raises(ValueError, match="keep the last ledger"):
        index.drop_through(LedgerId(9))
    assert list(index) == [LedgerInfo(LedgerId(4), created_ms=1, closed_ms=2)]
    check_ledgers(index)


def test_an_index_says_what_it_holds() -> None:
    index = LedgerIndex()
    index.open(LedgerId(3), 1)
    index.extend(2, 2, 80)
    assert repr(index) == "<LedgerIndex 1 ledgers, 2 entries, next 3:2, open>"
