"""Turns of one connection that is alone: what it appends is committed at their end."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.scheduling.steps import ALONE_TURNS, TURN_END_ENTRIES_MAX, TURN_ENTRIES
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.store.commit.commit_log import Ended
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.testing.engine_kit import Outcome, attach, make_entry, quiet

ALONE = ALONE_TURNS + 1
"""So many turns make whoever had them alone from the next one on."""


PASSES = 3
"""Of the loop: so soon the pump has made its step."""


class AtOnce:
    """A commit log that has stored everything at once; how many entries each commit had."""

    depth = 1
    beside_bytes_min = 0
    needs_takeover = False

    def __init__(self, *_: object) -> None:
        self.commits: list[int] = []

    def prepare(self) -> None:
        pass

    def submit(self, changes: Changes, ended: Ended, *, take_over: bool = False) -> CommitReport:
        self.commits.append(sum(len(entries) for _, _, entries in changes.blocks))
        return CommitReport(1, 1, 0)

    def submit_beside(self, changes: Changes, possible: Callable[[], None]) -> None:
        return None

    def close(self) -> None:
        pass


class Turns:
    """An engine whose commits are stored at once, and the turns of connections."""

    def __init__(self, engine: Engine, log: AtOnce) -> None:
        self.engine = engine
        self.log = log

    def take(self, whose: int, *, may_be_called: bool = True) -> Outcome:
        """One turn with one append."""
        outcome = Outcome()
        self.engine.turn_begins(whose)
        self.engine.append(self.engine.topic("t"), [make_entry(b"x")], outcome, 1)
        assert not outcome.calls, "called back before the end of the turn"
        self.engine.turn_ends(may_be_called=may_be_called)
        return outcome

    async def alone(self, whose: int) -> None:
        """So many turns of one that the next is one of somebody alone."""
        for _ in range(ALONE):
            await self.take(whose).wait()
        self.log.commits.clear()


@asynccontextmanager
async def opened(data_dir: Path) -> AsyncIterator[Turns]:
    log = AtOnce()
    async with open_engine(data_dir, commit_log=lambda store, call_soon: log) as engine:
        await engine.create_topic("t", subscriptions=["s"])
        await quiet(engine)
        yield Turns(engine, log)


async def test_a_connection_alone_is_called_back_at_the_end_of_its_turn(data_dir: Path) -> None:
    async with opened(data_dir) as turns:
        for _ in range(ALONE):
            outcome = turns.take(1)
            assert not outcome.calls
            assert await outcome.wait() is None
        assert [turns.take(1).calls for _ in range(3)] == [[None]] * 3


async def test_a_connection_that_must_not_be_called_yet_is_called_back_soon(data_dir: Path) -> None:
    async with opened(data_dir) as turns:
        await turns.alone(1)
        outcome = turns.take(1, may_be_called=False)
        assert not outcome.calls
        for _ in range(PASSES):
            await trio.lowlevel.checkpoint()
        assert outcome.calls == [None]
        assert turns.take(1).calls == [None]


async def test_what_several_append_in_a_pass_is_one_commit(data_dir: Path) -> None:
    async with opened(data_dir) as turns:
        await turns.alone(1)
        outcomes = [turns.take(whose) for whose in (2, 1, 3)]
        assert not any(each.calls for each in outcomes)
        assert [await each.wait() for each in outcomes] == [None] * 3
        assert turns.log.commits == [3]


async def test_others_turns_end_it_until_there_were_none_for_a_while(data_dir: Path) -> None:
    async with opened(data_dir) as turns:
        await turns.alone(1)
        await turns.take(2).wait()
        for _ in range(ALONE):
            outcome = turns.take(1)
            assert not outcome.calls
            await outcome.wait()
        assert turns.take(1).calls == [None]


async def test_a_turn_without_appends_begins_no_commit(data_dir: Path) -> None:
    async with opened(data_dir) as turns:
        await turns.alone(1)
        turns.engine.turn_begins(1)
        turns.engine.turn_ends(may_be_called=True)
        assert not turns.log.commits


async def test_a_lone_connection_gets_its_deliveries_at_the_end_of_its_turn(data_dir: Path) -> None:
    """Those of what it published, and those for which it made room."""
    async with opened(data_dir) as turns:
        engine = turns.engine
        subscription = await engine.topic("t").subscribe("s")
        consumer, sink = attach(subscription, permits=ALONE + 2)
        assert isinstance(consumer, LogConsumer)
        await turns.alone(1)
        await quiet(engine)
        assert turns.take(1).calls == [None]
        assert len(sink.bodies) == ALONE + 1
        turns.take(1)
        turns.take(1)
        assert len(sink.bodies) == ALONE + 2
        await quiet(engine)
        engine.turn_begins(1)
        consumer.flow(1)
        assert len(sink.bodies) == ALONE + 2
        engine.turn_ends(may_be_called=True)
        assert len(sink.bodies) == ALONE + 3


async def test_of_many_subscriptions_some_are_served_at_the_end_of_a_turn(data_dir: Path) -> None:
    """So that it is never much longer than a turn; the others are, in the next pass."""
    async with opened(data_dir) as turns:
        topic = turns.engine.topic("t")
        at_once = TURN_END_ENTRIES_MAX // TURN_ENTRIES
        sinks = []
        for number in range(3 * at_once):
            subscription = await topic.subscribe(f"s{number}", durable=False)
            sinks.append(attach(subscription, unlimited=True)[1])
        await turns.alone(1)
        await quiet(turns.engine)
        before = sum(len(sink.bodies) for sink in sinks)
        assert turns.take(1).calls == [None]
        assert sum(len(sink.bodies) for sink in sinks) - before == at_once
        for _ in range(PASSES):
            await trio.lowlevel.checkpoint()
        assert sum(len(sink.bodies) for sink in sinks) - before == len(sinks)


async def test_a_lone_connection_learns_that_everything_is_done(data_dir: Path) -> None:
    async with opened(data_dir) as turns:
        engine = turns.engine
        for is_alone in (False, True):
            engine.turn_begins(1)
            assert engine.turn_ends(may_be_called=True) == is_alone
            if not is_alone:
                await turns.alone(1)
        assert ends(engine, append=True)
        engine.turn_begins(1)
        engine.append(engine.topic("t"), [make_entry(b"x")], Outcome(), 1)
        assert not engine.turn_ends(may_be_called=False)
        await quiet(engine)
        engine.turn_begins(2)
        assert not engine.turn_ends(may_be_called=True)


def ends(engine: Engine, *, append: bool = False) -> bool:
    """A turn of the one that is alone: what its end says."""
    engine.turn_begins(1)
    if append:
        engine.append(engine.topic("t"), [make_entry(b"x")], Outcome(), 1)
    return engine.turn_ends(may_be_called=True)


async def test_after_deliveries_to_another_connection_comes_a_pass_of_the_loop(
    data_dir: Path,
) -> None:
    """The other's connection may write them in a turn of its own, for which that is needed."""
    async with opened(data_dir) as turns:
        engine = turns.engine
        consumer, sink = attach(await engine.topic("t").subscribe("s"), permits=ALONE + 2)
        await turns.alone(1)
        assert not ends(engine, append=True)
        assert not ends(engine, append=True)
        assert len(sink.bodies) == ALONE + 2
        consumer.detach()
        await quiet(engine)
        assert [ends(engine, append=True) for _ in range(3)] == [False, True, True]


async def test_deliveries_made_between_two_turns_have_a_pass_as_well(data_dir: Path) -> None:
    async with opened(data_dir) as turns:
        engine = turns.engine
        other = await engine.create_topic("other", subscriptions=["s"])
        _, sink = attach(await other.subscribe("s"), unlimited=True)
        await turns.alone(1)
        assert [ends(engine, append=True) for _ in range(2)] == [False, True]
        engine.append(other, [make_entry(b"x")], Outcome(), 1)
        for _ in range(PASSES):
            await trio.lowlevel.checkpoint()
        assert len(sink.bodies) == 1
        assert [ends(engine) for _ in range(2)] == [False, True]
        engine.append(other, [make_entry(b"x")], Outcome(), 1)  # another's, who says no turn
        assert not ends(engine)


async def test_what_was_stored_for_another_has_a_pass_as_well(data_dir: Path) -> None:
    """Whoever is told of it may confirm it in a turn of its own."""
    async with opened(data_dir) as turns:
        engine = turns.engine
        other = await engine.create_topic("other", subscriptions=["s"])
        await turns.alone(1)
        assert [ends(engine, append=True) for _ in range(2)] == [False, True]
        engine.append(other, [make_entry(b"x")], Outcome(), 1)
        for _ in range(PASSES):
            await trio.lowlevel.checkpoint()
        assert [ends(engine) for _ in range(2)] == [False, True]
        engine.append(other, [make_entry(b"x")], Outcome(), 1)
        assert [ends(engine) for _ in range(2)] == [False, True], (
            "it must be stored at the end of that turn"
        )


async def test_others_have_come_when_several_have_had_turns(data_dir: Path) -> None:
    async with opened(data_dir) as turns:
        await turns.alone(1)
        turns.engine.others_came()
        assert [turns.engine.others_came() for _ in range(2)] == [False, False]
        for whose, came in ((1, False), (2, True), (2, False), (1, True), (1, False)):
            turns.take(whose)
            assert turns.engine.others_came() == came


async def test_what_is_not_done_at_the_end_of_a_turn_is_done_soon(data_dir: Path) -> None:
    async with opened(data_dir) as turns:
        engine = turns.engine
        subscription = await engine.topic("t").subscribe("s")
        consumer, sink = attach(subscription, permits=ALONE)
        assert isinstance(consumer, LogConsumer)
        await turns.alone(1)
        await turns.take(1).wait()
        await quiet(engine)
        engine.turn_begins(1)
        consumer.flow(1)
        engine.turn_ends(may_be_called=False)
        assert len(sink.bodies) == ALONE
        for _ in range(PASSES):
            await trio.lowlevel.checkpoint()
        assert len(sink.bodies) == ALONE + 1


async def test_a_log_that_may_be_trimmed_again_after_the_trimming_of_a_turn_is_trimmed_soon(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else need wake anybody for it."""
    async with opened(data_dir) as turns:
        engine = turns.engine
        topic = await engine.create_topic("memory", TopicSettings(durable=False))
        subscription = await topic.subscribe("s")
        await turns.alone(1)
        await quiet(engine)
        sweeps = 0

        def swept() -> None:
            nonlocal sweeps
            sweeps += 1
            if sweeps == 1:
                engine.cursor_changed(subscription, None)

        monkeypatch.setattr(topic.trimming, "sweep", swept)
        engine.turn_begins(1)
        engine.cursor_changed(subscription, None)
        engine.turn_ends(may_be_called=True)
        assert sweeps == 1
        for _ in range(PASSES):
            await trio.lowlevel.checkpoint()
        assert sweeps == 2


async def test_a_caller_outside_a_turn_is_called_back_later(data_dir: Path) -> None:
    async with opened(data_dir) as turns:
        await turns.alone(1)
        outcome = Outcome()
        turns.engine.append(turns.engine.topic("t"), [make_entry(b"x")], outcome, 1)
        assert not outcome.calls
        assert await outcome.wait() is None
