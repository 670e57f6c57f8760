"""Limits of unacknowledged messages, permits and turns, as Pulsar counts them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.subscriptions.windows import UnackedWindow, consumer_window, subscription_window
from arneb_core.dispatch import Receiver, SharedDispatcher
from arneb_core.engine.engine import open_engine
from arneb_core.testing.engine_kit import append, attach, make_entry, publish, quiet

TYPES = [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED]


@given(
    st.integers(1, 12),
    st.sampled_from([consumer_window, subscription_window]),
    st.lists(st.integers(-6, 6), max_size=30),
)
def test_a_full_window_is_shut_until_half_is_answered(
    most: int, make: type[UnackedWindow], steps: list[int]
) -> None:
    window = make(most)
    receiver = Receiver(ConsumerSpec("c", unlimited=True), (window,))
    resume = most // 2 if make is consumer_window else max(0, most // 2 - 1)
    in_flight, shut = 0, False
    for step in steps:
        if step > 0 and receiver.room > 0:
            receiver.given(step)  # a batch may be larger than the room
            in_flight += step
        elif step < 0 and in_flight:
            answered = min(-step, in_flight)
            receiver.freed(answered)
            in_flight -= answered
        if in_flight >= most:
            shut = True
        elif in_flight <= resume:
            shut = False
        assert (receiver.room > 0) == (not shut and in_flight < most)
        if not shut:
            assert receiver.room == most - in_flight
        assert window.in_flight == in_flight


@pytest.mark.parametrize("kind", TYPES)
async def test_a_consumer_is_shut_off_and_let_on_again(
    data_dir: Path, kind: SubscriptionType
) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        one, sink = attach(subscription, type=kind, permits=100, unacked_max=10)
        await publish(engine, "t", [b"%d" % number for number in range(40)])
        await quiet(engine)
        assert len(sink.bodies) == 10
        assert one.is_shut_off
        one.flow(50)  # kept for later
        one.acknowledge(sink.positions[:4])
        await quiet(engine)
        assert len(sink.bodies) == 10
        one.acknowledge(sink.positions[4:5])
        await quiet(engine)
        assert len(sink.bodies) == 15, "all entries up to the limit must be sent at once"
        assert one.is_shut_off
        one.acknowledge(sink.positions)
        await quiet(engine)
        assert len(sink.bodies) == 25
        assert one.permits == 125


@pytest.mark.parametrize("kind", TYPES)
async def test_a_subscription_is_shut_off_as_a_whole(
    data_dir: Path, kind: SubscriptionType
) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        spec = {"type": kind, "permits": 100, "subscription_unacked_max": 8}
        one, one_sink = attach(subscription, name="a", **spec)
        two, two_sink = attach(subscription, name="b", **spec)
        await publish(engine, "t", [b"%d" % number for number in range(40)])
        await quiet(engine)
        assert len(one_sink.bodies) + len(two_sink.bodies) == 8
        held = dict.fromkeys(one_sink.positions, one)
        held.update((position, two) for position in two_sink.positions)
        first = sorted(held)[:4]
        for position in first:
            held[position].acknowledge([position])
        await quiet(engine)
        assert len(one_sink.bodies) + len(two_sink.bodies) == 8, (
            "at exactly half the limit dispatch does not resume"
        )
        one.detach()
        two.acknowledge(two_sink.positions)
        await quiet(engine)
        assert two.in_flight == 8
        assert len(two_sink.bodies) >= 8
        two.acknowledge(two_sink.positions)
        await quiet(engine)
        assert two.in_flight == 8


async def test_a_consumer_that_leaves_no_longer_counts_as_unacknowledged(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        spec = {"permits": 100, "subscription_unacked_max": 8}
        first, _ = attach(subscription, **spec)
        stays, sink = attach(subscription, **spec)
        stays.receiver.permits = 0
        await publish(engine, "t", [b"%d" % number for number in range(40)])
        await quiet(engine)
        assert first.in_flight == 8
        stays.flow(100)
        await quiet(engine)
        assert sink.bodies == []
        first.detach()
        await quiet(engine)
        assert sink.bodies == [b"%d" % number for number in range(8)]
        assert not any(run.redelivery_counts for run in sink.runs)


async def test_messages_cost_permits_and_a_batch_may_overdraw(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        one, sink = attach(subscription, permits=3)
        first = await append(engine, "t", [make_entry(b"a", 2), make_entry(b"b", 5)])
        await publish(engine, "t", [b"c"])
        await quiet(engine)
        assert sink.bodies == [b"a", b"b"]
        assert one.permits == -4
        one.acknowledge_messages(first + 1, 0b00111)
        one.release([first + 1], count=True)
        one.flow(4)
        await quiet(engine)
        assert sink.bodies == [b"a", b"b"], "0 permits must not let anything through"
        one.flow(1)
        await quiet(engine)
        assert sink.bodies == [b"a", b"b", b"b"]
        assert sink.runs[-1].masks == {first + 1: 0b11000}
        assert one.permits == -1, "two messages of the batch were left"
        one.flow(2)
        await quiet(engine)
        assert sink.bodies[3:] == [b"c"]


def test_the_turn_passes_on_after_twenty_entries() -> None:
    dispatcher = SharedDispatcher()
    receivers = [Receiver(ConsumerSpec(f"c{number}")) for number in range(3)]
    for each, permits in zip(receivers, (1000, 5, 1000), strict=True):
        each.permits = permits
        dispatcher.add(each)
    shares = dispatcher.share(70)
    assert [(each.name, stop - start) for each, start, stop in shares] == [
        ("c0", 20), ("c1", 5), ("c2", 20), ("c0", 20), ("c2", 5),
    ]  # fmt: skip
