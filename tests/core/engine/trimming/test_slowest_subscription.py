"""The slowest subscription, compared with looking at all of them."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from tests.counting import calls_of

from arneb_core.api.entries.position import Position
from arneb_core.engine.trimming.slowest_subscription import GONE_MIN, Slowest

NAMES = st.integers(0, 11).map(str)
MARKS = st.integers(0, 20)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("comes"), NAMES, MARKS, st.booleans()),
        st.tuples(st.just("goes"), NAMES, MARKS, st.booleans()),
        st.tuples(st.just("moves"), NAMES, MARKS, st.booleans()),
        st.tuples(st.just("is asked"), NAMES, MARKS, st.booleans()),
    ),
    max_size=80,
)


@dataclass(slots=True)
class Reading:
    """A subscription."""

    name: str
    mark_delete: Position
    durable: bool = True


def truth(there: dict[str, Reading]) -> Position | None:
    return min((each.mark_delete for each in there.values() if each.durable), default=None)


@given(st.lists(MARKS, max_size=8), STEPS, st.booleans())
def test_it_is_as_a_look_at_all_would_say(
    marks: list[int], steps: list[tuple[str, str, int, bool]], back: bool
) -> None:
    there: dict[str, Reading] = {}
    slowest = Slowest(there)
    for number, at in enumerate(marks):
        there[str(number)] = Reading(str(number), Position(at))
        slowest.comes(there[str(number)])
    for what, name, mark, durable in steps:
        each = there.get(name)
        if what == "comes" and each is None:
            there[name] = Reading(name, Position(mark), durable)
            slowest.comes(there[name])
        elif what == "goes" and there.pop(name, None) is not None:
            slowest.goes()
        elif what == "moves" and each is not None:
            each.mark_delete = Position(mark if back else each.mark_delete + mark)
        found, true = slowest.mark, truth(there)
        if not back:
            assert found == true
        elif found is None or true is None:
            assert found is true
        else:
            assert found >= true, "something would be kept for ever"


def test_it_looks_at_few_of_many() -> None:
    calls = []
    for many in (100, 10_000):
        there: dict[str, Reading] = {}
        slowest = Slowest(there)
        for number in range(many):
            there[str(number)] = Reading(str(number), Position(number))
            slowest.comes(there[str(number)])
        there["0"].mark_delete = Position(10 * many)
        calls.append(calls_of(lambda slowest=slowest: slowest.mark))
        assert slowest.mark == 1
    assert calls[0] == calls[1]


def test_subscriptions_that_come_late_or_go_are_noticed() -> None:
    there: dict[str, Reading] = {}
    slowest = Slowest(there)
    for mark in (9, 8, 7, 6, 5, 4, 3):
        there[str(mark)] = Reading(str(mark), Position(mark))
        slowest.comes(there[str(mark)])
        assert slowest.mark == mark
    for mark in (3, 4, 5, 6, 7, 8):
        del there[str(mark)]
        slowest.goes()
        assert slowest.mark == mark + 1
    del there["9"]
    slowest.goes()
    assert slowest.mark is None


def test_what_has_gone_is_not_remembered() -> None:
    there = {str(number): Reading(str(number), Position(0)) for number in range(6)}
    slowest = Slowest(there)
    for number in range(6, 10 * GONE_MIN):
        there[str(number)] = Reading(str(number), Position(number))
        slowest.comes(there[str(number)])
        del there[str(number)]
        slowest.goes()
    assert slowest._heap is not None
    assert len(slowest._heap) <= 2 * len(there) + GONE_MIN


def test_many_removed_subscriptions_are_forgotten_though_none_is_added() -> None:
    there: dict[str, Reading] = {}
    slowest = Slowest(there)
    for number in range(10 * GONE_MIN):
        there[str(number)] = Reading(str(number), Position(number))
        slowest.comes(there[str(number)])
    for number in range(1, 10 * GONE_MIN):
        del there[str(number)]
        slowest.goes()
        assert slowest.mark == 0  # who stands before all that have gone stays
    assert slowest._heap is not None
    assert len(slowest._heap) <= 2 * len(there) + GONE_MIN
