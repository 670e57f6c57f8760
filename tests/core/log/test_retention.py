"""Which ledgers may go."""

from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.api.entries.position import (
    BEFORE_ALL,
    LedgerId,
    Position,
    before,
    ledger_of,
    position_at,
)
from arneb_core.api.topics.settings import WITHOUT_END, Retention
from arneb_core.log.ledgers import LedgerIndex, LedgerInfo
from arneb_core.log.retention import droppable_through
from arneb_core.testing.strategies import everything, ledger_indexes

BOUNDS = st.sampled_from([WITHOUT_END, 0, 1, 10, 20, 50, 1_000])
NOW_MS = 40
LEDGERS = ledger_indexes(sizes=(0, 1, 2, 5), ledgers_max=6)
FEW_OR_MORE = LEDGERS.filter(lambda index: len(list(index)) > 2)


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


@settings(max_examples=200)
@given(FEW_OR_MORE, st.data(), st.integers(0, 80))
def test_what_may_go_goes_and_nothing_else(
    index: LedgerIndex, data: st.DataObject, now_ms: int
) -> None:
    """Bounds are mostly such that a ledger just goes, or just stays."""
    infos = list(index)
    ages = [max(0, now_ms - info.closed_ms) for info in infos]
    left = [sum(other.bytes for other in infos if other.id > info.id) for info in infos]
    ends = [info.last for info in infos if info.entries]
    ms = data.draw(
        st.sampled_from([WITHOUT_END, WITHOUT_END, 0, *ages, *(age + 1 for age in ages)])
    )
    size = data.draw(st.sampled_from([WITHOUT_END, 0, *left, *(each + 1 for each in left)]))
    slowest = data.draw(st.sampled_from([None, BEFORE_ALL, *ends, *everything(index)]))
    last = through(index, slowest, ms, size, now_ms)
    gone = [info for info in infos if last is not None and info.id <= last]
    for info in gone:
        assert info is not infos[-1], "the last ledger stays"
        assert may_go(index, info, slowest, ms, size, now_ms)
    if len(infos) > len(gone) + 1:
        first = infos[len(gone)]
        assert not may_go(index, first, slowest, ms, size, now_ms), "it stays for a reason"
    if last is not None:
        assert last == gone[-1].id
        index.drop_through(last)
    assert through(index, slowest, ms, size, now_ms) is None, (
        "what was trimmed must not be trimmed again"
    )


def may_go(
    index: LedgerIndex, info: LedgerInfo, slowest: Position | None, ms: int, size: int, now_ms: int
) -> bool:
    """Whether everybody has passed it, and it is either old or followed by enough."""
    positions = [position for position in everything(index) if ledger_of(position) == info.id]
    is_passed = slowest is None or all(position <= slowest for position in positions)
    is_old = ms != WITHOUT_END and info.closed_ms <= now_ms - ms
    followed_by = sum(other.bytes for other in index if other.id > info.id)
    return is_passed and (is_old or (size != WITHOUT_END and followed_by >= size))


@given(LEDGERS, BOUNDS, BOUNDS)
def test_time_only_lets_more_go(index: LedgerIndex, ms: int, size: int) -> None:
    reached = [through(index, None, ms, size, now_ms) or 0 for now_ms in range(0, 120, 7)]
    assert reached == sorted(reached)
