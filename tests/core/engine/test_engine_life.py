"""Beginnings and ends: topics, subscriptions and readers that come and go, stops and restarts."""

from pathlib import Path

import pytest
import trio

from arneb_core.api.core import Unit
from arneb_core.api.entries.position import AFTER_ALL, BEFORE_ALL, Position, ledger_of, position_at
from arneb_core.api.errors import (
    NotAllowed,
    StoreFailed,
    SubscriptionFenced,
    SubscriptionNotFound,
    TopicFenced,
    TopicNotFound,
)
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.subscriptions.windows import Window
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.scheduling import maintenance
from arneb_core.store.environment import Store
from arneb_core.store.format.schema import META_CLEAN, Table
from arneb_core.testing.engine_kit import (
    Outcome,
    append,
    attach,
    make_entry,
    publish,
    quiet,
)
from arneb_core.testing.faults import FaultyStore

pytestmark = pytest.mark.real_time

EARLIEST = InitialPosition.EARLIEST
EXCLUSIVE = SubscriptionType.EXCLUSIVE


async def make_queue(engine: Engine, name: str = "q", *, durable: bool = True):
    topic = await engine.create_topic(name, TopicSettings(durable=durable))
    return await topic.subscribe("amqp", initial=EARLIEST)


async def acknowledged(consumer, positions) -> None:
    outcome = Outcome()
    consumer.acknowledge(positions, outcome)
    assert await outcome.wait() is None


def was_clean(path: Path) -> bool:
    with Store.open(path) as store, store.snapshot() as snapshot:
        return snapshot.get(Table.META, META_CLEAN) is not None


# Readers: subscriptions that leave no trace.


@pytest.mark.parametrize("durable", [True, False])
async def test_a_reader_goes_with_its_last_consumer_and_its_name_is_free(
    data_dir: Path, durable: bool
) -> None:
    async with open_engine(data_dir) as engine:
        await make_queue(engine, durable=durable)
        topic = engine.topic("q")
        first = await publish(engine, "q", [b"0", b"1", b"2"])
        reader = await topic.subscribe("r", durable=False, start=Position(first + 1))
        one, sink = attach(reader, unlimited=True)
        two, _ = attach(reader, unlimited=True)
        await quiet(engine)
        assert sink.bodies == [b"1", b"2"]
        one.detach()
        assert "r" in topic.subscriptions
        two.detach()
        assert "r" not in topic.subscriptions
        with pytest.raises(SubscriptionFenced):
            attach(reader)  # nobody would ever tell it of a new entry
        again = await topic.subscribe("r", durable=False, initial=EARLIEST)
        assert again is not reader
        _, sink = attach(again, unlimited=True)
        await quiet(engine)
        assert sink.bodies == [b"0", b"1", b"2"]


async def test_a_reader_and_a_durable_subscription_do_not_share_a_name(data_dir: Path) -> None:
    """Acks of the one would not be durable, the other would not go."""
    async with open_engine(data_dir) as engine:
        await make_queue(engine)
        topic = engine.topic("q")
        with pytest.raises(NotAllowed):
            await topic.subscribe("amqp", durable=False)
        await topic.subscribe("r", durable=False)
        with pytest.raises(NotAllowed):
            await topic.subscribe("r")


async def test_a_reader_without_a_consumer_goes_after_a_while(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was put out by a seek and never came again, or broke off before it attached."""
    monkeypatch.setattr(maintenance, "STALE_CHECK_INTERVAL_S", 0.002)
    async with open_engine(data_dir) as engine:
        await make_queue(engine)
        topic = engine.topic("q")
        first = await publish(engine, "q", [b"0"])
        reader = await topic.subscribe("r", durable=False, start=first)
        attach(reader)
        await topic.subscribe("never", durable=False)
        await reader.seek(first)
        with trio.fail_after(5):
            while len(topic.subscriptions) > 1:
                await trio.testing.wait_all_tasks_blocked(0.0005)
        assert list(topic.subscriptions) == ["amqp"]


async def test_a_reader_holds_no_ledger_and_continues_after_what_was_trimmed(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arneb_core.log.planning.LEDGER_ENTRIES_MAX", 2)
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        topic = engine.topic("q")
        reader = await topic.subscribe("r", durable=False, start=BEFORE_ALL)
        slow, slow_sink = attach(reader, type=EXCLUSIVE)
        slow.flow(1)
        consumer, sink = attach(subscription, unlimited=True)
        for number in range(6):
            await publish(engine, "q", [b"%d" % number])
        await quiet(engine)
        await acknowledged(consumer, sink.positions)
        await quiet(engine)
        assert topic.first == position_at(3, 0)
        assert slow.in_flight == 1
        slow.flow(100)
        await quiet(engine)
        assert slow_sink.bodies == [b"0", b"4", b"5"]
        slow.release_all(count=True)
        await quiet(engine)
        assert slow_sink.bodies == [b"0", b"4", b"5", b"4", b"5"], (
            "dropped entries cannot be delivered again"
        )
        assert reader.statistics().backlog_entries == 2


async def test_a_seek_goes_to_what_is_left_of_a_trimmed_log(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arneb_core.log.planning.LEDGER_ENTRIES_MAX", 2)
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        consumer, sink = attach(subscription, unlimited=True)
        for number in range(6):
            await publish(engine, "q", [b"%d" % number])
        await quiet(engine)
        await acknowledged(consumer, sink.positions)
        await quiet(engine)
        for position, left in (
            (BEFORE_ALL, 2),
            (position_at(1, 1), 2),
            (position_at(2, 7), 2),
            (position_at(3, 1), 1),
            (position_at(3, 2), 0),
            (AFTER_ALL, 0),
        ):
            await subscription.seek(position)
            consumer, sink = attach(subscription, unlimited=True)
            await quiet(engine)
            assert len(sink.runs and sink.positions) == left
            assert not sink.redelivered, "after a seek nothing counts as redelivered"


# Memory topics.


async def test_a_late_consumer_of_a_memory_topic_gets_what_is_left(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine, durable=False)
        topic = engine.topic("q")
        for number in range(5):
            await publish(engine, "q", [b"%d" % number])
        consumer, sink = attach(subscription, unlimited=True)
        await quiet(engine)
        consumer.acknowledge(sink.positions[:2])
        await quiet(engine)
        late = await topic.subscribe("late", initial=EARLIEST)
        assert late.ready_messages == 3
        late_consumer, late_sink = attach(late, unlimited=True)
        await quiet(engine)
        assert late_sink.bodies == [b"2", b"3", b"4"]
        last = await topic.last_entry()
        assert last is not None and last[1][40:] == b"4"
        late_consumer.acknowledge(late_sink.positions)
        consumer.acknowledge(sink.positions)
        await quiet(engine)
        assert not topic.log.tail and await topic.last_entry() is None
        await subscription.seek(BEFORE_ALL)
        await subscription.seek_time(0)
        assert subscription.ready_messages == 0
        assert (await topic.subscribe("later", initial=EARLIEST)).ready_messages == 0
        await publish(engine, "q", [b"5"])
        consumer, sink = attach(subscription, unlimited=True)
        await quiet(engine)
        assert sink.bodies == [b"5"]


async def test_one_unanswered_message_does_not_keep_a_memory_topic_from_forgetting_the_rest(
    data_dir: Path,
) -> None:
    """Promise 5. An hour's job in a queue of small ones is nothing unusual."""
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine, durable=False)
        topic = engine.topic("q")
        consumer, sink = attach(subscription, unlimited=True)
        for number in range(2_000):
            await publish(engine, "q", [b"%d" % number])
            if number:
                await quiet(engine) if number % 500 == 0 else await trio.lowlevel.checkpoint()
                consumer.acknowledge(sink.positions[1:][-20:])
        await quiet(engine)
        assert subscription.statistics().backlog_entries == 1
        assert len(topic.log.tail) < 200
        late = await topic.subscribe("late", initial=EARLIEST)
        assert late.statistics().backlog_entries <= len(topic.log.tail)
        late_consumer, late_sink = attach(late, unlimited=True)
        await quiet(engine)
        assert late_sink.bodies[0] == b"0"
        late_consumer.acknowledge(late_sink.positions)
        consumer.acknowledge(sink.positions[:1])
        await quiet(engine)
        assert not topic.log.tail and late.statistics().backlog_entries == 0


async def test_a_memory_topic_without_subscriptions_keeps_one_ledger(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arneb_core.log.planning.LEDGER_ENTRIES_MAX", 3)
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("q", TopicSettings(durable=False))
        for number in range(10):
            await publish(engine, "q", [b"%d" % number])
        await quiet(engine)
        subscription = await topic.subscribe("s", initial=EARLIEST)
        _, sink = attach(subscription, unlimited=True)
        await quiet(engine)
        assert sink.bodies == [b"9"]
        assert len(topic.log.ledgers) == 1


async def test_memory_is_freed_when_the_slowest_subscription_is_removed(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine, durable=False)
        topic = engine.topic("q")
        await topic.subscribe("slow", initial=EARLIEST)
        await publish(engine, "q", [b"0"])
        consumer, sink = attach(subscription, unlimited=True)
        await quiet(engine)
        consumer.acknowledge(sink.positions)
        await quiet(engine)
        assert topic.log.tail
        await topic.unsubscribe("slow")
        await quiet(engine)
        assert not topic.log.tail


# Removal.


async def test_nobody_attaches_or_subscribes_to_what_is_being_removed(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        faulty = FaultyStore(store)
        async with open_engine(data_dir, store=store, committing=faulty) as engine:
            subscription = await make_queue(engine)
            topic = engine.topic("q")
            first = await publish(engine, "q", [b"0"])
            _, sink = attach(subscription)
            faulty.hold()
            faulty.fail_until_healed()
            async with trio.open_nursery() as nursery:
                failed = []

                async def remove() -> None:
                    with pytest.raises(StoreFailed) as caught:
                        await topic.unsubscribe("amqp", force=True)
                    failed.append(caught)

                nursery.start_soon(remove)
                await trio.testing.wait_all_tasks_blocked()
                assert sink.closed == ["removed"]
                with pytest.raises(SubscriptionFenced):
                    attach(subscription)
                with pytest.raises(SubscriptionFenced):
                    await subscription.seek(first)
                faulty.release()
            assert failed
            attach(subscription)[0].detach()  # the removal failed, so it is there
            faulty.heal()
            faulty.hold()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(subscription.seek, first)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(topic.unsubscribe, "amqp")
                await trio.testing.wait_all_tasks_blocked()
                faulty.release()
            with pytest.raises(SubscriptionFenced):
                attach(subscription)  # the seek that ended meanwhile did not open it again
            await engine.delete_topic("q")
            with pytest.raises(TopicFenced):
                await topic.subscribe("s")
            with pytest.raises(TopicNotFound):
                await engine.delete_topic("q")


async def test_a_removal_that_is_cancelled_is_either_done_or_has_not_begun(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        faulty = FaultyStore(store)
        async with open_engine(data_dir, store=store, committing=faulty) as engine:
            await make_queue(engine)
            topic = engine.topic("q")
            made = []
            faulty.hold()

            async def subscribe() -> None:
                made.append(await topic.subscribe("late", initial=EARLIEST))

            async with trio.open_nursery() as nursery:
                for task in (
                    subscribe,
                    lambda: topic.unsubscribe("amqp"),
                    lambda: engine.create_topic("other"),
                    lambda: topic.unsubscribe("late"),  # waits for who makes it
                    lambda: engine.delete_topic("q"),  # waits for all of them
                ):
                    nursery.start_soon(task)
                    await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
                faulty.release()
            assert set(topic.subscriptions) == {"late"}, "the tasks that waited must not have begun"
            assert set(engine.topics) == {"q", "other"}
            with pytest.raises(SubscriptionNotFound):
                await topic.unsubscribe("amqp")
    async with open_engine(data_dir) as engine:
        assert set(engine.topic("q").subscriptions) == {"late"}


async def test_a_seek_that_is_cancelled_leaves_the_subscription_open(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        faulty = FaultyStore(store)
        async with open_engine(data_dir, store=store, committing=faulty) as engine:
            subscription = await make_queue(engine)
            first = await publish(engine, "q", [b"0", b"1"])
            faulty.hold()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(subscription.seek, Position(first + 1))
                await trio.testing.wait_all_tasks_blocked()
                with pytest.raises(SubscriptionFenced):
                    await subscription.seek(first)
                nursery.cancel_scope.cancel()
            faulty.release()
            _, sink = attach(subscription, unlimited=True)
            await quiet(engine)
            assert sink.bodies == [b"1"]


# Stops and restarts.


async def test_every_start_begins_a_new_ledger(data_dir: Path) -> None:
    """An id that was in doubt at a crash is never given to something else."""
    for ledger in (1, 2, 3):
        async with open_engine(data_dir) as engine:
            if ledger == 1:
                await make_queue(engine)
            first = await publish(engine, "q", [b"0"])
            assert ledger_of(first) == ledger
            assert ledger_of(await publish(engine, "q", [b"1"])) == ledger
    async with open_engine(data_dir) as engine:
        assert engine.topic("q").statistics().ledgers == 3
        _, sink = attach(engine.topic("q").subscriptions["amqp"], unlimited=True)
        await quiet(engine)
        assert sink.bodies == [b"0", b"1"] * 3


async def test_a_stop_tells_all_consumers_and_is_clean(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        topic = engine.topic("q")
        reader = await topic.subscribe("r", durable=False)
        sinks = [attach(each, unlimited=True)[1] for each in (subscription, reader, subscription)]
        await publish(engine, "q", [b"0"])
    assert [sink.closed for sink in sinks] == [["shutdown"]] * 3
    assert was_clean(data_dir)


async def test_a_stop_with_unwritten_cursors_is_not_called_clean(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        faulty = FaultyStore(store)
        async with open_engine(data_dir, store=store, committing=faulty) as engine:
            subscription = await make_queue(engine)
            await publish(engine, "q", [b"0"])
            consumer, sink = attach(subscription, unlimited=True)
            await quiet(engine)
            consumer.acknowledge(sink.positions)
            faulty.fail_until_healed()
    assert not was_clean(data_dir)


async def test_a_stop_does_not_wait_for_the_trims_of_a_large_topic(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They go on after the next start."""
    monkeypatch.setattr("arneb_core.store.commit.transaction.TRIM_BLOCKS_MAX", 1)
    async with open_engine(data_dir) as engine:
        await make_queue(engine)
        for number in range(50):
            await publish(engine, "q", [b"%d" % number])
        await engine.delete_topic("q")
    with Store.open(data_dir) as store:
        assert store.statistics().trims_left == 1
        async with open_engine(data_dir, store=store) as engine:
            await engine.create_topic("other")
            await quiet(engine)
            commits = engine.statistics().commits_total
            await trio.testing.wait_all_tasks_blocked(0.005)
            assert engine.statistics().commits_total == commits, (
                "idle, yet something keeps committing"
            )
        assert store.statistics().trims_left == 0
    assert was_clean(data_dir)


async def test_what_a_crash_made_suspect_is_so_after_a_clean_stop_too(data_dir: Path) -> None:
    """Promise 2. Nobody looked at the queue between two restarts."""
    crashed = data_dir.with_name("crashed")
    crashed.mkdir()
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            subscription = await make_queue(engine)
            await publish(engine, "q", [b"0", b"1"])
            attach(subscription, unlimited=True)
            await quiet(engine)
            store.copy(crashed)
    async with open_engine(crashed):
        pass
    async with open_engine(crashed) as engine:
        _, sink = attach(engine.topic("q").subscriptions["amqp"], unlimited=True)
        await quiet(engine)
        assert sink.bodies == [b"0", b"1"]
        assert sink.redelivered == set(sink.positions)


async def test_after_a_clean_stop_a_batch_that_was_out_in_part_counts_as_redelivered(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        position = await append(engine, "q", [make_entry(b"batch", 2), make_entry(b"unseen")])
        attach(subscription, unlimited=True, message_level=True, windows=(Window(1),))
        await quiet(engine)
    async with open_engine(data_dir) as engine:
        _, sink = attach(engine.topic("q").subscriptions["amqp"], unlimited=True)
        await quiet(engine)
        assert sink.redelivered == {position} and len(sink.positions) == 2


# Ledgers and retention.


async def test_ledgers_roll_by_size_and_by_age(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arneb_core.engine.catalog.catalog.LEDGER_BYTES_MAX", 1_000)
    now = 1_000
    async with open_engine(data_dir, now_ms=lambda: now) as engine:
        await make_queue(engine)
        await publish(engine, "q", [bytes(2_000)])
        second = await publish(engine, "q", [b"x"])
        assert ledger_of(second) == 2
        now += 4 * 60 * 60 * 1_000
        assert ledger_of(await publish(engine, "q", [b"x"])) == 3
        assert ledger_of(await publish(engine, "q", [b"x"])) == 3


async def test_retention_keeps_what_is_acknowledged_by_time_and_by_size(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arneb_core.log.planning.LEDGER_ENTRIES_MAX", 1)
    monkeypatch.setattr(maintenance, "STALE_CHECK_INTERVAL_S", 0.002)
    now = 1_000
    async with open_engine(data_dir, now_ms=lambda: now) as engine:
        by_time = await engine.create_topic("time", TopicSettings(True, 1_000, -1))
        by_size = await engine.create_topic("size", TopicSettings(True, -1, 200))
        for _ in range(6):
            for name in ("time", "size"):
                await publish(engine, name, [bytes(60)])
            now += 100
        await quiet(engine)
        assert len(by_time.log.ledgers) == 6 and len(by_size.log.ledgers) == 2
        now += 700
        with trio.fail_after(1_000):  # of the test's clock, which jumps while a thread commits
            while len(by_time.log.ledgers) > 4:
                await trio.testing.wait_all_tasks_blocked(0.0005)


async def test_ten_thousand_idle_topics_cost_nothing_but_their_memory(data_dir: Path) -> None:
    """No task, no timer, no wake-up of theirs."""
    async with open_engine(data_dir) as engine:
        await quiet(engine)
        tasks = trio.lowlevel.current_statistics().tasks_living
        for number in range(300):
            topic = await engine.create_topic(f"t{number}", TopicSettings(durable=False))
            subscription = await topic.subscribe("amqp", initial=EARLIEST)
            attach(subscription, unlimited=True)
        await quiet(engine)
        more = trio.lowlevel.current_statistics().tasks_living - tasks
        steps = 0
        step = engine._pump._step

        def count() -> bool:
            nonlocal steps
            steps += 1
            return step()

        engine._pump._step = count
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert (more, steps) == (0, 0)


async def test_a_cancelled_task_may_still_commit_while_it_leaves(data_dir: Path) -> None:
    """A broker that stops deletes the queues of the connections that it closes."""
    with trio.CancelScope() as serving:
        async with open_engine(data_dir) as engine:
            await make_queue(engine)
            try:
                serving.cancel()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    with trio.fail_after(10):
                        await engine.committed(Unit())
                    await engine.delete_topic("q")  # this waits come what may
    assert was_clean(data_dir)
    async with open_engine(data_dir) as engine:
        assert "q" not in engine.topics
