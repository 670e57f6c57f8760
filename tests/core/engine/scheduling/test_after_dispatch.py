"""After dispatch: told of a commit, a frontend may wait for the deliveries that it causes."""

from pathlib import Path

import pytest

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed
from arneb_core.api.process.callbacks import Appended
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.scheduling.steps import STEP_ENTRIES_MAX, TURN_ENTRIES
from arneb_core.store.commit.inline_commits import SMALL_COMMITS_MIN
from arneb_core.testing.engine_kit import Outcome, RecordingSink, attach, make_entry, quiet

BY_THREAD, BY_LOOP = 1, SMALL_COMMITS_MIN + 4
"""Commits that the writer's thread makes, and so many that the loop makes the last."""


class Publisher:
    """Notes what the consumer has when a commit is told, and when what is ready is dispatched."""

    def __init__(self, engine: Engine, sink: RecordingSink) -> None:
        self._engine = engine
        self._sink = sink
        self.waits: list[bool] = []
        self.had: list[int] = []

    async def publish(self, name: str, *, together: int = 1) -> None:
        """One message in each of ``together`` appends."""
        outcome = Outcome()
        left = together

        def done(error: CommitFailed | None, _: Position) -> None:
            nonlocal left
            self.waits.append(self._engine.after_dispatch(self.dispatched))
            left -= 1
            if not left:
                outcome(error)

        for _ in range(together):
            self._engine.append(self._engine.topic(name), [make_entry(b"x")], done, 1)
        assert await outcome.wait() is None

    def dispatched(self) -> None:
        self.had.append(len(self._sink.positions))


async def prepare(engine: Engine, *, durable: bool) -> tuple[Publisher, RecordingSink]:
    topic = await engine.create_topic("q", TopicSettings(durable=durable))
    subscription = await topic.subscribe("amqp", initial=InitialPosition.EARLIEST)
    _, sink = attach(subscription, message_level=True, unlimited=True)
    await quiet(engine)
    return Publisher(engine, sink), sink


@pytest.mark.parametrize("commits", [BY_THREAD, BY_LOOP])
@pytest.mark.parametrize("durable", [True, False])
async def test_a_request_made_at_a_commit_is_called_once_its_message_is_delivered(
    tmp_path: Path, durable: bool, commits: int
) -> None:
    async with open_engine(tmp_path) as engine:
        publisher, _ = await prepare(engine, durable=durable)
        for _ in range(commits):
            await publisher.publish("q")
            await quiet(engine)
        assert publisher.waits == [True] * commits
        assert publisher.had == list(range(1, commits + 1))


async def test_several_requests_cause_one_call(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        publisher, _ = await prepare(engine, durable=True)
        await publisher.publish("q", together=3)
        await quiet(engine)
        assert publisher.had == [3]


async def test_no_task_waits_when_there_is_nothing_to_hand_out(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        publisher, sink = await prepare(engine, durable=True)
        await engine.create_topic("read by nobody")
        await publisher.publish("read by nobody")
        await quiet(engine)
        assert publisher.waits == [False]
        assert publisher.had == []
        assert sink.runs == []


async def test_a_call_that_fails_does_not_affect_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_engine(tmp_path) as engine:
        publisher, sink = await prepare(engine, durable=True)

        def broken() -> None:
            raise RuntimeError("a frontend's mistake")

        publisher.dispatched = broken  # type: ignore[method-assign]
        await publisher.publish("q")
        await publisher.publish("q")
        await quiet(engine)
        assert len(sink.positions) == 2
        assert "a frontend's mistake" in caplog.text


async def test_callbacks_wait_for_what_is_handed_out_to_many_others_in_between(
    data_dir: Path,
) -> None:
    """More subscriptions are ready than have their turn in one step."""
    count = 3 * STEP_ENTRIES_MAX // TURN_ENTRIES
    async with open_engine(data_dir) as engine:
        sinks: list[RecordingSink] = []
        for number in range(count):
            topic = await engine.create_topic(
                f"q{number}", TopicSettings(durable=False), subscriptions=["s"]
            )
            sinks.append(attach(topic.subscriptions["s"], permits=10)[1])
        await quiet(engine)
        had: list[int] = []

        def teller(sink: RecordingSink) -> Appended:
            def called() -> None:
                had.append(len(sink.positions))

            def done(error: CommitFailed | None, _: Position) -> None:
                assert error is None
                engine.after_dispatch(called)

            return done

        for number, sink in enumerate(sinks):
            engine.append(engine.topic(f"q{number}"), [make_entry(b"x")], teller(sink), 1)
        await quiet(engine)
        assert all(len(each.positions) == 1 for each in sinks)
        assert had == [1] * count
