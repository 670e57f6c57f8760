"""Shared dispatch against the rule in words: levels, turns, room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.windows import Window
from arneb_core.dispatch import Receiver, SharedDispatcher


def receiver(
    permits: int = 0, *, priority: int = 0, turn: int = 20, unlimited: bool = False,
    windows: tuple[Window, ...] = (), acks: bool = True,
) -> Receiver:  # fmt: skip
    spec = ConsumerSpec(
        "c", priority=priority, entries_per_turn_max=turn, unlimited=unlimited, windows=windows,
        acks=acks,
    )  # fmt: skip
    made = Receiver(spec)
    made.permits = permits
    return made


def dispatcher(*receivers: Receiver) -> SharedDispatcher:
    made = SharedDispatcher()
    for each in receivers:
        made.add(each)
    return made


def test_pulsars_worked_example_of_priority_levels() -> None:
    """Javadoc of AbstractDispatcherMultipleConsumers: C1(0,2) C2(0,1) C3(0,1) C4(1,2) C5(1,1)
    get C1 C2 C3 C1 C4 C5 C4."""
    permits = {"C1": (0, 2), "C2": (0, 1), "C3": (0, 1), "C4": (1, 2), "C5": (1, 1)}
    by_name = {
        name: receiver(count, priority=priority, turn=1)
        for name, (priority, count) in permits.items()
    }
    names = {id(each): name for name, each in by_name.items()}
    shares = dispatcher(*by_name.values()).share(10)
    assert [names[id(each)] for each, _, _ in shares] == ["C1", "C2", "C3", "C1", "C4", "C5", "C4"]


def test_one_receiver_gets_the_run_in_one_piece() -> None:
    alone = receiver(unlimited=True, turn=1)
    assert dispatcher(alone).share(500) == [(alone, 0, 500)]


def test_the_last_entry_may_overdraw_the_permits() -> None:
    one = receiver(5)
    assert dispatcher(one).share(3, [4, 4, 4]) == [(one, 0, 2)]
    assert one.permits == -3


def test_a_shared_window_bounds_all_its_consumers() -> None:
    window = Window(3)
    one, two = (receiver(unlimited=True, turn=1, windows=(window,)) for _ in range(2))
    shares = dispatcher(one, two).share(10)
    assert [stop - start for _, start, stop in shares] == [1, 1, 1]
    assert window.in_flight == 3
    two.freed(1)
    assert window.in_flight == 2


def test_a_consumer_that_does_not_acknowledge_waits_while_others_fill_the_window() -> None:
    window = Window(2)
    taker = receiver(unlimited=True, windows=(window,), acks=False)
    holder = receiver(unlimited=True, windows=(window,))
    assert dispatcher(taker).share(5) == [(taker, 0, 5)]
    assert window.in_flight == 0
    assert dispatcher(holder).share(5) == [(holder, 0, 2)]
    assert not dispatcher(taker).has_room and dispatcher(taker).share(5) == []
    holder.freed(1)
    assert dispatcher(taker).share(5) == [(taker, 0, 5)]


def test_nothing_is_delivered_while_not_writable() -> None:
    one = receiver(10)
    one.writable = False
    made = dispatcher(one)
    assert not made.has_room and made.share(3) == []


def test_the_turn_goes_on_where_it_was() -> None:
    receivers = [receiver(unlimited=True, turn=1) for _ in range(3)]
    made = dispatcher(*receivers)
    order = [made.share(1)[0][0] for _ in range(4)]
    assert order == [*receivers, receivers[0]]
    made.remove(receivers[0])
    assert made.share(1)[0][0] is receivers[1]


def test_a_consumer_that_was_full_at_its_turn_comes_last_when_it_has_room_again() -> None:
    one, two, three = (receiver(permits, turn=1) for permits in (1, 9, 9))
    made = dispatcher(one, two, three)
    assert [each for each, _, _ in made.share(5)] == [one, two, three, two, three]
    one.permits = 9
    assert [each for each, _, _ in made.share(4)] == [two, three, one, two]


def test_a_consumer_that_gets_room_before_its_turn_keeps_its_place() -> None:
    one, two = (receiver(permits, turn=1) for permits in (1, 9))
    made = dispatcher(one, two)
    assert [each for each, _, _ in made.share(2)] == [one, two]
    one.permits = 1
    assert [each for each, _, _ in made.share(2)] == [one, two]


@pytest.mark.parametrize("leaving", range(3))
def test_a_leaver_does_not_cost_another_its_turn(leaving: int) -> None:
    receivers = [receiver(unlimited=True, turn=1) for _ in range(3)]
    made = dispatcher(*receivers)
    made.share(1)
    made.remove(receivers[leaving])
    expected = [each for each in (*receivers[1:], receivers[0]) if each is not receivers[leaving]]
    assert [made.share(1)[0][0] for _ in range(2)] == expected


receivers_of_a_subscription = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(1, 5)), min_size=1, max_size=6
)


@given(receivers_of_a_subscription, st.lists(st.integers(1, 4), max_size=40))
def test_shares_cover_a_prefix_and_respect_levels_and_room(
    rows: list[tuple[int, int, int]], costs: list[int]
) -> None:
    receivers = [receiver(permits, priority=p, turn=turn) for p, permits, turn in rows]
    permits = {id(each): each.permits for each in receivers}
    made = dispatcher(*receivers)
    shares = made.share(len(costs), costs)
    end = 0
    for given_to, start, stop in shares:
        assert start == end < stop
        end = stop
        assert permits[id(given_to)] > 0, "a receiver without permits was given an entry"
        higher = [each for each in receivers if each.priority < given_to.priority]
        assert all(permits[id(each)] <= 0 for each in higher), "a higher level still had room"
        permits[id(given_to)] -= sum(costs[start:stop])
    assert {id(each): each.permits for each in receivers} == permits
    if end < len(costs):
        assert not made.has_room, "an entry was left over although a receiver has room"


@given(st.integers(1, 5), st.integers(0, 60), st.integers(1, 4))
def test_round_robin_is_fair_within_one_turn(count: int, entries: int, turn: int) -> None:
    receivers = [receiver(unlimited=True, turn=turn) for _ in range(count)]
    shares = dispatcher(*receivers).share(entries)
    totals = {id(each): 0 for each in receivers}
    for given_to, start, stop in shares:
        totals[id(given_to)] += stop - start
    assert sum(totals.values()) == entries
    assert max(totals.values()) - min(totals.values()) <= turn
