"""Wake-ups: the earliest one counts, and what is gone is not held."""

from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.engine.scheduling.wakeups import STALE_MAX, WakeUps
from arneb_core.engine.subscriptions.subscription import LogSubscription

NAMES = st.sampled_from("abc")


def named(name: str) -> LogSubscription:
    return cast(LogSubscription, name)  # all that counts is who it is


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), NAMES, st.integers(0, 50)),
            st.tuples(st.just("forget"), NAMES, st.just(0)),
            st.tuples(st.just("take"), st.just(""), st.integers(0, 50)),
        )
    )
)
def test_wake_ups_are_as_a_dictionary_says(ops: list[tuple[str, str, int]]) -> None:
    wake_ups, model = WakeUps(), dict[str, int]()
    for op, name, at_ms in ops:
        if op == "set":
            before_ms = wake_ups.soonest_ms
            is_earlier = wake_ups.set(named(name), at_ms)
            assert (
                is_earlier
                or at_ms >= (before_ms if before_ms is not None else 1_000)
                or (model[name] <= at_ms)
            )
            model[name] = min(at_ms, model.get(name, at_ms))
        elif op == "forget":
            wake_ups.forget(named(name))
            model.pop(name, None)
        else:
            due = [each for each, when_ms in model.items() if when_ms <= at_ms]
            taken = wake_ups.take_due(at_ms, 3)
            assert sorted(map(str, taken)) == sorted(due)
            assert [model[str(each)] for each in taken] == sorted(model[each] for each in due)
            for each in due:
                del model[each]
        assert len(wake_ups) == len(model)
        soonest_ms = wake_ups.soonest_ms
        if model:
            assert soonest_ms is not None and soonest_ms <= min(model.values())


def test_queues_that_come_and_go_leave_nothing() -> None:
    wake_ups = WakeUps()
    for number in range(10_000):
        wake_ups.set(named(str(number)), 1 << 40)
        wake_ups.forget(named(str(number)))
    assert len(wake_ups) == 0
    assert len(wake_ups._heap) <= STALE_MAX + 1


def test_of_many_that_are_due_some_are_taken_at_a_time_the_earliest_first() -> None:
    wake_ups = WakeUps()
    for number in range(1_000):
        wake_ups.set(named(str(number)), 1_000 - number)
    taken = [wake_ups.take_due(1_000, 400) for _ in range(4)]
    assert [len(each) for each in taken] == [400, 400, 200, 0]
    assert [str(each) for some in taken for each in some] == [str(n) for n in range(999, -1, -1)]
