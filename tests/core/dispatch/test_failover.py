"""Failover dispatch: the attached consumers decide who is active, and nobody else gets anything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.dispatch.failover import FailoverDispatcher, by_name, first_come
from arneb_core.dispatch.receiver import Receiver


def receiver(name: str, *, priority: int = 0, permits: int = 0) -> Receiver:
    made = Receiver(ConsumerSpec(name, priority=priority))
    made.permits = permits
    return made


def test_the_first_consumer_stays_active_until_it_leaves() -> None:
    dispatcher = FailoverDispatcher(first_come)
    first, second, urgent = receiver("b"), receiver("a"), receiver("c", priority=-1)
    for each in (first, second, urgent):
        dispatcher.add(each)
        assert dispatcher.active is first
    dispatcher.remove(first)
    assert dispatcher.active is urgent
    dispatcher.remove(urgent)
    assert dispatcher.active is second
    dispatcher.remove(second)
    dispatcher.remove(second)
    assert dispatcher.active is None
    assert len(dispatcher) == 0


@pytest.mark.parametrize(("partition", "active"), [(0, "a"), (1, "b"), (2, "c"), (3, "a")])
def test_partitions_go_round_the_names_of_the_top_level(partition: int, active: str) -> None:
    dispatcher = FailoverDispatcher(by_name("topic", partition))
    for name, priority in (("c", 0), ("z", 1), ("b", 0), ("a", 0)):
        dispatcher.add(receiver(name, priority=priority))
    assert dispatcher.active is not None
    assert dispatcher.active.name == active


@given(
    st.lists(st.text("abc", min_size=1, max_size=2), min_size=1, max_size=6),
    st.text(max_size=5),
    st.randoms(),
)
def test_whose_a_topic_is_does_not_depend_on_the_order_of_coming(
    names: list[str], topic: str, dice
) -> None:
    def active(order: list[str]) -> str:
        dispatcher = FailoverDispatcher(by_name(topic, None))
        for name in order:
            dispatcher.add(receiver(name))
        assert dispatcher.active is not None
        return dispatcher.active.name

    chosen = active(names)
    shuffled = names.copy()
    dice.shuffle(shuffled)
    assert active(shuffled) == chosen
    # Who is not active may leave, and nothing changes.
    rest = [each for each in names if each != chosen]
    assert active([chosen, *rest[:1]]) in (chosen, *rest[:1])


@given(st.integers(0, 9), st.integers(0, 20), st.lists(st.integers(1, 5), min_size=20, max_size=20))
def test_the_active_one_gets_what_it_has_room_for_and_no_other_anything(
    permits: int, entries: int, costs: list[int]
) -> None:
    active, idle = receiver("a", permits=permits), receiver("b", permits=9)
    dispatcher = FailoverDispatcher(first_come)
    dispatcher.add(active)
    dispatcher.add(idle)
    shares = dispatcher.share(entries, costs[:entries])
    given_entries = sum(stop - start for _, start, stop in shares)
    assert {each for each, _, _ in shares} <= {active}
    given_messages = sum(costs[:given_entries])
    assert active.permits == permits - given_messages
    assert idle.permits == 9
    # An entry is given whole to who has any permit left, and none to who has none.
    assert given_messages - (costs[given_entries - 1] if given_entries else 0) <= max(0, permits)
    assert given_entries == entries or given_messages >= permits
    assert dispatcher.has_room is (active.permits > 0)
