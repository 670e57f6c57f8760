"""What administrators ask of topics and subscriptions, held against the log as a list."""

from pathlib import Path

import pytest
import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.errors import StoreFailed
from arneb_core.api.subscriptions.limits import Departure, Fate, Limits
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import append, attach, make_entry, publish, quiet
from arneb_core.testing.faults import FaultyStore

EARLIEST = InitialPosition.EARLIEST


async def topic_with(engine: Engine, count: int) -> None:
    await engine.create_topic("t")
    await publish(engine, "t", [b"%d" % number for number in range(count)])


def at(number: int) -> Position:
    return position_at(1, number)


@given(
    acked=st.sets(st.integers(0, 19)),
    taken=st.integers(0, 10),
    through=st.integers(0, 25),
    reason=st.sampled_from([None, Departure.EXPIRED]),
)
@settings(max_examples=12)
def test_skipping_acknowledges_everything_up_to_there(
    tmp_path_factory: pytest.TempPathFactory,
    acked: set[int],
    taken: int,
    through: int,
    reason: Departure | None,
) -> None:
    async def play() -> None:
        path = tmp_path_factory.mktemp("skip")
        async with open_engine(path) as engine:
            await topic_with(engine, 20)
            subscription = await engine.topic("t").subscribe("s", initial=EARLIEST)
            consumer, sink = attach(subscription, permits=taken)
            await quiet(engine)
            consumer.acknowledge([at(number) for number in acked])  # type: ignore[attr-defined]
            backlog = subscription.statistics().backlog_entries
            await subscription.skip_through(at(through), reason)
            gone = backlog - subscription.statistics().backlog_entries
            assert subscription.departed == ({(reason, Fate.DROPPED): gone} if reason else {})
            left = [at(n) for n in range(20) if n > through and n not in acked]
            assert list(subscription.unacknowledged(100)) == left
            assert subscription.last_unacknowledged == (left[-1] if left else None)
            assert subscription.statistics().backlog_entries == len(left)
            out = [p for p in sink.positions if p in left]
            assert subscription.statistics().in_flight_messages == len(out)
            consumer.flow(100)  # type: ignore[attr-defined]
            await quiet(engine)
            assert sorted(set(sink.positions) & set(left)) == left
        async with open_engine(path) as engine:
            subscription = engine.topic("t").subscriptions["s"]
            assert list(subscription.unacknowledged(100)) == left

    trio.run(play)


@given(
    theirs=st.sets(st.integers(0, 9)),
    ours=st.sets(st.integers(0, 9)),
    batch=st.integers(0, 7),
    seen=st.integers(0, 13),
)
@settings(max_examples=24)
@example({0, 5}, {1}, 0b010, 13)
def test_what_another_is_done_with_is_overlooked(
    tmp_path_factory: pytest.TempPathFactory,
    theirs: set[int],
    ours: set[int],
    batch: int,
    seen: int,
) -> None:
    async def play() -> None:
        async with open_engine(tmp_path_factory.mktemp("overlook")) as engine:
            await topic_with(engine, 10)
            last = await append(engine, "t", [make_entry(b"batch", messages=3)])
            topic = engine.topic("t")
            marks = await topic.subscribe("marks", initial=EARLIEST)
            subscription = await topic.subscribe("s", initial=EARLIEST)
            for each, done in ((marks, theirs), (subscription, ours)):
                consumer, _ = attach(each)
                consumer.acknowledge([at(n) for n in done])  # type: ignore[attr-defined]
                if each is marks and batch:
                    consumer.acknowledge_messages(last, batch)  # type: ignore[attr-defined]
                await quiet(engine)
                consumer.detach()  # type: ignore[attr-defined]
            if seen:
                consumer, _ = attach(subscription, permits=seen)
                await quiet(engine)
                consumer.detach()  # type: ignore[attr-defined]
            await subscription.overlook(marks)
            left = [at(n) for n in range(10) if n not in theirs | ours]
            left += [last] if batch != 7 else []
            assert list(subscription.unacknowledged(100)) == left
            assert subscription.masks.get(last, 7) == (7 & ~batch or 7)
            _, sink = attach(subscription, permits=100)
            await quiet(engine)
            assert sorted(sink.positions) == left
            masks = {
                position: mask for run in sink.runs for position, mask in (run.masks or {}).items()
            }
            assert masks.get(last, 7) == (7 & ~batch or 7)
            assert marks.statistics().backlog_entries == 11 - len(theirs) - (batch == 7)

    trio.run(play)


async def test_nothing_waits_where_nothing_may(tmp_path: Path) -> None:
    async with open_engine(tmp_path / "data") as engine:
        topic = await engine.create_topic("t", TopicSettings(durable=False))
        subscription = await topic.subscribe("s")
        subscription.limit(Limits(waits=False), None)
        await publish(engine, "t", [b"lost"])
        await quiet(engine)
        assert subscription.statistics().backlog_entries == 0
        consumer, sink = attach(subscription, permits=2, acks=False)
        await publish(engine, "t", [b"a", b"b", b"c"])
        await quiet(engine)
        assert sink.bodies == [b"a", b"b"]
        consumer.flow(5)  # type: ignore[attr-defined]
        await publish(engine, "t", [b"d"])
        await quiet(engine)
        assert sink.bodies == [b"a", b"b", b"d"]
        assert not topic.log.tail
        assert subscription.departed == {(Departure.EXPIRED, Fate.DROPPED): 2}  # "lost", "c"


async def test_retention_changes_when_it_is_durable(tmp_path: Path) -> None:
    path = tmp_path / "data"
    store = FaultyStore(Store.open(path))
    async with open_engine(path, store=store.inner, committing=store) as engine:
        topic = await engine.create_topic("t", TopicSettings(properties={"a": "b"}))
        store.fail_next()
        with pytest.raises(StoreFailed):
            await topic.retain(5, 6)
        assert (topic.settings.retention_ms, topic.settings.retention_bytes) == (0, 0)
        await topic.retain(5, 6)
    store.close()
    async with open_engine(path) as engine:
        topic = engine.topic("t")
        assert (topic.retention.ms, topic.retention.bytes) == (5, 6)
        await topic.retain(5, 6, 1_000)
        assert topic.log.ledger_bytes_max == topic.settings.ledger_bytes_max == 1_000
        await topic.retain(7, 8)
        assert topic.settings.ledger_bytes_max == 1_000
        assert topic.properties == {"a": "b"}
