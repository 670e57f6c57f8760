"""Failover dispatch: who is active, how it is told, and what becomes of deliveries in flight."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.dispatch import FailoverDispatcher, Receiver
from arneb_core.dispatch.failover import by_name, first_come
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import attach, publish, quiet

FAILOVER = SubscriptionType.FAILOVER


def receiver(name: str, priority: int = 0) -> Receiver:
    made = Receiver(ConsumerSpec(name, priority=priority))
    made.permits = 10
    return made


def active_by_partition(partitions: int, *names: str) -> list[str]:
    """Who is active on each partition of a topic, whatever the order of their coming."""
    found = []
    for partition in range(partitions):
        made = FailoverDispatcher(by_name("t", partition))
        for name in reversed(names):
            made.add(receiver(name))
        assert made.active is not None
        found.append(made.active.name)
    return found


def test_two_partitions_and_four_consumers() -> None:
    assert active_by_partition(2, "C1", "C2", "C3", "C4") == ["C1", "C2"]


def test_two_partitions_when_the_first_two_of_four_consumers_have_left() -> None:
    assert active_by_partition(2, "B", "C", "D") == ["B", "C"]
    assert active_by_partition(2, "C", "D") == ["C", "D"]
    assert active_by_partition(2, "D") == ["D", "D"]


def test_nine_partitions_and_three_consumers() -> None:
    assert active_by_partition(9, "A", "B", "C") == ["A", "B", "C"] * 3


def test_only_the_top_priority_level_competes() -> None:
    made = FailoverDispatcher(by_name("t", 0))
    for name, priority in (("a", 1), ("c", 0), ("b", 0)):
        made.add(receiver(name, priority))
    assert made.active is not None
    assert made.active.name == "b"


NAMES = st.text(st.sampled_from("abcxyz"), min_size=1, max_size=4)


@given(names=st.sets(NAMES, min_size=2, max_size=6), topic=NAMES)
def test_the_ring_moves_only_what_it_must(names: set[str], topic: str) -> None:
    """When somebody leaves who is not active, nobody else becomes active."""
    receivers = [receiver(name) for name in sorted(names)]
    pick = by_name(topic, None)
    active = pick(receivers, None)
    for gone in receivers:
        if gone is not active:
            assert pick([each for each in receivers if each is not gone], None) is active


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=30))
def test_the_first_consumer_stays_active(steps: list[tuple[bool, int]]) -> None:
    made = FailoverDispatcher(first_come)
    model: list[Receiver] = []
    active: Receiver | None = None
    for comes, number in steps:
        if comes:
            model.append(receiver("c", priority=number))
            made.add(model[-1])
        elif model:
            made.remove(model.pop(number % len(model)))
        if active not in model:
            active = min(model, key=lambda each: each.priority) if model else None
        assert made.active is active
        assert made.has_room is (active is not None)
        shares = made.share(1)
        assert shares == ([] if active is None else [(active, 0, 1)])
        if active is not None:
            active.permits = 10


@pytest.mark.parametrize("first", [True, False])
async def test_a_failover_is_reported_and_loses_nothing(data_dir: Path, first: bool) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        spec = {"type": FAILOVER, "first_come": first, "partition": 0}
        late, late_sink = attach(subscription, permits=10, **{**spec, "name": "b"})
        await publish(engine, "t", [b"1", b"2"])
        await quiet(engine)
        assert late_sink.bodies == [b"1", b"2"]
        early, early_sink = attach(subscription, permits=10, **{**spec, "name": "a"})
        await publish(engine, "t", [b"3"])
        await quiet(engine)
        if first:
            assert (late_sink.active, early_sink.active) == ([True], [False])
            assert (late_sink.bodies, early_sink.bodies) == ([b"1", b"2", b"3"], [])
        else:
            assert (late_sink.active, early_sink.active) == ([True, False], [True])
            assert early_sink.bodies == [b"1", b"2", b"3"]
        (late if first else early).detach()  # type: ignore[attr-defined]
        await quiet(engine)
        next_sink = early_sink if first else late_sink
        assert next_sink.active[-1] is True
        assert next_sink.bodies[-3:] == [b"1", b"2", b"3"]


async def test_a_retired_consumer_keeps_what_it_has(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        spec = {"type": FAILOVER, "first_come": True}
        one, one_sink = attach(subscription, permits=10, **spec)
        _, two_sink = attach(subscription, permits=10, **spec)
        await publish(engine, "t", [b"1"])
        await quiet(engine)
        one.retire()  # type: ignore[attr-defined]
        await publish(engine, "t", [b"2"])
        await quiet(engine)
        assert (one_sink.bodies, two_sink.bodies) == ([b"1"], [b"2"])
        one.release(one_sink.positions, count=False)  # type: ignore[attr-defined]
        await quiet(engine)
        assert two_sink.bodies == [b"2", b"1"]
