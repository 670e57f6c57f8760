"""Delayed delivery: order, restarts, what is told of it, and an index that is damaged or lost."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing

from arneb_core.api.core import Unit
from arneb_core.api.entries.due_key import due_key
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.errors import CommitFailed
from arneb_core.api.subscriptions.subscription import InitialPosition, Subscription
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.topics.settings import DelayedSettings, TopicSettings, TrackerKind
from arneb_core.delayed.bucket import sealed
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.log import planning
from arneb_core.store.checking.check import check
from arneb_core.store.checking.findings import FindingKind as Kind
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.delayed_rows import RECORD_BYTES
from arneb_core.store.format.schema import (
    U32,
    U64,
    DelayedKind,
    Table,
    TopicId,
    bucket_key,
    segment_key,
    through_key,
)
from arneb_core.testing.engine_kit import append, attach, quiet
from arneb_core.testing.faults import FaultyStore

START_MS: Final = 1_000_000

T = TopicId(1)
SMALL: Final = DelayedSettings(tick_ms=1, seal_entries=8, segment_entries=3, buckets_max=3)


def entry(at_ms: int, body: bytes = b"", messages: int = 1) -> bytes:
    header = EntryHeader(Origin.PULSAR, messages, deliver_at_ms=at_ms and START_MS + at_ms)
    return header.pack() + body


class Clock:
    """The wall clock of a test; :meth:`reach` moves the loop's clock with it."""

    def __init__(self) -> None:
        self.ms = 0
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.autojump_threshold = float("inf")  # only the test moves it

    def __call__(self) -> int:
        return START_MS + self.ms

    async def reach(self, ms: int, engine: Engine) -> None:
        await quiet(engine)
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        moved, self.ms = ms - self.ms, ms
        clock.jump(moved / 1000 + 1e-6)  # a sleep may end a rounding later
        await quiet(engine)


@asynccontextmanager
async def running(
    path: Path, clock: Clock, delays: DelayedSettings = SMALL
) -> AsyncIterator[Engine]:
    async with open_engine(path, now_ms=clock, delays=delays) as engine:
        yield engine


async def topic_with(engine: Engine, *names: str, durable: bool = True) -> list[Subscription]:
    await engine.create_topic("t", TopicSettings(durable=durable))
    topic = engine.topic("t")
    return [await topic.subscribe(each, initial=InitialPosition.EARLIEST) for each in names]


async def publish(engine: Engine, times: Sequence[int], **fields: Any) -> Position:
    engine.expect_delays(engine.topic("t"))
    made = [entry(at, b"%d" % index, **fields) for index, at in enumerate(times)]
    return await append(engine, "t", made)


def subscription(engine: Engine, name: str = "s") -> Any:
    return engine.topic("t").subscriptions[name]


@pytest.mark.parametrize("durable", [True, False])
async def test_each_comes_at_its_time_and_in_the_order_of_times(
    data_dir: Path, durable: bool
) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        (held,) = await topic_with(engine, "s", durable=durable)
        _, sink = attach(held, permits=100, by_time=True)
        await publish(engine, [500, 100, 0, 300, 200, 100, 400])
        seen = []
        for ms in range(0, 600, 50):
            await clock.reach(ms, engine)
            seen.append([int(body) for body in sink.bodies])
        assert seen[1] == [2], "entries without a delay must overtake"
        assert seen[-1] == [2, 1, 5, 4, 3, 6, 0]
        assert [len(each) for each in seen] == [1, 1, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]


@pytest.mark.parametrize("by_time", [True, False])
async def test_what_comes_due_a_millisecond_later_does_not_come_along(
    data_dir: Path, by_time: bool
) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        (held,) = await topic_with(engine, "s")
        _, sink = attach(held, permits=100, by_time=by_time)
        await publish(engine, [100, 101, 100])
        await clock.reach(100, engine)
        assert sink.bodies == [b"0", b"2"]
        await clock.reach(101, engine)
        assert sink.bodies == [b"0", b"2", b"1"]


@pytest.mark.parametrize("came_first", [True, False])
@pytest.mark.parametrize("by_time", [True, False])
async def test_of_entries_due_together_the_times_count_for_consumers_that_ask(
    data_dir: Path, by_time: bool, came_first: bool
) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        (held,) = await topic_with(engine, "s")
        if came_first:
            consumer, sink = attach(held, permits=0, by_time=by_time)
        await publish(engine, [500, 100, 300])
        await clock.reach(600, engine)
        if not came_first:
            consumer, sink = attach(held, permits=0, by_time=by_time)
        consumer.flow(9)  # type: ignore[attr-defined]
        await quiet(engine)
        assert sink.bodies == ([b"1", b"2", b"0"] if by_time else [b"0", b"1", b"2"])


async def test_what_comes_back_goes_before_what_is_due_and_that_before_what_is_new(
    data_dir: Path,
) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        (held,) = await topic_with(engine, "s")
        consumer, sink = attach(held, permits=1)
        await publish(engine, [0, 100, 100, 0])
        await clock.reach(200, engine)
        assert sink.bodies == [b"0"]
        consumer.release(sink.positions, count=True)  # type: ignore[attr-defined]
        consumer.flow(9)  # type: ignore[attr-defined]
        await quiet(engine)
        assert sink.bodies == [b"0", b"0", b"1", b"2", b"3"]


async def test_what_came_due_and_is_given_back_comes_again(data_dir: Path) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        (held,) = await topic_with(engine, "s")
        await publish(engine, [100, 100, 0])
        await clock.reach(200, engine)
        consumer, sink = attach(held, permits=1)
        await quiet(engine)
        assert sink.bodies == [b"0"], "the reader has not reached the others yet"
        consumer.release(sink.positions, count=True)  # type: ignore[attr-defined]
        consumer.flow(9)  # type: ignore[attr-defined]
        await quiet(engine)
        assert sink.bodies == [b"0", b"0", b"1", b"2"]


@pytest.mark.parametrize("kind", TrackerKind)
async def test_a_restart_forgets_nothing_and_marks_nothing_as_redelivered(
    data_dir: Path, kind: TrackerKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "LEDGER_ENTRIES_MAX", 10)
    clock = Clock()
    delays = DelayedSettings(kind, tick_ms=1, seal_entries=8, segment_entries=3)
    times = [1000 * (1 + n % 7) for n in range(40)]
    async with running(data_dir, clock, delays) as engine:
        (held,) = await topic_with(engine, "s")
        _, sink = attach(held, permits=100)
        for start in range(0, 40, 8):
            await publish(engine, times[start : start + 8])
        await clock.reach(500, engine)
        assert not sink.positions
    async with running(data_dir, clock, delays) as engine:
        _, sink = attach(subscription(engine), permits=100)
        await clock.reach(999, engine)
        assert not sink.positions
        await clock.reach(1000, engine)
        assert len(sink.positions) == sum(at == 1000 for at in times)
        assert not sink.redelivered, "nobody can have had them before"
        await clock.reach(7000, engine)
        assert len(set(sink.positions)) == len(sink.positions) == 40
    async with running(data_dir, clock, delays) as engine:
        _, sink = attach(subscription(engine), permits=100)
        await quiet(engine)
        assert sink.redelivered == set(sink.positions), "these were delivered before"


async def test_ten_subscriptions_share_one_index(data_dir: Path) -> None:
    clock = Clock()
    names = [f"s{n}" for n in range(10)]
    async with running(data_dir, clock) as engine:
        subscriptions = await topic_with(engine, *names)
        await publish(engine, [100 + n for n in range(100)])
        await quiet(engine)
        with engine._store.snapshot() as snapshot:
            rows = sum(1 for _ in snapshot.scan(Table.DELAYED))
            size = sum(len(value) for _, value in snapshot.scan(Table.DELAYED))
        assert rows < 60
        assert size < 100 * 16 * 2, "sixteen bytes an entry, and a little for each segment"
        sinks = [attach(each, permits=1000)[1] for each in subscriptions]
        assert all(each.statistics().delayed_entries == 100 for each in subscriptions)
        await clock.reach(150, engine)
        assert {len(sink.positions) for sink in sinks} == {51}
        await clock.reach(500, engine)
        assert {len(sink.positions) for sink in sinks} == {100}
        with engine._store.snapshot() as snapshot:
            assert sum(1 for _ in snapshot.scan(Table.DELAYED)) == 1, "all of it is gone"


async def test_what_came_due_is_read_for_all_and_let_go(data_dir: Path) -> None:
    clock = Clock()
    names = ["a", "b", "c"]
    async with running(data_dir, clock) as engine:
        await topic_with(engine, *names)
        await publish(engine, [100 + n for n in range(40)])
    async with running(data_dir, clock) as engine:
        index = engine.topic("t").delayed  # type: ignore[attr-defined]
        await clock.reach(500, engine)
        slow, sink = attach(subscription(engine, "c"), permits=31)
        sinks = [attach(subscription(engine, each), permits=100)[1] for each in names[:2]]
        await quiet(engine)
        assert [len(each.positions) for each in sinks] == [40, 40]
        assert len(sink.positions) == 31 and index.cache.size == engine.budget.bytes > 0
        slow.flow(30)  # type: ignore[attr-defined]
        await quiet(engine)
        assert sink.positions == sinks[0].positions
        assert not index.cache and not engine.budget.bytes


@pytest.mark.parametrize("by_time", [True, False])
async def test_a_second_question_finds_what_came_since_the_first(
    data_dir: Path, by_time: bool
) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        first, second, slow = await topic_with(engine, "a", "b", "c")
        await publish(engine, [100, 100, 1_000])
        attach(first, permits=9, by_time=by_time)
        attach(slow, permits=1, by_time=by_time)  # so that something stays due
        await clock.reach(200, engine)
        await publish(engine, [500])
        _, sink = attach(second, permits=9, by_time=by_time)
        await clock.reach(250, engine)
        assert len(sink.positions) == 2
        await clock.reach(500, engine)
        assert len(sink.positions) == 3
        await clock.reach(1_000, engine)
        assert len(sink.positions) == 4


async def test_a_topic_that_goes_leaves_nothing_in_memory(data_dir: Path) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        await topic_with(engine, "s")
        await publish(engine, [100 + n for n in range(40)])
    async with running(data_dir, clock) as engine:
        attach(subscription(engine), permits=10)
        await clock.reach(500, engine)
        assert engine.budget.bytes
        await engine.delete_topic("t")
        assert not engine.budget.bytes


async def test_a_subscription_that_is_being_made_holds_back_too(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    is_durable = LogTopic.come

    def come(topic: LogTopic, made: LogSubscription) -> None:
        engine.expect_delays(topic)  # while its commit was under way
        is_durable(topic, made)

    monkeypatch.setattr(LogTopic, "come", come)
    async with running(data_dir, clock) as engine:
        (held,) = await topic_with(engine, "s")
        await publish(engine, [100, 0])
        _, sink = attach(held, permits=9)
        await clock.reach(99, engine)
        assert sink.bodies == [b"1"]
        await clock.reach(100, engine)
        assert sink.bodies == [b"1", b"0"]


async def test_what_waits_for_a_commit_that_fails_is_held_back_after_a_restart_too(
    data_dir: Path,
) -> None:
    """The commit that failed was the one to note that something is delayed."""
    clock = Clock()
    store = Store.open(data_dir)
    faulty = FaultyStore(store)
    async with open_engine(data_dir, store=store, committing=faulty, now_ms=clock) as engine:
        await topic_with(engine, "s")
        errors: list[CommitFailed | None] = []
        faulty.hold()
        for body in (b"fails", b"waits behind it"):
            engine.expect_delays(engine.topic("t"))
            unit = Unit([(engine.topic("t"), [entry(100, body)])])
            engine.commit(unit, errors.append)
            await trio.testing.wait_all_tasks_blocked()  # the first is on its way, in a thread
        faulty.fail_next()
        faulty.release()
        while len(errors) < 2:
            await trio.lowlevel.checkpoint()
        assert isinstance(errors[0], CommitFailed) and errors[1] is None
    store.close()
    async with running(data_dir, clock) as engine:
        _, sink = attach(subscription(engine), permits=9)
        await clock.reach(99, engine)
        assert not sink.bodies
        await clock.reach(100, engine)
        assert sink.bodies == [b"waits behind it"]


@pytest.mark.parametrize("early", ["a", "b"])
async def test_the_index_stays_while_somebody_may_need_it(data_dir: Path, early: str) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        await topic_with(engine, "a", "b")
        first = subscription(engine, early)
        second = subscription(engine, "b" if early == "a" else "a")
        _, sink = attach(first, permits=1000)
        await publish(engine, [100 + n for n in range(40)])
        await clock.reach(1000, engine)
        assert len(sink.positions) == 40
        assert engine.topic("t").delayed.tracker.buckets  # type: ignore[union-attr]
        _, sink = attach(second, permits=1000)
        await quiet(engine)
        assert len(sink.positions) == 40
        await publish(engine, [0])
        await quiet(engine)
        assert not engine.topic("t").delayed.tracker.members  # type: ignore[union-attr]


async def test_what_is_held_back_is_not_ready(data_dir: Path) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        (held,) = await topic_with(engine, "s")
        await publish(engine, [0, 100, 200])
        assert held.ready_messages == 1
        statistics = held.statistics()
        assert (statistics.backlog_entries, statistics.ready_entries) == (3, 1)
        assert statistics.delayed_entries == 2
        await clock.reach(150, engine)
        assert held.ready_messages == 2, "it must become ready although no consumer is attached"
        getter, _ = attach(held)
        assert (await getter.pull()).positions  # type: ignore[attr-defined]
        assert (await getter.pull()).positions  # type: ignore[attr-defined]
        assert await getter.pull() is None  # type: ignore[attr-defined]
        assert await held.purge() == 0
        await clock.reach(500, engine)
        assert await getter.pull() is None, "a purge must also remove delayed entries"  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER])
async def test_others_hold_nothing_back(data_dir: Path, kind: SubscriptionType) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        (held,) = await topic_with(engine, "s")
        await publish(engine, [100, 0, 200])
        _, sink = attach(held, permits=9, type=kind)
        await quiet(engine)
        assert sink.bodies == [b"0", b"1", b"2"]
        assert held.statistics().delayed_entries == 0


async def test_priorities_count_among_what_is_due(data_dir: Path) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        (held,) = await topic_with(engine, "s")
        held.prioritise(3)
        engine.expect_delays(engine.topic("t"))
        made = [
            EntryHeader(Origin.AMQP, priority=p, deliver_at_ms=at and START_MS + at).pack()
            for p, at in [(1, 0), (3, 100), (2, 0), (0, 50)]
        ]
        await append(engine, "t", made)
        await clock.reach(75, engine)
        consumer, sink = attach(held, permits=1)
        await quiet(engine)
        await clock.reach(200, engine)
        consumer.flow(9)  # type: ignore[attr-defined]
        await quiet(engine)
        assert [position & 0xFF for position in sink.positions] == [2, 1, 0, 3]


async def test_a_batch_is_held_back_as_a_whole(data_dir: Path) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        (held,) = await topic_with(engine, "s")
        consumer, sink = attach(held, permits=2, message_level=True)
        await publish(engine, [100], messages=3)
        await clock.reach(99, engine)
        assert not sink.runs
        await clock.reach(100, engine)
        assert [run.masks for run in sink.runs] == [{sink.positions[0]: 0b11}]
        consumer.release(sink.positions[:1], count=True)  # type: ignore[attr-defined]
        consumer.flow(9)  # type: ignore[attr-defined]
        await quiet(engine)
        assert [run.masks for run in sink.runs[1:]] == [{sink.positions[0]: 0b111}]


async def test_a_topic_that_goes_takes_its_index_with_it(data_dir: Path) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        await topic_with(engine, "s")
        await publish(engine, [100 + n for n in range(20)])
        await engine.delete_topic("t")
        await quiet(engine)
        with engine._store.snapshot() as snapshot:
            assert not list(snapshot.scan(Table.DELAYED))


# Damage and loss


async def make_store(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty delayed entries, most of them in buckets."""
    monkeypatch.setattr(planning, "LEDGER_ENTRIES_MAX", 12)
    async with running(path, Clock()) as engine:
        await topic_with(engine, "s")
        for start in range(0, 30, 5):
            await publish(engine, [100 * (1 + (start + n) * 7 % 30) for n in range(5)])
            await quiet(engine)


def bucket_in(store: Store) -> int:
    with store.snapshot() as snapshot:
        keys = list(snapshot.keys(Table.DELAYED, b""))
    return int.from_bytes(keys[1][4:8], "big")


def drop(key: bytes) -> Changes:
    return Changes(deletes=[(Table.DELAYED, key)])


DAMAGE: Final = {
    "a segment is missing": (lambda n: drop(segment_key(T, n, 0)), Kind.DELAYED_ROW),
    "the members are missing": (
        lambda n: drop(bucket_key(T, n, DelayedKind.MEMBERS)),
        Kind.DELAYED_ROW,
    ),
    "the head is missing": (
        lambda n: drop(bucket_key(T, n, DelayedKind.HEAD)),
        Kind.DELAYED_MISSING,
    ),
    "the end is missing": (lambda n: drop(through_key(T)), Kind.DELAYED_THROUGH),
    "a segment is damaged": (
        lambda n: Changes(puts=[(Table.DELAYED, segment_key(T, n, 0), bytes(4 + 3 * 16))]),
        Kind.DELAYED_ROW,
    ),
    "the head is damaged": (
        lambda n: Changes(puts=[(Table.DELAYED, bucket_key(T, n, DelayedKind.HEAD), bytes(40))]),
        Kind.DELAYED_ROW,
    ),
    "everything is lost": (
        lambda n: Changes(prefixes=[(Table.DELAYED, b"\0\0\0\1")]),
        Kind.DELAYED_THROUGH,
    ),
}


async def test_a_time_that_changed_inside_a_segment_is_noticed(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything else about the segment is as its head says."""
    await make_store(data_dir, monkeypatch)
    monkeypatch.setattr("arneb_core.store.checking.check.wall_clock_ms", lambda: START_MS)
    with Store.open(data_dir) as store:
        key = segment_key(T, bucket_in(store), 0)
        with store.snapshot() as snapshot:
            assert not list(check(snapshot))
            value = snapshot.get(Table.DELAYED, key)
        assert value is not None
        changed = bytearray(value)
        changed[U32.size + RECORD_BYTES + U64.size - 1] ^= 1  # the second entry's time
        store.commit(Changes(puts=[(Table.DELAYED, key, bytes(changed))]))
        with store.snapshot() as snapshot:
            assert Kind.DELAYED_ROW in {finding.kind for finding in check(snapshot)}
        store.commit(Changes(puts=[(Table.DELAYED, key, value)]))


@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_index_is_found_and_rebuilt(
    data_dir: Path, damage: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await make_store(data_dir, monkeypatch)
    monkeypatch.setattr("arneb_core.store.checking.check.wall_clock_ms", lambda: START_MS)
    change, expected = DAMAGE[damage]
    with Store.open(data_dir) as store:
        store.commit(change(bucket_in(store)))
        with store.snapshot() as snapshot:
            assert expected in {finding.kind for finding in check(snapshot)}
    clock = Clock()
    with caplog.at_level(logging.ERROR):
        async with running(data_dir, clock) as engine:
            _, sink = attach(subscription(engine), permits=100)
            await clock.reach(1500, engine)
            assert len(sink.positions) == 15
            await clock.reach(3000, engine)
            assert len(set(sink.positions)) == len(sink.positions) == 30
    assert "rebuil" in caplog.text


async def test_an_index_of_what_is_not_delayed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_store(tmp_path / "data", monkeypatch)
    with Store.open(tmp_path / "data") as store:
        _, rows = sealed(T, 50, [due_key(START_MS, position_at(9, 9))], 5, 5)
        store.commit(Changes(puts=rows))
        with store.snapshot() as snapshot:
            assert Kind.DELAYED_PLACE in {finding.kind for finding in check(snapshot)}


async def test_rows_of_a_merge_that_did_not_end_are_thrown_away(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_store(data_dir, monkeypatch)
    with Store.open(data_dir) as store:
        store.commit(Changes(puts=[(Table.DELAYED, segment_key(T, 99, 0), b"anything")]))
        with store.snapshot() as snapshot:
            assert check(snapshot) == []
    async with running(data_dir, Clock()) as engine:
        with engine._store.snapshot() as snapshot:
            assert snapshot.get(Table.DELAYED, segment_key(T, 99, 0)) is None
