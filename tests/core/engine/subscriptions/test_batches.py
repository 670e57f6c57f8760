"""Batches, divided and whole: who holds which message, and what becomes of it."""

from itertools import pairwise
from pathlib import Path

import pytest
import trio

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.subscriptions.windows import Window
from arneb_core.engine.engine import open_engine
from arneb_core.subscription.entries.delivery import PARTS_PER_TURN
from arneb_core.testing.engine_kit import Outcome, RecordingSink, append, make_entry, publish, quiet

pytestmark = pytest.mark.real_time

PULSAR = ConsumerSpec("p")
EXCLUSIVE = ConsumerSpec("x", SubscriptionType.EXCLUSIVE)
NO_ACK = ConsumerSpec("n", message_level=True, unlimited=True, acks=False)


def amqp(*windows: Window) -> ConsumerSpec:
    return ConsumerSpec(
        "a", message_level=True, unlimited=True, entries_per_turn_max=1, windows=windows
    )


async def make_queue(engine):
    topic = await engine.create_topic("q")
    return await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)


def seen(*sinks: RecordingSink) -> list[dict[Position, int] | None]:
    return [run.masks for sink in sinks for run in sink.runs]


async def test_an_ack_of_an_entry_takes_only_what_its_consumer_holds(data_dir: Path) -> None:
    """The rest of a divided batch was not even delivered."""
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"batch", 2)])
        getter = subscription.attach(PULSAR, RecordingSink())
        run = await getter.pull()
        assert run is not None and run.masks == {position: 0b01}
        getter.acknowledge([position, position])
        assert subscription.mark_delete < position
        run = await getter.pull()
        assert run is not None and run.masks == {position: 0b10}
        getter.acknowledge([position])
        assert subscription.mark_delete == position
        assert await getter.pull() is None


async def test_an_ack_by_a_stranger_leaves_holders_what_they_hold(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"batch", 3)])
        holder = subscription.attach(amqp(Window(1)), RecordingSink())
        stranger = subscription.attach(PULSAR, RecordingSink())
        await quiet(engine)
        stranger.acknowledge([position])
        assert holder.in_flight == 1 and subscription.mark_delete < position
        holder.acknowledge_messages(position, 0b001)
        assert subscription.mark_delete == position
        await quiet(engine)
        assert subscription.statistics().backlog_entries == 0


async def test_messages_that_a_stranger_acknowledges_leave_the_holders_window(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t")
        subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
        sink = RecordingSink()
        holder = subscription.attach(ConsumerSpec("h", unacked_max=4), sink)
        holder.flow(10)
        position = await append(engine, "t", [make_entry(b"batch", 4), make_entry(b"next")])
        await quiet(engine)
        assert (sink.bodies, holder.in_flight) == ([b"batch"], 4)
        stranger = subscription.attach(PULSAR, RecordingSink())
        stranger.acknowledge_messages(position, 0b0011)
        await quiet(engine)
        assert sink.bodies == [b"batch", b"next"]
        assert holder.in_flight == 3
        holder.acknowledge_messages(position, 0b0100)
        assert holder.in_flight == 2
        stranger.acknowledge_messages(position, 0b1000)
        assert holder.in_flight == 1


async def test_prefetch_one_and_a_requeue_inside_a_batch_deliver_nothing_twice(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"batch", 2)])
        sink = RecordingSink()
        consumer = subscription.attach(amqp(Window(1)), sink)
        await quiet(engine)
        consumer.release([position], count=True)
        await quiet(engine)
        consumer.acknowledge_messages(position, 0b01)
        await quiet(engine)
        consumer.acknowledge_messages(position, 0b10)
        await quiet(engine)
        assert seen(sink) == [{position: 0b01}, {position: 0b01}, {position: 0b10}]
        assert subscription.mark_delete == position


async def test_what_is_left_of_a_divided_batch_is_in_flight_only_once(data_dir: Path) -> None:
    """A consumer of whole entries that gets the rest of a batch holds that rest, not all."""
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"batch", 4)])
        getter = subscription.attach(PULSAR, RecordingSink())
        assert (await getter.pull()) is not None
        first, second = RecordingSink(), RecordingSink()
        one = subscription.attach(PULSAR, first)
        one.flow(100)
        await quiet(engine)
        assert seen(first) == [{position: 0b1110}] and one.in_flight == 3
        two = subscription.attach(PULSAR, second)
        two.flow(100)
        one.receiver.permits = 0
        getter.detach()
        await quiet(engine)
        assert seen(second) == [{position: 0b0001}], "the others are still out"
        one.acknowledge([position])
        two.acknowledge([position])
        assert subscription.mark_delete == position
        assert not subscription.machine.state.divided


async def test_nothing_is_delivered_of_a_batch_of_which_nothing_is_free(data_dir: Path) -> None:
    """One message is out, the other was given back and then acknowledged by a stranger."""
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"batch", 2)])
        one = subscription.attach(amqp(Window(1)), RecordingSink())
        two = subscription.attach(amqp(Window(1)), RecordingSink())
        await quiet(engine)
        two.writable = one.writable = False
        two.release([position], count=True)
        two.acknowledge_messages(position, 0b10)
        sink = RecordingSink()
        subscription.attach(PULSAR, sink).flow(10)
        await quiet(engine)
        assert not sink.runs and one.in_flight == 1
        one.acknowledge([position])
        assert subscription.mark_delete == position


async def test_a_pull_without_acks_takes_each_message_once(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"batch", 3), make_entry(b"last")])
        getter = subscription.attach(NO_ACK, RecordingSink())
        getter.writable = False
        masks = []
        while (run := await getter.pull()) is not None:
            masks.append(run.masks)
        assert masks == [{position: 0b001}, {position: 0b010}, {position: 0b100}, None]
        assert subscription.ready_messages == 0 and subscription.mark_delete == position + 1


async def test_a_message_acknowledged_ahead_of_its_delivery_is_not_delivered(
    data_dir: Path,
) -> None:
    """It may have been read already, batch or not."""
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        entries = [make_entry(b"a"), make_entry(b"b", 2), make_entry(b"c"), make_entry(b"d")]
        first = await append(engine, "q", entries)
        sink = RecordingSink()
        consumer = subscription.attach(PULSAR, sink)
        consumer.flow(1)
        await quiet(engine)
        consumer.acknowledge_messages(Position(first + 1), 0b11)
        consumer.acknowledge([Position(first + 2)])
        consumer.flow(10)
        await quiet(engine)
        assert sink.bodies == [b"a", b"d"]


async def test_a_cumulative_ack_inside_a_batch_is_reported_once_and_when_it_is_durable(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        first = await append(engine, "q", [make_entry(b"a"), make_entry(b"b", 4)])
        consumer = subscription.attach(EXCLUSIVE, RecordingSink())
        outcome = Outcome()
        consumer.acknowledge_until(Position(first + 1), 0b0011, outcome)
        assert await outcome.wait() is None
        await quiet(engine)
        assert outcome.calls == [None] and subscription.mark_delete == first
        assert subscription.ready_messages == 2


async def test_a_cumulative_ack_beyond_the_log_does_not_reach_what_comes_later(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        first = await publish(engine, "q", [b"0", b"1"])
        sink = RecordingSink()
        consumer = subscription.attach(EXCLUSIVE, sink)
        consumer.acknowledge_until(Position(first + 1000))
        await publish(engine, "q", [b"2"])
        consumer.flow(10)
        await quiet(engine)
        assert sink.bodies == [b"2"]


async def test_a_purge_of_divided_batches_leaves_what_is_out(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"batch", 5), make_entry(b"b", 3)])
        sink = RecordingSink()
        consumer = subscription.attach(amqp(Window(2)), sink)
        await quiet(engine)
        assert await subscription.purge() == 6
        assert subscription.ready_messages == 0 and consumer.in_flight == 2
        consumer.release([position], count=True, masks={position: 0b01})
        await quiet(engine)
        assert seen(sink)[-1] == {position: 0b01}
        consumer.acknowledge([position])
        assert subscription.statistics().backlog_entries == 0


async def test_half_acknowledged_batches_are_counted_exactly(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        first = await append(engine, "q", [make_entry(b"b", 3)] * 10)
        consumer = subscription.attach(PULSAR, RecordingSink())
        for count in range(10):
            position = Position(first + count)
            assert subscription.ready_messages == 3 * (10 - count)
            consumer.acknowledge_messages(position, 0b100)
            consumer.acknowledge_messages(position, 0b010)
            await quiet(engine)
            assert subscription.ready_messages == 3 * (10 - count) - 2
            consumer.acknowledge([position])
        assert subscription.ready_messages == 0


async def test_a_seek_into_a_batch_takes_only_bits_that_it_has(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"a", 3), make_entry(b"b", 3)])
        for mask, left in ((0b1111_1110, 0b110), (0, 0), (0b1_0000_0111, None)):
            await subscription.seek(position, mask)
            sink = RecordingSink()
            consumer = subscription.attach(PULSAR, sink)
            consumer.flow(1)
            await quiet(engine)
            if left == 0:
                assert sink.bodies == [b"b"]
            else:
                assert sink.bodies == [b"a"]
                assert seen(sink) == [{position: left} if left else None]
            consumer.detach()


@pytest.mark.parametrize("sizes", [[3 * PARTS_PER_TURN], [PARTS_PER_TURN // 2 + 1] * 6])
async def test_a_large_batch_is_divided_in_turns(data_dir: Path, sizes: list[int]) -> None:
    """Who takes it apart has to do so for each message, and there may be 65,536."""
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        sink = RecordingSink()
        subscription.attach(amqp(), sink)
        steps = Steps(sink)
        trio.lowlevel.add_instrument(steps)
        await append(engine, "q", [make_entry(b"b", size) for size in sizes])
        await quiet(engine)
        trio.lowlevel.remove_instrument(steps)
        assert messages_of(sink) == sum(sizes)
        assert max(two - one for one, two in pairwise(steps.totals)) <= PARTS_PER_TURN


def messages_of(sink: RecordingSink) -> int:
    return sum(mask.bit_count() for masks in seen(sink) for mask in (masks or {}).values())


class Steps(trio.abc.Instrument):
    """How many messages there were after each turn of any task."""

    def __init__(self, sink: RecordingSink) -> None:
        self._sink = sink
        self.totals = [0]

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.totals.append(messages_of(self._sink))
