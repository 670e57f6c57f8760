"""Lost leadership, and followers: what an engine does when its commit log has another writer."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.api.core import Unit
from arneb_core.api.errors import (
    CommitFailed,
    EngineFenced,
    LeadershipLost,
    SubscriptionFenced,
)
from arneb_core.api.subscriptions.consumer import Consumer, ConsumerSpec
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import META_CLEAN, META_JOURNAL, META_TRIMS, Table
from arneb_core.testing.engine_kit import Outcome, RecordingSink, attach, body_of, make_entry
from arneb_core.testing.memory_commit_log import MemoryCommitLog, Records

ROWS_OF_ONE_STORE = {(Table.META, META_JOURNAL), (Table.META, META_TRIMS)}


def rows_of(path: Path) -> dict[tuple[Table, bytes], bytes]:
    """Everything that a store holds, but what it keeps for itself."""
    with Store.open(path) as store:
        while store.statistics().trims_left:
            store.commit(Changes())
        with store.snapshot() as snapshot:
            found = {
                (table, key): value for table in Table for key, value in snapshot.scan(table, b"")
            }
    return {row: value for row, value in found.items() if row not in ROWS_OF_ONE_STORE}


def follow(records: Records, path: Path) -> None:
    """Have a store of its own take over all records, as a follower does."""
    with Store.open(path) as store:
        for changes in records.changes():
            store.commit(changes)


def stored_bodies(records: Records) -> list[bytes]:
    return [
        body_of(entry)
        for changes in records.changes()
        for _, _, entries in changes.blocks
        for entry in entries
    ]


class Play:
    """One engine that publishes, delivers and acknowledges until leadership is lost."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.sink = RecordingSink()
        self.outcomes: dict[bytes, Outcome] = {}
        self.acks: list[Outcome] = []
        self.published = 0

    async def run(
        self, path: Path, depth: int, delays: Random, runs: Sequence[int], after: int
    ) -> None:
        made = partial(MemoryCommitLog, depth=depth, records=self.records, delays=delays)
        async with open_engine(path, commit_log=made) as engine:
            topic = await engine.create_topic("t")
            await engine.create_topic("m", TopicSettings(durable=False))
            subscription = await topic.subscribe("s", initial=InitialPosition.EARLIEST)
            consumer = subscription.attach(ConsumerSpec(name="c"), self.sink)
            consumer.flow(10_000)
            leader = self.records.leader
            assert leader is not None
            leader.lose_leadership(after)
            await self.use(engine, consumer, runs, delays)

    async def use(
        self, engine: Engine, consumer: Consumer, runs: Sequence[int], delays: Random
    ) -> None:
        """Publish and acknowledge, until that has ended; and then look at what is left."""
        try:
            for size in runs:
                self.publish(engine, size)
                if self.published % 3 == 0:
                    outcome = Outcome()
                    self.acks.append(outcome)
                    consumer.acknowledge([*self.sink.positions], outcome)
                for _ in range(delays.randrange(4)):
                    await trio.lowlevel.checkpoint()
            while True:
                self.publish(engine, 1)
                await trio.testing.wait_all_tasks_blocked()
        finally:
            with trio.CancelScope(shield=True):
                await self.check_closed(engine)

    def publish(self, engine: Engine, size: int) -> None:
        for _ in range(size):
            body = b"%d" % self.published
            self.published += 1
            outcome = self.outcomes[body] = Outcome()
            engine.append(engine.topic("t"), [make_entry(body)], outcome)

    async def check_closed(self, engine: Engine) -> None:
        """Nobody gets anything any more, and whoever asks for something is told why not."""
        assert self.sink.closed == ["leadership lost"]
        topic = engine.topic("t")
        with pytest.raises(SubscriptionFenced):
            attach(topic.subscriptions["s"])
        self.delivered = len(self.sink.bodies)
        self.late = [Outcome() for _ in range(3)]
        engine.append(topic, [make_entry(b"late")], self.late[0])
        engine.append(engine.topic("m"), [make_entry(b"late")], self.late[1])
        engine.commit(Unit([(topic, [make_entry(b"late")])]), self.late[2])
        for outcome in self.late:
            await outcome.wait()


def outcome_of(outcome: Outcome) -> CommitFailed | None:
    [error] = outcome.calls
    assert error is None or isinstance(error, LeadershipLost), f"{error!r}"
    return error


@settings(max_examples=40)
@given(
    depth=st.sampled_from([1, 2, 8]),
    seed=st.integers(0, 1 << 16),
    runs=st.lists(st.integers(1, 4), max_size=12),
    after=st.integers(0, 12),
)
def test_what_is_not_stored_when_leadership_is_lost_is_refused_and_was_never_delivered(
    depth: int, seed: int, runs: list[int], after: int
) -> None:
    with TemporaryDirectory() as directory:
        path, records = Path(directory, "leader"), Records()
        play = Play(records)
        with pytest.RaisesGroup(EngineFenced, flatten_subgroups=True):
            trio.run(play.run, path, depth, Random(seed), runs, after)
        stored = stored_bodies(records)
        answers = {body: outcome_of(outcome) for body, outcome in play.outcomes.items()}
        assert [body for body, error in answers.items() if error is None] == stored
        assert all(isinstance(outcome_of(outcome), LeadershipLost) for outcome in play.late)
        assert all(outcome.calls for outcome in play.acks)
        # Delivered in order, nothing that is not stored, and nothing afterwards.
        assert play.sink.bodies == stored[: len(play.sink.bodies)]
        assert len(play.sink.bodies) == play.delivered
        # The store has what is stored, no more and no less, and so has every follower.
        follow(records, Path(directory, "follower"))
        assert rows_of(path) == rows_of(Path(directory, "follower"))
        assert check(path) == []
        trio.run(goes_on, path, records, stored)


async def goes_on(path: Path, records: Records, stored: list[bytes]) -> None:
    """Whoever leads next, over the same store, delivers what was not acknowledged."""
    made = partial(MemoryCommitLog, depth=8)
    async with open_engine(path, commit_log=made) as engine:
        subscription = engine.topic("t").subscriptions["s"]
        _, sink = attach(subscription, permits=10_000)
        while subscription.ready_messages:
            await trio.testing.wait_all_tasks_blocked()
        assert sink.bodies == stored[len(stored) - len(sink.bodies) :]


async def test_leadership_that_is_lost_while_the_engine_stops_is_said(tmp_path: Path) -> None:
    records = Records()
    with pytest.RaisesGroup(EngineFenced, flatten_subgroups=True):
        async with open_engine(
            tmp_path / "data", commit_log=partial(MemoryCommitLog, records=records)
        ) as engine:
            topic = await engine.create_topic("t")
            await topic.subscribe("s", initial=InitialPosition.EARLIEST)
            assert records.leader is not None
            records.leader.lose_leadership()
    with Store.open(tmp_path / "data") as store, store.snapshot() as snapshot:
        assert snapshot.get(Table.META, META_CLEAN) is None, "marked as stopped in order"


async def test_leadership_that_is_lost_before_an_engine_is_open_is_said(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with open_engine(path) as engine:
        await engine.create_topic("t")

    def made(*given: object) -> MemoryCommitLog:
        log = MemoryCommitLog(*given)  # type: ignore[arg-type]
        log.lose_leadership()
        return log

    with pytest.RaisesGroup(EngineFenced, flatten_subgroups=True, allow_unwrapped=True):
        async with open_engine(path, commit_log=made):
            raise AssertionError("opened without a leader")
