"""Which ledgers may go."""

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.position import BEFORE_ALL, LedgerId, Position, before, position_at
from arneb_core.api.topics.settings import WITHOUT_END, Retention
from arneb_core.log.ledgers import LedgerIndex, LedgerInfo
from arneb_core.log.retention import droppable_through
from arneb_core.testing.strategies import ledger_indexes

BOUNDS = st.sampled_from([WITHOUT_END, 0, 1, 10, 20, 50, 1_000])
NOW_MS = 40


def ledgers(*closed_ms: int) -> LedgerIndex:
    """Ledgers of 10 entries and 100 bytes, closed at those times, and an open one."""
    infos = [LedgerInfo(LedgerId(i + 1), 10, 10, 100, 1, at) for i, at in enumerate(closed_ms)]
    return LedgerIndex([*infos, LedgerInfo(LedgerId(len(infos) + 1), 1, 1, 10, 1)])


def through(
    index: LedgerIndex, slowest: Position | None, ms: int, size: int, now_ms: int = NOW_MS
) -> LedgerId | None:
    return droppable_through(
        index, slowest, retention=Retention(ms, size), now_ms=now_ms
    )  # fmt: skip


def test_without_retention_what_every_cursor_passed_goes() -> None:
    index = ledgers(10, 20, 30)
    assert through(index, position_at(2, 9), 0, 0) == 2
    assert through(index, position_at(3, 8), 0, 0) == 2
    assert through(index, position_at(3, 9), 0, 0) == 3
    assert through(index, before(position_at(4, 0)), 0, 0) == 3
    assert through(index, BEFORE_ALL, 0, 0) is None


def test_without_a_cursor_only_retention_holds_ledgers() -> None:
    assert through(ledgers(10, 20, 30), None, 0, 0) == 3
    assert through(ledgers(10, 20, 30), None, WITHOUT_END, WITHOUT_END) is None


def test_the_last_ledger_stays_even_when_it_is_closed() -> None:
    closed = LedgerIndex([LedgerInfo(LedgerId(1), 1, 1, 10, 1, 2)])
    assert through(closed, position_at(1, 0), 0, 0) is None
    assert through(LedgerIndex(), None, 0, 0) is None


def test_a_ledger_goes_when_all_of_it_is_too_old() -> None:
    index = ledgers(10, 20, 30)
    assert through(index, None, 20, WITHOUT_END, now_ms=39) == 1
    assert through(index, None, 20, WITHOUT_END, now_ms=40) == 2
    assert through(index, None, 20, WITHOUT_END, now_ms=29) is None


def test_a_ledger_goes_when_enough_stays_without_it() -> None:
    index = ledgers(10, 20, 30)
    assert through(index, None, WITHOUT_END, 311) is None
    assert through(index, None, WITHOUT_END, 310) is None
    assert through(index, None, WITHOUT_END, 210) == 1
    assert through(index, None, WITHOUT_END, 209) == 1
    assert through(index, None, WITHOUT_END, 110) == 2
    assert through(index, None, WITHOUT_END, 10) == 3


def test_either_bound_is_enough() -> None:
    index = ledgers(10, 20, 30)
    assert through(index, None, 30, 110, now_ms=40) == 2
    assert through(index, None, 20, 210, now_ms=40) == 2


def test_empty_ledgers_do_not_hold_others_back() -> None:
    index = LedgerIndex(
        [
            LedgerInfo(LedgerId(1), 0, 0, 0, 1, 5),
            LedgerInfo(LedgerId(2), 1, 1, 10, 1, 6),
            LedgerInfo(LedgerId(4), 0, 0, 0, 1, 7),
            LedgerInfo(LedgerId(5), 0, 0, 0, 1),
        ]
    )
    assert through(index, position_at(2, 0), 0, 0) == 4
    assert through(index, BEFORE_ALL, 0, 0) == 1


@given(ledger_indexes(), st.data(), BOUNDS, BOUNDS, st.integers(0, 100))
def test_no_promise_is_broken(
    index: LedgerIndex, data: st.DataObject, ms: int, size: int, now_ms: int
) -> None:
    entries = [Position(p) for a, b in index.runs(BEFORE_ALL, index.next_append)
               for p in range(a, b + 1)]  # fmt: skip
    slowest = data.draw(st.none() | st.sampled_from([BEFORE_ALL, *entries]))
    last = through(index, slowest, ms, size, now_ms)
    if last is None:
        return
    infos = list(index)
    gone = [info for info in infos if info.id <= last]
    kept = infos[len(gone) :]
    assert kept, "the last ledger stays"
    assert all(info.closed_ms for info in gone)
    assert slowest is None or all(p <= slowest for p in entries if p <= gone[-1].last)
    if ms == size == WITHOUT_END:
        raise AssertionError("everything is kept without end")
    young = [info for info in gone if ms == WITHOUT_END or now_ms - info.closed_ms < ms]
    if young:
        after_young = sum(info.bytes for info in infos if info.id > young[-1].id)
        assert 0 <= size <= after_young
    index.drop_through(last)
    assert through(index, slowest, ms, size, now_ms) is None, (
        "what was trimmed must not be trimmed again"
    )


@given(ledger_indexes(), BOUNDS, BOUNDS)
def test_time_only_lets_more_go(index: LedgerIndex, ms: int, size: int) -> None:
    reached = [through(index, None, ms, size, now_ms) or 0 for now_ms in range(0, 120, 7)]
    assert reached == sorted(reached)
