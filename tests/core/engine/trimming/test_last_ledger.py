"""The last ledger goes when all of it is acknowledged, and no position is ever given out again."""

import shutil
from collections.abc import Callable
from pathlib import Path
from weakref import ref

import pytest
import trio

from arneb_core.api.entries.position import BEFORE_ALL, Position, ledger_of, position_at
from arneb_core.api.errors import StoreFailed
from arneb_core.api.process.resource_alarms import NOTHING_SHORT, Resource
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.trimming.trimming import PlannedTrim, Trimming
from arneb_core.log.retention import ENDED_AGE_MS_MIN, LEDGER_AGE_MS_MAX
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.format.schema import TRIMMED_PREFIX, Table
from arneb_core.store.reading.extents import find_extents
from arneb_core.testing.engine_kit import Outcome, attach, make_entry, publish, quiet
from arneb_core.testing.faults import FaultyStore

pytestmark = pytest.mark.real_time

EARLIEST = InitialPosition.EARLIEST
LARGE = [bytes(70_000) for _ in range(16)]
"""More than a ledger must hold to go at once."""


async def make_queue(engine: Engine, name: str = "q", **settings: int):
    topic = await engine.create_topic(name, TopicSettings(True, **settings))
    return await topic.subscribe("amqp", initial=EARLIEST)


async def drain(engine: Engine, subscription) -> list[Position]:
    """Acknowledge everything there is; what that was."""
    consumer, sink = attach(subscription, unlimited=True)
    await quiet(engine)
    await acknowledged(consumer, sink.positions)
    consumer.detach()
    await quiet(engine)
    return sink.positions


async def acknowledged(consumer, positions) -> None:
    outcome = Outcome()
    consumer.acknowledge(positions, outcome)
    assert await outcome.wait() is None


async def until(is_so: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not is_so():
            await trio.testing.wait_all_tasks_blocked(0.0003)


async def looked(engine: Engine) -> None:
    """Let maintenance look at the topics once, as it does from time to time."""
    maintenance = engine._maintenance
    await maintenance.trim(engine.topics.values, at_once=maintenance.is_short)
    await quiet(engine)


def rows(store: Store, table: Table) -> int:
    with store.snapshot() as snapshot:
        return snapshot.rows(table)


async def test_a_drained_topic_keeps_no_entry_though_nothing_more_is_published(
    data_dir: Path,
) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            subscription = await make_queue(engine)
            await publish(engine, "q", LARGE)
            assert rows(store, Table.ENTRIES)
            await drain(engine, subscription)
            topic = engine.topic("q")
            assert rows(store, Table.ENTRIES) == 0 and rows(store, Table.LEDGERS) == 1
            assert (topic.first, topic.last, topic.messages) == (None, None, 0)
            assert subscription.statistics().backlog_entries == 0
            assert store.free_bytes > len(LARGE) * 70_000
            assert await publish(engine, "q", [b"next"]) == position_at(2, 0)
            assert await topic.offset_of(position_at(2, 0)) == len(LARGE)
            _, sink = attach(subscription, unlimited=True)
            await quiet(engine)
            assert sink.bodies == [b"next"]


async def test_where_what_was_trimmed_ended_is_kept(data_dir: Path) -> None:
    """A reader who had come that far is not told of a loss."""

    def trimmed_end() -> Position | None:
        with store.snapshot() as snapshot:
            (extent,) = find_extents(snapshot, ["q"])
        return extent.trimmed_end

    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            subscription = await make_queue(engine)
            await publish(engine, "q", LARGE)
            assert trimmed_end() is None
            await drain(engine, subscription)
            assert trimmed_end() == position_at(1, len(LARGE))
            await publish(engine, "q", LARGE[:2])
            await engine.topic("q").roll()
            await publish(engine, "q", LARGE[:3])
            await engine.topic("q").trim(position_at(3, 0))
            assert trimmed_end() == position_at(1, len(LARGE)), "nothing may go yet"
            await drain(engine, subscription)
            with store.snapshot() as snapshot:
                (extent,) = find_extents(snapshot, ["q"])
            assert (extent.floor, extent.trimmed_end) == (position_at(3, 0), position_at(2, 2))
        async with open_engine(data_dir, store=store) as engine:
            assert trimmed_end() == position_at(2, 2)
            await engine.delete_topic("q")
            with store.snapshot() as snapshot:
                assert not list(snapshot.scan(Table.CATALOG, TRIMMED_PREFIX))


async def test_an_end_that_an_older_version_left_behind_does_not_count(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            subscription = await make_queue(engine)
            await publish(engine, "q", LARGE)
            await drain(engine, subscription)
            with store.snapshot() as snapshot:
                ((key, row),) = snapshot.scan(Table.CATALOG, TRIMMED_PREFIX)
            await publish(engine, "q", LARGE)
            await drain(engine, subscription)
            store.commit(Changes(puts=[(Table.CATALOG, key, row)]))
            with store.snapshot() as snapshot:
                (extent,) = find_extents(snapshot, ["q"])
            assert (extent.floor, extent.trimmed_end) == (position_at(3, 0), None)


async def test_a_purge_frees_the_log(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            subscription = await make_queue(engine)
            await publish(engine, "q", LARGE)
            assert await subscription.purge() == len(LARGE)
            await quiet(engine)
            assert rows(store, Table.ENTRIES) == 0


async def test_it_goes_when_the_subscription_that_held_it_is_removed(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        async with open_engine(data_dir, store=store) as engine:
            subscription = await make_queue(engine)
            await engine.topic("q").subscribe("slow", initial=EARLIEST)
            await publish(engine, "q", LARGE)
            await drain(engine, subscription)
            assert rows(store, Table.ENTRIES)
            await engine.topic("q").unsubscribe("slow")
            await quiet(engine)
            assert rows(store, Table.ENTRIES) == 0


async def test_one_that_was_removed_does_not_stay_in_memory(data_dir: Path) -> None:
    class Slow:
        name, durable, mark_delete = "slow", True, BEFORE_ALL

    async with open_engine(data_dir) as engine:
        await make_queue(engine)
        await publish(engine, "q", LARGE)
        topic = engine.topics["q"]
        subscriptions = {"slow": Slow()}
        trimming = Trimming(topic.log, subscriptions, lambda: None)

        def goes(now_ms: int) -> bool:
            plan = trimming.plan(Changes(), topic.retention, now_ms, at_once=True)
            return plan is not None and plan.ends

        assert not goes(now_ms=0)
        slow = ref(subscriptions.pop("slow"))
        assert slow() is None
        subscriptions["slow"] = Slow()
        assert not goes(now_ms=0), "a new subscription of that name has not passed it either"
        subscriptions["slow"].mark_delete = topic.log.ledgers.newest.last
        assert goes(now_ms=0)
        trimming.failed(PlannedTrim(None, True, 0))


async def test_without_a_subscription_it_waits_for_the_first(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("q", TopicSettings())
        await publish(engine, "q", LARGE)
        engine.ledger_closed(topic)
        await quiet(engine)
        assert topic.messages == len(LARGE)
        assert not topic.trimming.last_ledger_ends(topic.retention, 1 << 60, at_once=True)


async def test_a_reader_that_keeps_up_loses_nothing(data_dir: Path) -> None:
    """It holds no closed ledger, but what it is about to get must not go before its eyes."""
    async with open_engine(data_dir) as engine:
        subscription = await make_queue(engine)
        topic = engine.topic("q")
        reader = await topic.subscribe("r", durable=False, initial=EARLIEST)
        slow, sink = attach(reader, permits=4)
        await publish(engine, "q", LARGE)
        await drain(engine, subscription)
        assert topic.messages == len(LARGE)
        slow.flow(100)
        await quiet(engine)
        assert sink.bodies == LARGE
        await acknowledged(slow, sink.positions)
        slow.detach()
        engine.ledger_closed(topic)
        await quiet(engine)
        assert topic.messages == 0


@pytest.mark.parametrize("is_closed", [False, True])
async def test_a_subscription_moved_back_among_many_keeps_what_it_reads_again(
    data_dir: Path, is_closed: bool
) -> None:
    async with open_engine(data_dir) as engine:
        last = await make_queue(engine)
        topic = engine.topic("q")
        others = [await topic.subscribe(f"s-{number}", initial=EARLIEST) for number in range(9)]
        await publish(engine, "q", LARGE)
        consumer, sink = attach(last, permits=1)
        await quiet(engine)
        await acknowledged(consumer, sink.positions)
        consumer.detach()
        if is_closed:
            await topic.roll()
        for each in others:
            await drain(engine, each)
        engine.ledger_closed(topic)
        await quiet(engine)
        await others[3].seek(position_at(1, 2))
        await drain(engine, last)
        engine.ledger_closed(topic)
        await quiet(engine)
        _, sink = attach(others[3], unlimited=True)
        await quiet(engine)
        assert sink.bodies == LARGE[2:]


async def test_a_small_one_waits_until_it_is_old(data_dir: Path) -> None:
    """A queue that is drained a thousand times a second must not use up its ledgers' numbers."""
    now = 1_000
    async with open_engine(data_dir, now_ms=lambda: now) as engine:
        subscription = await make_queue(engine)
        topic = engine.topic("q")
        for _ in range(50):
            await publish(engine, "q", [b"small"])
            await drain(engine, subscription)
            await looked(engine)
        assert ledger_of(topic.next_append) == 1
        now += ENDED_AGE_MS_MIN
        await looked(engine)
        assert topic.messages == 0
        assert topic.next_append == position_at(2, 0)


@pytest.mark.parametrize("resource", [Resource.DISK, Resource.MEMORY])
async def test_a_small_one_goes_at_once_while_the_disk_is_short(
    data_dir: Path, resource: Resource
) -> None:
    async with open_engine(data_dir) as engine:
        queues = [await make_queue(engine, f"q{number}") for number in range(3)]
        for number, subscription in enumerate(queues):
            await publish(engine, f"q{number}", [b"small"])
            await drain(engine, subscription)
        engine.alarms_changed(frozenset({resource}))
        await looked(engine)
        left = sum(topic.messages for topic in engine.topics.values())
        assert left == (0 if resource is Resource.DISK else 3)
        engine.alarms_changed(NOTHING_SHORT)


async def test_retention_by_time_begins_when_an_idle_ledger_is_old(data_dir: Path) -> None:
    now = 1_000
    async with open_engine(data_dir, now_ms=lambda: now) as engine:
        subscription = await make_queue(engine, retention_ms=5_000, retention_bytes=-1)
        topic = engine.topic("q")
        await publish(engine, "q", LARGE)
        await drain(engine, subscription)
        now += LEDGER_AGE_MS_MAX - 1
        await looked(engine)
        assert len(topic.ledgers()) == 1
        now += 1
        await looked(engine)
        assert topic.messages == len(LARGE) and topic.next_append == position_at(2, 0)
        now += 5_000
        await looked(engine)
        assert topic.messages == 0 and topic.next_append == position_at(2, 0)


async def test_entries_of_the_same_commit_keep_it(data_dir: Path) -> None:
    """An acknowledgement of the last entry and a publish behind it, in one commit."""
    with Store.open(data_dir) as store:
        faulty = FaultyStore(store)
        async with open_engine(data_dir, store=store, committing=faulty) as engine:
            subscription = await make_queue(engine)
            await publish(engine, "q", LARGE)
            consumer, sink = attach(subscription, unlimited=True)
            await quiet(engine)
            faulty.hold()
            acked, behind = Outcome(), []
            engine.append(engine.topic("q"), [make_entry(b"x")], lambda error, first: None)
            consumer.acknowledge(sink.positions, acked)
            engine.append(
                engine.topic("q"), [make_entry(b"x")], lambda error, first: behind.append(first)
            )
            faulty.release()
            assert await acked.wait() is None
            await quiet(engine)
            assert behind == [position_at(1, len(LARGE) + 1)]
            assert sink.positions[-1] == behind[0]


async def test_a_commit_that_fails_takes_nothing_away(data_dir: Path) -> None:
    with Store.open(data_dir) as store:
        faulty = FaultyStore(store)
        async with open_engine(data_dir, store=store, committing=faulty) as engine:
            subscription = await make_queue(engine)
            await publish(engine, "q", LARGE)
            consumer, sink = attach(subscription, unlimited=True)
            await quiet(engine)
            faulty.fail_next(2)
            outcome = Outcome()
            consumer.acknowledge(sink.positions, outcome)
            assert isinstance(await outcome.wait(), StoreFailed)
            topic = engine.topic("q")
            await until(lambda: not topic.messages)  # they are written again by themselves
            assert topic.next_append == position_at(2, 0) and rows(store, Table.LEDGERS) == 1


async def test_a_restart_continues_after_the_ledger_that_was_trimmed(data_dir: Path) -> None:
    for number in range(1, 4):
        async with open_engine(data_dir) as engine:
            subscription = (
                await make_queue(engine) if number == 1 else engine.topic("q").subscriptions["amqp"]
            )
            first = await publish(engine, "q", LARGE)
            assert await drain(engine, subscription) == list(range(first, first + len(LARGE)))
            assert engine.topic("q").messages == 0
            assert await engine.topic("q").offset_of(first) == number * len(LARGE)


class PhotographedStore(FaultyStore):
    """Keeps a copy of the store as it is on disk after every commit: what a kill between that
    commit and the next would leave."""

    def __init__(self, store: Store, album: Path) -> None:
        super().__init__(store)
        self.album = album
        self.pictures: list[tuple[Path, Position]] = []
        self.highest = BEFORE_ALL
        """The last position that any commit so far has given out."""

    def commit(self, changes: Changes) -> CommitReport:
        report = super().commit(changes)
        for _, first, entries in changes.blocks:
            self.highest = max(self.highest, Position(first + len(entries) - 1))
        position = self.album / str(len(self.pictures))
        position.mkdir(parents=True)
        self.inner.copy(position)
        self.pictures.append((position, self.highest))
        return report


async def test_no_kill_makes_a_position_be_given_out_twice(tmp_path: Path) -> None:
    """From every state that the disk was ever in: what is published next stands behind all that
    ever was, and the cursor, which remembers where it was, sees it."""
    with Store.open(tmp_path / "data") as store:
        photographed = PhotographedStore(store, tmp_path / "album")
        async with open_engine(tmp_path / "data", store=store, committing=photographed) as engine:
            subscription = await make_queue(engine)
            for _ in range(3):
                await publish(engine, "q", LARGE)
                await drain(engine, subscription)
                await publish(engine, "q", LARGE)
                await subscription.purge()
                await quiet(engine)
            assert engine.topic("q").messages == 0
    ended = 0
    assert len(photographed.pictures) > 15
    for picture, highest in photographed.pictures:
        async with open_engine(picture) as engine:
            topics = list(engine.topics.values())
            if not topics or "amqp" not in topics[0].subscriptions:
                continue
            ended += topics[0].messages == 0 and highest > BEFORE_ALL
            first = await publish(engine, "q", [b"after the kill"])
            assert first > highest
            _, sink = attach(topics[0].subscriptions["amqp"], unlimited=True)
            await quiet(engine)
            assert sink.bodies[-1] == b"after the kill"
        assert check(picture) == []
        shutil.rmtree(picture)
    assert ended >= 6, "expected snapshots taken after the removal of a last ledger"
