"""The engine through its public interface, over a real store."""

import shutil
from pathlib import Path

import pytest
import trio
import trio.testing

from arneb_core.api.core import Unit
from arneb_core.api.entries.position import AFTER_ALL, Position
from arneb_core.api.errors import (
    CommitFailed,
    ConsumerBusy,
    NotAllowed,
    StoreFailed,
    StoreFull,
    SubscriptionBusy,
    SubscriptionNotFound,
    SubscriptionTypeMismatch,
    TopicExists,
    TopicNotFound,
)
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.subscriptions.windows import Window
from arneb_core.api.topics.settings import WITHOUT_END, Retention, TopicSettings
from arneb_core.engine.engine import open_engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import Outcome, RecordingSink, append, make_entry, publish, quiet
from arneb_core.testing.faults import FaultyStore

AMQP = ConsumerSpec("c", message_level=True, unlimited=True, entries_per_turn_max=1)
PULSAR = ConsumerSpec("c")
EXCLUSIVE = ConsumerSpec("c", SubscriptionType.EXCLUSIVE)


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


async def make_queue(engine, name="q"):
    topic = await engine.create_topic(name)
    return await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)


async def test_what_was_confirmed_is_there_after_a_restart(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await make_queue(engine)
        await publish(engine, "q", bodies(10))

    async with open_engine(tmp_path) as engine:
        subscription = engine.topic("q").subscriptions["amqp"]
        assert subscription.ready_messages == 10
        sink = RecordingSink()
        subscription.attach(AMQP, sink)
        await quiet(engine)
        assert sink.bodies == bodies(10)
        assert not sink.redelivered
    assert check(tmp_path) == []


async def test_after_a_crash_all_that_is_left_counts_as_redelivered(tmp_path: Path) -> None:
    """Promise 2: messages whose acks were not yet durable come back marked as redelivered."""

    async with open_engine(tmp_path / "live") as engine:
        subscription = await make_queue(engine)
        await publish(engine, "q", bodies(5))
        sink = RecordingSink()
        consumer = subscription.attach(AMQP, sink)
        await quiet(engine)
        outcome = Outcome()
        consumer.acknowledge(sink.positions[:2], outcome)
        assert await outcome.wait() is None
        consumer.acknowledge(sink.positions[2:3])
        shutil.copytree(tmp_path / "live", tmp_path / "crashed")

    async with open_engine(tmp_path / "crashed") as engine:
        sink = RecordingSink()
        engine.topic("q").subscriptions["amqp"].attach(AMQP, sink)
        await quiet(engine)
        assert sink.bodies == bodies(3, 2)
        assert sink.redelivered == set(sink.positions)
        await publish(engine, "q", [b"new"])
        await quiet(engine)
        assert sink.bodies[-1] == b"new"
        assert sink.positions[-1] not in sink.redelivered


async def test_after_a_clean_stop_only_what_was_out_counts_as_redelivered(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        await publish(engine, "q", bodies(10))
        subscription.attach(
            ConsumerSpec("c", unlimited=True, windows=(Window(4),)), RecordingSink()
        )
        await quiet(engine)

    async with open_engine(tmp_path) as engine:
        sink = RecordingSink()
        engine.topic("q").subscriptions["amqp"].attach(AMQP, sink)
        await quiet(engine)
        assert sink.bodies == bodies(10)
        assert sink.redelivered == set(sink.positions[:4])


async def test_nothing_is_delivered_before_its_commit_is_on_disk(tmp_path: Path) -> None:
    """Promise 4."""

    with Store.open(tmp_path) as store:
        faulty = FaultyStore(store)
        async with open_engine(tmp_path, store=store, committing=faulty) as engine:
            subscription = await make_queue(engine)
            sink = RecordingSink()
            subscription.attach(AMQP, sink)
            await quiet(engine)
            faulty.hold()
            outcome = Outcome()
            engine.append(engine.topic("q"), [make_entry(b"x")], outcome)
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert sink.runs == [] and outcome.calls == []
            faulty.release()
            assert await outcome.wait() is None
            await quiet(engine)
            assert sink.bodies == [b"x"]


@pytest.mark.parametrize("error", [StoreFailed("no"), StoreFull("full")])
async def test_a_failed_commit_leaves_no_trace_and_the_next_one_works(tmp_path, error) -> None:
    with Store.open(tmp_path) as store:
        faulty = FaultyStore(store)
        async with open_engine(tmp_path, store=store, committing=faulty) as engine:
            subscription = await make_queue(engine)
            sink = RecordingSink()
            subscription.attach(AMQP, sink)
            first = await publish(engine, "q", [b"before"])
            await quiet(engine)
            faulty.fail_next(1, error)
            outcome = Outcome()
            engine.append(engine.topic("q"), [make_entry(b"lost")], outcome)
            assert type(await outcome.wait()) is type(error)
            assert await publish(engine, "q", [b"after"]) == first + 1
            await quiet(engine)
            assert sink.bodies == [b"before", b"after"]
            assert engine.statistics().commit_failures_total == 1
    assert check(tmp_path) == []


async def test_what_waits_after_a_run_that_fails_fails_with_it(tmp_path: Path) -> None:
    """Stored by the next commit, it would stand before what its publisher sends again."""
    with Store.open(tmp_path) as store:
        faulty = FaultyStore(store)
        async with open_engine(tmp_path, store=store, committing=faulty) as engine:
            for name in ("q", "other"):
                await make_queue(engine, name)
            faulty.hold_each()
            order: list[str] = []
            outcomes = {name: Outcome() for name in ("first", "second", "elsewhere", "unit", "new")}

            def append(name: str, topic: str) -> None:
                def done(error: CommitFailed | None, first: Position) -> None:
                    order.append(name)
                    outcomes[name](error, first)

                engine.append(engine.topic(topic), [make_entry(name.encode())], done)

            append("first", "q")
            while not faulty.holds_one:
                await trio.lowlevel.checkpoint()
            faulty.fail_next()
            append("second", "q")
            append("elsewhere", "other")
            unit = Unit([(engine.topic("q"), [make_entry(b"unit")])], metadata=[("k", b"v")])
            engine.commit(unit, outcomes["unit"])
            faulty.stop_holding()
            for name in ("first", "second"):
                assert isinstance(await outcomes[name].wait(), StoreFailed), name
            append("new", "q")  # its publisher knows of the failure
            for name in ("elsewhere", "unit", "new"):
                assert await outcomes[name].wait() is None, name
            assert order == ["first", "second", "elsewhere", "new"]
            await quiet(engine)
            assert engine.topic("q").statistics().messages == 2
            assert engine.is_quiet and not engine.crowded
    assert check(tmp_path) == []


async def test_acks_survive_a_failed_commit(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        faulty = FaultyStore(store)
        async with open_engine(tmp_path, store=store, committing=faulty) as engine:
            subscription = await make_queue(engine)
            sink = RecordingSink()
            consumer = subscription.attach(AMQP, sink)
            await publish(engine, "q", bodies(6))
            await quiet(engine)
            faulty.fail_next()
            outcome = Outcome()
            consumer.acknowledge(sink.positions[1::2], outcome)
            assert isinstance(await outcome.wait(), StoreFailed)
            again = Outcome()
            consumer.acknowledge([], again)
            assert await again.wait() is None

    async with open_engine(tmp_path) as engine:
        sink = RecordingSink()
        engine.topic("q").subscriptions["amqp"].attach(AMQP, sink)
        await quiet(engine)
        assert sink.bodies == bodies(6)[::2]


async def test_a_unit_is_atomic_across_topics_and_acks(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        faulty = FaultyStore(store)
        async with open_engine(tmp_path, store=store, committing=faulty) as engine:
            source = await make_queue(engine, "source")
            target = await make_queue(engine, "target")
            sink, moved = RecordingSink(), RecordingSink()
            consumer = source.attach(AMQP, sink)
            target.attach(AMQP, moved)
            await publish(engine, "source", bodies(3))
            await quiet(engine)

            def unit() -> Unit:
                return Unit(
                    appends=[(engine.topic("target"), [make_entry(b"dead")])],
                    acks=[(consumer, sink.positions[1:2])],
                    metadata=[("amqp/x", b"1")],
                )

            faulty.fail_next()
            with pytest.raises(StoreFailed):
                await engine.committed(unit())
            await quiet(engine)
            assert moved.runs == [] and consumer.in_flight == 3
            assert engine.metadata("amqp/") == {}
            assert source.mark_delete < sink.positions[0]
            await engine.committed(unit())
            await quiet(engine)
            assert moved.bodies == [b"dead"] and consumer.in_flight == 2
            assert engine.metadata("amqp/") == {"amqp/x": b"1"}
            consumer.detach()
            again = RecordingSink()
            source.attach(AMQP, again)
            await quiet(engine)
            assert again.bodies == [b"0", b"2"]
    assert check(tmp_path) == []


async def test_released_entries_come_back_first_and_in_order(tmp_path: Path) -> None:
    """Promise 3: redelivered in its original place."""

    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        await publish(engine, "q", bodies(10))
        sink = RecordingSink()
        window = Window(6)
        consumer = subscription.attach(ConsumerSpec("c", unlimited=True, windows=(window,)), sink)
        await quiet(engine)
        assert sink.bodies == bodies(6)
        positions = sink.positions
        consumer.release([positions[4], positions[1]], count=True)
        await quiet(engine)
        assert sink.bodies[6:] == [b"1", b"4"]
        assert sink.redelivered == {positions[1], positions[4]}
        assert sink.runs[-1].redelivery_counts == {positions[1]: 1, positions[4]: 1}
        consumer.acknowledge(positions)
        await quiet(engine)
        assert sink.bodies[8:] == bodies(4, 6)
        assert window.in_flight == 4


async def test_round_robin_gives_each_message_to_the_next_consumer(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        sinks = [RecordingSink() for _ in range(3)]
        for sink in sinks:
            subscription.attach(AMQP, sink)
        await publish(engine, "q", bodies(9))
        await quiet(engine)
        assert [sink.bodies for sink in sinks] == [bodies(9)[each::3] for each in range(3)]


async def test_permits_count_messages_and_a_half_acked_batch_costs_what_is_left(tmp_path) -> None:
    """Seed 001: the cost of an entry is its size less its acknowledged messages."""

    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        await append(engine, "q", [make_entry(b"a", 4), make_entry(b"b", 4), make_entry(b"c")])
        sink = RecordingSink()
        consumer = subscription.attach(PULSAR, sink)
        consumer.flow(1)
        await quiet(engine)
        assert sink.bodies == [b"a"]
        first = sink.positions[0]
        consumer.acknowledge_messages(first, 0b0011)
        assert consumer.in_flight == 2
        consumer.release([first], count=True)
        consumer.flow(3 + 2)  # three are owed, two is what is left of the batch
        await quiet(engine)
        assert sink.bodies == [b"a", b"a"]
        assert sink.runs[-1].masks == {first: 0b1100}
        consumer.flow(1)  # the five are used up, so this is the only permit
        await quiet(engine)
        assert sink.bodies == [b"a", b"a", b"b"]
        consumer.acknowledge_messages(first, 0b1100)
        assert subscription.mark_delete == first


async def test_prefetch_one_works_inside_a_batch(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"batch", 3)])
        assert subscription.ready_messages == 3
        sinks = RecordingSink(), RecordingSink()
        spec = {"message_level": True, "unlimited": True, "entries_per_turn_max": 1}
        one = subscription.attach(ConsumerSpec("1", windows=(Window(1),), **spec), sinks[0])
        two = subscription.attach(ConsumerSpec("2", windows=(Window(1),), **spec), sinks[1])
        await quiet(engine)
        assert [run.masks for sink in sinks for run in sink.runs] == [
            {position: 0b001},
            {position: 0b010},
        ]
        two.acknowledge_messages(position, 0b010)
        await quiet(engine)
        assert sinks[1].runs[-1].masks == {position: 0b100}
        one.detach()
        two.acknowledge_messages(position, 0b100)
        await quiet(engine)
        assert sinks[1].runs[-1].masks == {position: 0b001}
        assert sinks[1].redelivered == {position}
        assert subscription.ready_messages == 0
        two.acknowledge_messages(position, 0b001)
        assert subscription.mark_delete == position


async def test_exclusive_takes_one_consumer_and_the_type_is_free_again(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        holder = subscription.attach(EXCLUSIVE, RecordingSink())
        with pytest.raises(ConsumerBusy):
            subscription.attach(EXCLUSIVE, RecordingSink())
        with pytest.raises(SubscriptionTypeMismatch):
            subscription.attach(AMQP, RecordingSink())
        holder.detach()
        consumer = subscription.attach(AMQP, RecordingSink())
        with pytest.raises(NotAllowed):
            consumer.acknowledge_until(Position(1))


async def test_cumulative_ack_seek_and_start_positions(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        first = await publish(engine, "q", bodies(10))
        sink = RecordingSink()
        consumer = subscription.attach(EXCLUSIVE, sink)
        consumer.flow(100)
        await quiet(engine)
        consumer.acknowledge_until(Position(first + 4))
        assert consumer.in_flight == 5 and subscription.ready_messages == 0
        await subscription.seek(Position(first + 2))
        assert sink.closed == ["seek"]
        again = RecordingSink()
        subscription.attach(EXCLUSIVE, again).flow(100)
        await quiet(engine)
        assert again.bodies == bodies(8, 2)
        assert not again.redelivered
        await subscription.seek(AFTER_ALL)
        assert subscription.ready_messages == 0
        reader = await engine.topic("q").subscribe(
            "reader", durable=False, start=Position(first + 7)
        )
        sink = RecordingSink()
        attached = reader.attach(EXCLUSIVE, sink)
        attached.flow(100)
        await quiet(engine)
        assert sink.bodies == bodies(3, 7)
        attached.detach()
        assert "reader" not in engine.topic("q").subscriptions


async def test_seek_by_time(tmp_path: Path) -> None:
    async with open_engine(tmp_path, now_ms=lambda: 1) as engine:
        subscription = await make_queue(engine)
        entries = [make_entry(b"%d" % at, publish_time_ms=at) for at in (10, 20, 30)]
        first = await append(engine, "q", entries)
        for time_ms, expected in ((5, 0), (20, 1), (21, 2)):
            await subscription.seek_time(time_ms)
            assert subscription.mark_delete == first + expected - 1
        await subscription.seek_time(31)
        assert subscription.ready_messages == 0


async def test_pull_takes_one_ready_message_whatever_the_permits(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        first = await publish(engine, "q", bodies(2))
        getter = subscription.attach(PULSAR, RecordingSink())
        run = await getter.pull()
        assert run is not None and run.positions == [first] and run.redelivered is None
        getter.release(run.positions, count=True)
        run = await getter.pull()
        assert run is not None and run.positions == [first] and run.redelivered == {first}
        getter.acknowledge(run.positions)
        assert (await getter.pull()) is not None
        assert await getter.pull() is None


async def test_purge_leaves_what_is_in_flight(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        await publish(engine, "q", bodies(10))
        sink = RecordingSink()
        consumer = subscription.attach(
            ConsumerSpec("c", unlimited=True, windows=(Window(3),)), sink
        )
        await quiet(engine)
        assert await subscription.purge() == 7
        assert subscription.ready_messages == 0 and consumer.in_flight == 3
        consumer.detach()
        again = RecordingSink()
        subscription.attach(AMQP, again)
        await quiet(engine)
        assert again.bodies == bodies(3)


async def test_a_memory_topic_leaves_no_trace(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        topic = await engine.create_topic("t", TopicSettings(durable=False))
        subscription = await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)
        await publish(engine, "t", bodies(5))
        sink = RecordingSink()
        consumer = subscription.attach(AMQP, sink)
        await quiet(engine)
        assert sink.bodies == bodies(5)
        outcome = Outcome()
        consumer.acknowledge(sink.positions, outcome)
        assert await outcome.wait() is None
        assert not topic.log.tail

    async with open_engine(tmp_path) as engine:
        assert not engine.topics


async def test_catalog_refusals_and_removal(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        with pytest.raises(TopicExists):
            await engine.create_topic("q")
        with pytest.raises(TopicNotFound):
            await engine.delete_topic("nope")
        with pytest.raises(SubscriptionNotFound):
            await engine.topic("q").unsubscribe("nope")
        sink = RecordingSink()
        subscription.attach(AMQP, sink)
        with pytest.raises(SubscriptionBusy):
            await engine.topic("q").unsubscribe("amqp")
        await publish(engine, "q", bodies(3))
        await engine.delete_topic("q", unit=Unit(metadata=[("gone", b"q")]))
        assert sink.closed == ["removed"]
        assert "q" not in engine.topics and engine.metadata("gone") == {"gone": b"q"}
    assert check(tmp_path) == []

    async with open_engine(tmp_path) as engine:
        assert not engine.topics
        await make_queue(engine)
        assert engine.topic("q").subscriptions["amqp"].ready_messages == 0
    assert check(tmp_path) == []


async def test_consumed_ledgers_go_and_the_last_one_stays(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        sink = RecordingSink()
        consumer = subscription.attach(AMQP, sink)
        for start in range(0, 120_000, 20_000):
            await publish(engine, "q", bodies(20_000, start))
        await quiet(engine)
        assert len(sink.positions) == 120_000
        outcome = Outcome()
        consumer.acknowledge(sink.positions, outcome)
        assert await outcome.wait() is None
        await quiet(engine)
        assert engine.topic("q").statistics().ledgers == 1
    assert check(tmp_path) == []


async def test_retention_keeps_what_every_cursor_has_passed(tmp_path: Path) -> None:
    async def consume(retention: Retention, name: str) -> int:
        async with open_engine(tmp_path / name, retention=retention) as engine:
            subscription = await make_queue(engine)
            sink = RecordingSink()
            consumer = subscription.attach(AMQP, sink)
            for start in range(0, 60_000, 20_000):
                await publish(engine, "q", bodies(20_000, start))
            await quiet(engine)
            outcome = Outcome()
            consumer.acknowledge(sink.positions, outcome)
            assert await outcome.wait() is None
            await publish(engine, "q", bodies(1))
            await quiet(engine)
            return engine.topic("q").statistics().ledgers

    assert await consume(Retention(WITHOUT_END, WITHOUT_END), "all") == 2
    assert await consume(Retention(3_600_000, WITHOUT_END), "an hour") == 2
    assert await consume(Retention(WITHOUT_END, 1), "a byte") == 1


async def test_a_backlog_is_read_from_the_store_in_order(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        subscription = await make_queue(engine)
        for start in range(0, 9_000, 3_000):
            await publish(engine, "q", bodies(3_000, start))
        sink = RecordingSink()
        subscription.attach(AMQP, sink)
        await publish(engine, "q", bodies(10, 9_000))
        await quiet(engine)
        assert sink.bodies == bodies(9_010)
        assert engine.statistics().cache_bytes == 0
