"""Units, failing commits, and what frontends' call-backs may and may not do to the engine."""

from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from arneb_core.api.core import Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, StoreFailed, StoreFull
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.windows import Window
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.scheduling import maintenance
from arneb_core.engine.scheduling import steps as engine_steps
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.log import planning
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import (
    Outcome,
    RecordingSink,
    append,
    attach,
    make_entry,
    publish,
    quiet,
)
from arneb_core.testing.faults import FaultyStore

pytestmark = pytest.mark.real_time

AMQP = ConsumerSpec("a", message_level=True, unlimited=True, entries_per_turn_max=1)
PULSAR = ConsumerSpec("p")


@asynccontextmanager
async def faulty_engine(path: Path):
    with Store.open(path) as store:
        faulty = FaultyStore(store)
        async with open_engine(path, store=store, committing=faulty) as engine:
            yield engine, faulty


async def make_queue(engine: Engine, name: str = "q", *, durable: bool = True):
    topic = await engine.create_topic(name, TopicSettings(durable=durable))
    return await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)


async def fail(engine: Engine, faulty: FaultyStore, *acks: tuple[LogConsumer, list[Position]]):
    """Commit a unit with these acks while every commit fails."""
    faulty.fail_until_healed()
    with pytest.raises(StoreFailed):
        await engine.committed(
            Unit([(engine.topic("q"), [make_entry(b"never")])], list(acks), [("never", b"")])
        )
    faulty.heal()
    await quiet(engine)


async def test_a_failed_unit_gives_every_entry_back_to_where_it_was(data_dir: Path) -> None:
    """Held whole, held in part, held by somebody else, not yet delivered."""
    async with faulty_engine(data_dir) as (engine, faulty):
        subscription = await make_queue(engine)
        entries = [make_entry(b"batch", 4), make_entry(b"a"), make_entry(b"b"), make_entry(b"c")]
        batch = await append(engine, "q", entries)
        a, b, c = (Position(batch + each) for each in (1, 2, 3))
        window, others = Window(4), Window(2)
        sink, other_sink = RecordingSink(), RecordingSink()
        spec = {"message_level": True, "unlimited": True, "entries_per_turn_max": 1}
        other = subscription.attach(ConsumerSpec("o", windows=(others,), **spec), other_sink)
        await quiet(engine)
        assert other.in_flight == 2
        consumer = subscription.attach(ConsumerSpec("c", windows=(window,), **spec), sink)
        await quiet(engine)
        assert consumer.in_flight == 4 and subscription.ready_messages == 1
        other.acknowledge_messages(batch, 0b0001)
        await quiet(engine)
        assert other_sink.positions[-1] == c
        consumer.release([a], count=True)
        await quiet(engine)

        await fail(engine, faulty, (consumer, [batch, a, b, c]))
        assert engine.metadata("never") == {}
        assert subscription.machine.state.acks.unacked_mask(batch) == 0b1110
        assert consumer.masks == {batch: 0b1100} and consumer.whole == {a, b}
        assert window.in_flight == 4, (
            "the other consumer's entry must be ready again, and was delivered"
        )
        assert subscription.statistics().backlog_entries == 4
        consumer.detach()
        await quiet(engine)
        other.receiver.windows = ()
        other.wake()
        await quiet(engine)
        last = {position: run for run in other_sink.runs for position in run.positions}
        assert last[a].redelivery_counts == {a: 1} and last[a].redelivered == {a}
        assert {a, b, c, batch} <= other.whole | other.masks.keys()
        assert other.masks == {batch: 0b1110}


async def test_a_failed_unit_gives_a_batch_back_as_all_of_its_messages(data_dir: Path) -> None:
    async with faulty_engine(data_dir) as (engine, faulty):
        subscription = await make_queue(engine)
        batch = await append(engine, "q", [make_entry(b"batch", 4), make_entry(b"a")])
        alone = Position(batch + 1)
        window = Window(9)
        spec = ConsumerSpec("c", unlimited=True, windows=(window,))
        consumer = subscription.attach(spec, RecordingSink())
        await quiet(engine)
        assert consumer.in_flight == window.in_flight == 5
        await fail(engine, faulty, (consumer, [batch, alone]))
        assert consumer.whole == {batch, alone}
        assert consumer.in_flight == window.in_flight == 5
        consumer.acknowledge([batch])
        assert consumer.in_flight == window.in_flight == 1


async def test_a_failed_unit_whose_consumer_left_makes_its_entries_ready(data_dir: Path) -> None:
    async with faulty_engine(data_dir) as (engine, faulty):
        subscription = await make_queue(engine)
        await publish(engine, "q", [b"0", b"1"])
        window = Window(1)
        consumer, sink = attach(subscription, unlimited=True, windows=(window,))
        await quiet(engine)
        faulty.fail_until_healed()
        faulty.hold()
        outcome = Outcome()
        engine.commit(Unit(acks=[(consumer, sink.positions)]), outcome)
        await trio.testing.wait_all_tasks_blocked()
        consumer.detach()
        faulty.release()
        assert isinstance(await outcome.wait(), StoreFailed)
        faulty.heal()
        _, new_sink = attach(subscription, unlimited=True)
        await quiet(engine)
        assert new_sink.bodies == [b"0", b"1"] and window.in_flight == 0
        assert new_sink.redelivered == set(new_sink.positions)


async def test_a_seek_is_not_undone_by_a_unit_that_fails_after_it(data_dir: Path) -> None:
    async with faulty_engine(data_dir) as (engine, faulty):
        subscription = await make_queue(engine)
        first = await publish(engine, "q", [b"%d" % each for each in range(5)])
        consumer, _ = attach(subscription, unlimited=True)
        await quiet(engine)
        faulty.fail_next(1)
        faulty.hold()
        outcome = Outcome()
        engine.commit(Unit(acks=[(consumer, [first])]), outcome)
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(subscription.seek, Position(first + 3))
            await trio.testing.wait_all_tasks_blocked()
            faulty.release()
        assert isinstance(await outcome.wait(), StoreFailed)
        consumer.acknowledge([Position(first + 4)])  # it was put out and is about the past
        _, new_sink = attach(subscription, unlimited=True)
        await quiet(engine)
        assert new_sink.bodies == [b"3", b"4"]


async def test_a_unit_takes_entries_out_of_a_memory_topic_only_when_it_is_durable(
    data_dir: Path,
) -> None:
    """A message that was to be dead-lettered must not be nowhere."""
    async with faulty_engine(data_dir) as (engine, faulty):
        await make_queue(engine)
        memory = await make_queue(engine, "m", durable=False)
        await publish(engine, "m", [b"precious"])
        consumer, sink = attach(memory, unlimited=True)
        await quiet(engine)
        await fail(engine, faulty, (consumer, sink.positions))
        assert consumer.in_flight == 1 and memory.statistics().backlog_entries == 1
        await engine.committed(
            Unit([(engine.topic("q"), [make_entry(b"dead")])], [(consumer, sink.positions)])
        )
        assert consumer.in_flight == 0 and memory.statistics().backlog_entries == 0
        outcome = Outcome()
        await publish(engine, "m", [b"other"])
        await quiet(engine)
        engine.commit(Unit(acks=[(consumer, sink.positions[1:])]), outcome)
        assert await outcome.wait() is None
        assert memory.statistics().backlog_entries == 0


async def test_late_acks_of_what_was_removed_leave_no_trace(data_dir: Path) -> None:
    """The check of the store afterwards would find cursor rows without an owner."""
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        other = await engine.topic("q").subscribe("other", initial=InitialPosition.EARLIEST)
        await publish(engine, "q", [b"0", b"1", b"2", b"3"])
        consumer, sink = attach(subscription, unlimited=True)
        doomed, _ = attach(other, unlimited=True)
        await quiet(engine)
        consumer.acknowledge(sink.positions[1:2])
        await engine.topic("q").unsubscribe("amqp", force=True)
        outcome = Outcome()
        consumer.acknowledge(sink.positions[3:], outcome)
        assert await outcome.wait() is None
        await engine.committed(
            Unit([(engine.topic("q"), [make_entry(b"x")])], [(consumer, sink.positions)])
        )
        await engine.delete_topic("q")
        doomed.acknowledge(sink.positions)
        await engine.committed(Unit(acks=[(doomed, sink.positions)], metadata=[("a", b"b")]))
        await quiet(engine)


async def test_cursors_are_flushed_after_a_slow_failure_though_nobody_asks_again(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Promise 2: other acks are durable within 100 ms; that of a disk that fails, soon after."""
    monkeypatch.setattr(maintenance, "CURSOR_FLUSH_S", 0.004)
    async with faulty_engine(data_dir) as (engine, faulty):
        subscription = await make_queue(engine)
        await publish(engine, "q", [b"0", b"1"])
        consumer, sink = attach(subscription, unlimited=True)
        await quiet(engine)
        faulty.hold()
        faulty.fail_next(1)
        consumer.acknowledge(sink.positions[:1])
        with trio.fail_after(5):
            begun = faulty.commits_total
            while faulty.commits_total == begun:
                await trio.testing.wait_all_tasks_blocked(0.001)
            for _ in range(20):  # the flusher looks several times, and finds it still under way
                await trio.testing.wait_all_tasks_blocked(0.001)
            faulty.release()
            while engine._committer.has_dirty:
                await trio.testing.wait_all_tasks_blocked(0.001)
        assert engine.statistics().commit_failures_total == 1


async def test_publishers_get_room_though_every_commit_fails(data_dir: Path) -> None:
    async with faulty_engine(data_dir) as (engine, faulty):
        await make_queue(engine)
        faulty.fail_until_healed(StoreFull("full"))
        faulty.hold()
        tolds = [Outcome() for _ in range(5)]
        for outcome in tolds:
            engine.append(engine.topic("q"), [make_entry(bytes(4 << 20))], outcome)
        assert engine.crowded
        faulty.release()
        with trio.fail_after(5):
            await engine.room()
            assert all([isinstance(await outcome.wait(), StoreFull) for outcome in tolds])
        faulty.heal()
        assert engine.statistics().waiting_bytes == 0 and engine.statistics().full
        await publish(engine, "q", [b"x"])
        assert not engine.statistics().full


async def test_trims_go_on_after_a_failed_commit(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arneb_core.log.planning.LEDGER_ENTRIES_MAX", 2)
    async with faulty_engine(data_dir) as (engine, faulty):
        topic = await engine.create_topic("q")  # nobody subscribes, so nothing is kept
        faulty.hold()
        tolds = [Outcome() for _ in range(3)]
        for outcome in tolds:
            engine.append(topic, [make_entry(b"x"), make_entry(b"y")], outcome)
            await trio.testing.wait_all_tasks_blocked()
        faulty.release()
        for outcome in tolds:
            assert await outcome.wait() is None
        faulty.fail_until_healed()
        with pytest.raises(StoreFailed):
            await engine.committed(Unit(metadata=[("a", b"b")]))
        await trio.testing.wait_all_tasks_blocked(0.005)
        commits = faulty.commits_total
        await trio.testing.wait_all_tasks_blocked(0.005)
        assert faulty.commits_total == commits, "a failed commit must not be retried continuously"
        faulty.heal()
        other = await topic.subscribe("s", initial=InitialPosition.LATEST)
        await publish(engine, "q", [b"z"])
        consumer, sink = attach(other, unlimited=True)
        await quiet(engine)
        outcome = Outcome()
        consumer.acknowledge(sink.positions, outcome)
        assert await outcome.wait() is None
        await quiet(engine)
        assert len(topic.log.ledgers) == 1


# Call-backs.


class BadSink(RecordingSink):
    """Raises at every delivery."""

    def deliver(self, run: Deliveries) -> None:
        super().deliver(run)
        raise RuntimeError("a bug of a frontend")

    def active_changed(self, active: bool) -> None:
        """Nobody asks."""

    def closed_by_core(self, reason: str) -> None:
        super().closed_by_core(reason)
        raise RuntimeError("another one")


@pytest.mark.parametrize("from_replays", [False, True])
@pytest.mark.parametrize("messages", [1, 3])
async def test_a_sink_that_raises_loses_its_consumer_and_nothing_else(
    data_dir: Path, from_replays: bool, messages: int
) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        count = 6
        await append(engine, "q", [make_entry(b"%d" % each, messages) for each in range(count)])
        if from_replays:
            first, _ = attach(subscription, unlimited=True)
            await quiet(engine)
            first.detach()
        bad, good = BadSink(), RecordingSink()
        window = Window(0)
        spec = ConsumerSpec("bad", message_level=True, unlimited=True, windows=(window,))
        consumer = subscription.attach(spec, bad)
        subscription.attach(AMQP, good)
        await quiet(engine)
        assert bad.closed == ["failed"] and not consumer.attached and window.in_flight == 0
        got: dict[Position, int] = {}
        for run in good.runs:
            for position in run.positions:
                mask = (run.masks or {}).get(position, (1 << messages) - 1)
                assert not got.get(position, 0) & mask, "delivered twice"
                got[position] = got.get(position, 0) | mask
        assert got == dict.fromkeys(got, (1 << messages) - 1) and len(got) == count
        assert set(bad.positions) <= good.redelivered


async def test_call_backs_that_raise_cost_nobody_anything(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)

        def bad(*_: object) -> None:
            raise RuntimeError("a bug of a frontend")

        topic = engine.topic("q")
        outcome = Outcome()
        engine.append(topic, [make_entry(b"0")], bad)
        engine.commit(Unit([(topic, [make_entry(b"1")])]), bad)
        engine.commit(Unit(), bad)
        engine.append(topic, [make_entry(b"2")], outcome)
        assert await outcome.wait() is None
        consumer, sink = attach(subscription, unlimited=True)
        await quiet(engine)
        assert sink.bodies == [b"0", b"1", b"2"]
        consumer.acknowledge(sink.positions, bad)
        done = Outcome()
        consumer.acknowledge([], done)
        assert await done.wait() is None
        bad_sink = BadSink()
        subscription.attach(AMQP, bad_sink)
        await subscription.seek(sink.positions[0])
        assert bad_sink.closed == ["seek"] and sink.closed == ["seek"]


async def test_call_backs_may_publish_and_acknowledge(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        memory = await make_queue(engine, "m", durable=False)
        consumer, sink = attach(subscription, unlimited=True)
        left = 50
        finished = trio.Event()

        def again(error: CommitFailed | None, *_: object) -> None:
            nonlocal left
            left -= 1
            if left:
                engine.append(engine.topic("qm"[left % 2]), [make_entry(b"x")], again)
                consumer.acknowledge(sink.positions[-1:])
            else:
                finished.set()

        again(None)
        with trio.fail_after(5):
            await finished.wait()
        await quiet(engine)
        assert subscription.ready_messages + memory.ready_messages + len(sink.positions) == 49


# Windows and turns.


async def test_a_shared_window_that_opens_resumes_consumers_on_other_queues(
    data_dir: Path,
) -> None:
    """AMQP's channel-wide prefetch over two queues."""
    async with open_engine(data_dir) as engine:
        one, two = await make_queue(engine, "one"), await make_queue(engine, "two")
        window = Window(1)
        consumer, sink = attach(one, unlimited=True, windows=(window,))
        await publish(engine, "one", [b"0", b"1"])
        await quiet(engine)
        other, other_sink = attach(two, unlimited=True, windows=(window,))
        await publish(engine, "two", [b"x", b"y", b"z"])
        await quiet(engine)
        assert sink.bodies == [b"0"] and not other_sink.runs
        consumer.writable = False
        consumer.acknowledge(sink.positions)
        await quiet(engine)
        assert other_sink.bodies == [b"x"]
        other.writable = False
        other.release(other_sink.positions, count=True)
        consumer.writable = True
        await quiet(engine)
        assert sink.bodies == [b"0", b"1"]
        other.writable = True
        consumer.detach()
        await quiet(engine)
        assert other_sink.bodies == [b"x", b"x"] and window.in_flight == 1
        await engine.delete_topic("two")
        assert window.in_flight == 0 and not window.sharers


async def test_a_step_is_bounded_however_many_subscriptions_are_ready(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections get their turn in between, and everybody gets everything in the end."""
    monkeypatch.setattr(engine_steps, "STEP_ENTRIES_MAX", 100)
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("q")
        sinks = []
        for number in range(200):
            subscription = await topic.subscribe(f"s{number}", durable=False)
            _, sink = attach(subscription, unlimited=True)
            sinks.append(sink)
        await quiet(engine)
        done = Outcome()
        engine.append(topic, [make_entry(b"%d" % each) for each in range(10)], done)
        assert await done.wait() is None
        most, steps = 0, 0
        # The pump may have taken a step or two of its own before this task is back.
        before = sum(len(sink.positions) for sink in sinks)
        while not all(len(sink.positions) == 10 for sink in sinks):
            engine._dispatch(engine_steps.STEP_ENTRIES_MAX)
            now = sum(len(sink.positions) for sink in sinks)
            most, before, steps = max(most, now - before), now, steps + 1
        assert 0 < most <= 110 and steps >= 15


async def test_no_queue_is_starved_under_a_shared_window(data_dir: Path) -> None:
    """Each acknowledgement lets the next queue have its turn."""
    async with open_engine(data_dir) as engine:
        window = Window(1)
        pairs = []
        for name in ("one", "two", "three"):
            queue = await make_queue(engine, name)
            pairs.append(attach(queue, unlimited=True, windows=(window,)))
        for name in ("one", "two", "three"):
            await publish(engine, name, [b"%d" % number for number in range(4)])
        for _ in range(9):
            await quiet(engine)
            ((consumer, sink),) = [each for each in pairs if each[0].in_flight]
            consumer.acknowledge(sink.positions[-1:])
        assert [len(sink.bodies) for _, sink in pairs] == [3, 3, 3]


async def test_messages_are_not_counted_in_entries_of_one_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bytes] = []

    def look(entry: bytes) -> int:
        looked.append(entry)
        return 1

    monkeypatch.setattr(planning, "messages_in", look)
    async with open_engine(tmp_path) as engine:
        entries = [make_entry(b"one"), make_entry(b"two")]
        names = ("kept", "in memory")
        topics = [
            await engine.create_topic(name, TopicSettings(durable=name == "kept")) for name in names
        ]
        await engine.committed(Unit([(topic, entries) for topic in topics], has_batches=False))
        assert not looked
        assert [topic.log.ledgers.messages_ever for topic in topics] == [2, 2]
        await engine.committed(Unit([(topic, entries) for topic in topics]))
        assert len(looked) == 4
