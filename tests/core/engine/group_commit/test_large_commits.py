"""Commits while a thousand clients are busy: none is so large that it holds everybody up."""

from pathlib import Path
from typing import Any

import pytest

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed
from arneb_core.engine.engine import open_engine
from arneb_core.engine.group_commit.committer import COMMIT_CURSORS_MAX
from arneb_core.engine.group_commit.gathering import COMMIT_APPENDS_MAX
from arneb_core.engine.group_commit.planned_commit import PlannedCommit
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.testing.engine_kit import attach, make_entry, publish, quiet

TOPICS = 3 * COMMIT_CURSORS_MAX + 50


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[PlannedCommit]:
    """The commits that were stored."""
    found: list[PlannedCommit] = []
    original = PlannedCommit.stored

    def store(self: PlannedCommit) -> int:
        found.append(self)
        return original(self)

    monkeypatch.setattr(PlannedCommit, "stored", store)
    return found


async def test_publishes_of_a_thousand_go_into_several_commits_in_their_order(
    data_dir: Path, stored: list[PlannedCommit]
) -> None:
    async with open_engine(data_dir) as engine:
        topic = await engine.create_topic("t", subscriptions=["s"])
        assert isinstance(topic, LogTopic)
        _, sink = attach(topic.subscriptions["s"], permits=1000)
        stored.clear()
        calls: list[int] = []

        def tell(number: int) -> Any:
            def done(error: CommitFailed | None, first: Position) -> None:
                assert error is None
                calls.append(number)

            return done

        for number in range(1000):
            entry = make_entry(str(number).encode(), publish_time_ms=1)
            engine.append(topic, [entry], tell(number))
        await quiet(engine)
        assert calls == list(range(1000))
        assert sink.bodies == [str(number).encode() for number in range(1000)]
        counts = [len(each.requests) for each in stored if each.requests]
        assert sum(counts) == 1000
        assert max(counts) <= COMMIT_APPENDS_MAX // 2


async def test_cursors_of_hundreds_go_into_several_commits_and_none_is_left_at_the_end(
    data_dir: Path, stored: list[PlannedCommit]
) -> None:
    names = [f"t{number}" for number in range(TOPICS)]
    async with open_engine(data_dir) as engine:
        for name in names:
            await engine.create_topic(name, subscriptions=["s"])
            await publish(engine, name, [b"x"])
        sinks = {name: attach(engine.topic(name).subscriptions["s"], permits=1) for name in names}
        await quiet(engine)
        stored.clear()
        for consumer, sink in sinks.values():
            assert isinstance(consumer, LogConsumer)
            consumer.acknowledge(sink.positions)
    counts = [len(each.cursors) for each in stored]
    assert max(counts) == COMMIT_CURSORS_MAX
    assert sum(counts) >= TOPICS
    async with open_engine(data_dir) as engine:
        subscriptions = [engine.topic(name).subscriptions["s"] for name in names]
        assert sum(each.ready_messages for each in subscriptions) == 0


async def test_a_cursor_that_is_waited_for_is_written_first_and_reported(
    data_dir: Path, stored: list[PlannedCommit]
) -> None:
    names = [f"t{number}" for number in range(TOPICS)]
    async with open_engine(data_dir) as engine:
        subscriptions = []
        for name in names:
            topic = await engine.create_topic(name, subscriptions=["s"])
            assert isinstance(topic, LogTopic)
            subscriptions.append(topic.subscriptions["s"])
        await quiet(engine)
        stored.clear()
        calls: list[int] = []

        def tell(subscription: LogSubscription) -> Any:
            def done(error: CommitFailed | None) -> None:
                assert error is None
                writers = [
                    index for index, each in enumerate(stored)
                    if any(one is subscription for one, _ in each.cursors)
                ]  # fmt: skip
                assert writers, "told before it was written"
                calls.append(writers[0])

            return done

        for subscription in subscriptions[:-200]:
            subscription.receipt(None)
        for subscription in subscriptions[-200:]:
            subscription.receipt(tell(subscription))
        await quiet(engine)
        assert len(calls) == 200
        assert max(calls) <= -(-200 // COMMIT_CURSORS_MAX), (
            "cursors that nobody waits for were written first"
        )
