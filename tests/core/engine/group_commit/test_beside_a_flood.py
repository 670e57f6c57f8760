"""A small publisher beside one that sends all it can: it waits for one write, not for the other."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import sleep
from typing import Any, cast
from unittest.mock import patch

import pytest
import trio

from arneb_core.api.core import CountedRun, Unit
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.topics.topic import Topic
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.group_commit import overtaking
from arneb_core.engine.group_commit.overtaking import LITTLE_BYTES_MAX
from arneb_core.engine.scheduling.steps import TURN_END_OTHERS_MAX
from arneb_core.store.commit.commit_log import SMALL_BYTES_MAX
from arneb_core.store.commit.commits import Commits
from arneb_core.store.commit.inline_commits import SMALL_COMMITS_MIN
from arneb_core.store.commit.transaction import Transaction
from arneb_core.store.format.changes import Changes
from arneb_core.testing.engine_kit import Outcome, attach, make_entry, publish, quiet

LARGE = [make_entry(bytes(1000))] * 600
WITHIN_S = 10.0


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is."""
    monkeypatch.setattr(overtaking, "REST_FACTOR", 0)


class Held:
    """A transaction of LMDB that goes on when the test says so."""

    def __init__(self) -> None:
        self.is_in = Event()
        self.go_on = Event()

    async def entered(self) -> None:
        assert await trio.to_thread.run_sync(self.is_in.wait, WITHIN_S)


@contextmanager
def held() -> Iterator[Held]:
    """Hold every commit of LMDB that has many entries."""
    state, apply = Held(), Transaction.apply

    def applied(within: Transaction, changes: Any, encoded: Any) -> None:
        apply(within, changes, encoded)
        if sum(len(entries) for _, _, entries in changes.blocks) >= len(LARGE):
            state.is_in.set()
            assert state.go_on.wait(WITHIN_S)

    with patch.object(Transaction, "apply", applied):
        try:
            yield state
        finally:
            state.go_on.set()


class Run(Outcome):
    """What becomes of a run."""

    first = Position(0)

    def __call__(self, error: Exception | None, *first: object) -> None:
        super().__call__(error)
        (self.first,) = cast(tuple[Position], first)

    @property
    def is_answered(self) -> bool:
        return bool(self.calls)


def append(engine: Engine, name: str, entries: list[bytes]) -> Run:
    """Have one committed."""
    run = Run()
    engine.append(engine.topic(name), entries, run)
    return run


async def steps() -> None:
    """Let all that can be done be done, while a commit is held."""
    for _ in range(20):
        await trio.lowlevel.checkpoint()


async def stored(run: Run) -> None:
    """Wait for it, but not for a commit that is held."""
    for _ in range(1000):
        if run.is_answered:
            assert run.calls == [None]
            return
        await trio.to_thread.run_sync(sleep, 0.001)
    raise AssertionError("it waits for the commit that is held")


async def begin(engine: Engine, *names: str) -> None:
    for name in names:
        await engine.create_topic(name)
        await publish(engine, name, [b"first"])
    await quiet(engine)


async def test_a_small_run_is_stored_and_delivered_while_a_large_commit_is_made(
    data_dir: Path,
) -> None:
    async with open_engine(data_dir) as engine:
        await begin(engine, "flood", "small")
        subscription = await engine.topic("small").subscribe("s", initial=InitialPosition.EARLIEST)
        _, sink = attach(subscription, permits=100)
        await quiet(engine)
        with held() as commit:
            flood = append(engine, "flood", LARGE)
            await commit.entered()
            more = append(engine, "flood", LARGE)  # waits, and is overtaken
            for number in range(3):
                small = append(engine, "small", [make_entry(b"%d" % number)])
                await stored(small)
            await steps()
            assert sink.bodies == [b"first", b"0", b"1", b"2"]
            assert not (flood.is_answered or more.is_answered)
            own = append(engine, "flood", [make_entry(b"behind")])
            await steps()
            assert not own.is_answered, "a run overtook its own topic"
        await quiet(engine)
        assert sink.bodies == [b"first", b"0", b"1", b"2"]
        assert flood.first < more.first < own.first
    async with open_engine(data_dir) as engine:
        assert engine.topic("small").statistics().entries == 4
        assert engine.topic("flood").statistics().entries == 2 + 2 * len(LARGE)


@contextmanager
def turn(engine: Engine, whose: int, *, may_be_called: bool = True) -> Iterator[None]:
    """A turn of one connection; its end is the end of the block."""
    engine.turn_begins(whose)
    yield
    engine.turn_ends(may_be_called=may_be_called)


async def test_a_small_run_is_stored_and_delivered_in_the_turn_that_brings_it(
    data_dir: Path,
) -> None:
    """No pass of the loop is waited for, in which the other may have a long turn."""
    async with open_engine(data_dir) as engine:
        await begin(engine, "flood", "small", "third")
        subscription = await engine.topic("small").subscribe("s", initial=InitialPosition.LATEST)
        _, sink = attach(subscription, permits=100)
        await quiet(engine)
        with held() as commit:
            with turn(engine, 1):
                flood = append(engine, "flood", LARGE)
            await commit.entered()
            with turn(engine, 1):
                more = append(engine, "flood", LARGE)
            with turn(engine, 2):
                small = append(engine, "small", [make_entry(b"x")])
                assert not small.is_answered, "told before the end of its turn"
            assert small.calls == [None]
            assert sink.bodies == [b"x"]
            with turn(engine, 2, may_be_called=False):
                second = append(engine, "small", [make_entry(b"y")])
            assert not second.is_answered
            await stored(second)
            with turn(engine, 3):  # many may send so much: what they do in a pass goes together
                third = append(engine, "third", [make_entry(bytes(LITTLE_BYTES_MAX))])
            assert not third.is_answered
            await stored(third)
            assert not (flood.is_answered or more.is_answered)
        await quiet(engine)
        assert sink.bodies == [b"x", b"y"]


@pytest.mark.parametrize("are_few", [True, False])
async def test_other_ready_clients_have_their_deliveries_first(
    data_dir: Path, are_few: bool
) -> None:
    """If they are many, that is a step of the pump, and not the end of a small turn."""
    async with open_engine(data_dir) as engine:
        await begin(engine, "flood", "small", "other")
        subscription = await engine.topic("small").subscribe("s", initial=InitialPosition.LATEST)
        _, sink = attach(subscription, permits=100)
        names = [f"s{number}" for number in range(TURN_END_OTHERS_MAX + (not are_few))]
        others = [await engine.topic("other").subscribe(name) for name in names]
        for other in others:
            attach(other, permits=100)
        await quiet(engine)
        with held() as commit:
            append(engine, "flood", LARGE)
            await commit.entered()
            await steps()
            with turn(engine, 2):
                small = append(engine, "small", [make_entry(b"x")])
                for other in others:
                    engine.has_work(other)
            assert small.calls == [None]
            assert sink.bodies == ([b"x"] if are_few else [])
            await steps()
            assert sink.bodies == [b"x"]
        await quiet(engine)


async def test_between_two_large_commits_what_is_little_is_stored_by_itself(
    data_dir: Path,
) -> None:
    """The next large one does not wait for two flushes for it; but what is more goes with that,
    and without large ones all goes the way that it went."""
    async with open_engine(data_dir) as engine:
        await begin(engine, "flood", "small")
        append(engine, "flood", LARGE)
        await quiet(engine)
        with turn(engine, 2):
            little = append(engine, "small", [make_entry(b"x")])
        assert little.calls == [None]
        with turn(engine, 2):
            rest = append(engine, "small", [make_entry(bytes(LITTLE_BYTES_MAX))])
        assert not rest.is_answered
        await quiet(engine)  # with a small commit
        with turn(engine, 2):
            alone = append(engine, "small", [make_entry(b"x")])
        assert not alone.is_answered
        await quiet(engine)
        assert little.first < rest.first < alone.first


async def test_what_comes_with_a_large_run_does_not_wait_for_it(data_dir: Path) -> None:
    """Both are there when the commit begins."""
    async with open_engine(data_dir) as engine:
        await begin(engine, "flood", "small")
        with held() as commit:
            flood = append(engine, "flood", LARGE)
            small = append(engine, "small", [make_entry(b"x")])
            await stored(small)
            await commit.entered()
            assert not flood.is_answered
        await quiet(engine)


async def test_entries_with_rows_of_a_frontend_overtake_and_are_there_after_a_crash(
    data_dir: Path, tmp_path: Path
) -> None:
    """As a transaction of Pulsar's is, and the next that has the same row."""
    async with open_engine(data_dir) as engine:
        await begin(engine, "flood", "a", "b")
        with held() as commit:
            flood = append(engine, "flood", LARGE)
            await commit.entered()
            for value in (b"1", b"2"):
                entry = make_entry(value)
                runs = [CountedRun(engine.topic(name), [entry], 1, len(entry)) for name in "ab"]
                run = Run()
                unit = Unit(runs=runs, metadata=[("row", value)])
                engine.commit(unit, lambda error, run=run: run(error, Position(0)))
                await stored(run)
            assert not flood.is_answered
            assert engine.metadata("row") == {"row": b"2"}
            shutil.copytree(data_dir, tmp_path / "killed")
        await quiet(engine)
    for position in (tmp_path / "killed", data_dir):
        async with open_engine(position) as engine:
            assert engine.metadata("row") == {"row": b"2"}
            assert [engine.topic(name).messages for name in "ab"] == [3, 3]


async def test_a_unit_with_more_is_not_overtaken_and_overtakes_nobody(data_dir: Path) -> None:
    async with open_engine(data_dir) as engine:
        await begin(engine, "flood", "small", "other")
        subscription = await engine.topic("other").subscribe("s", initial=InitialPosition.EARLIEST)
        consumer, sink = attach(subscription, unlimited=True)
        await quiet(engine)
        with held() as commit:
            append(engine, "flood", LARGE)
            await commit.entered()
            unit = Outcome()
            appends: list[tuple[Topic, list[bytes]]] = [(engine.topic("other"), [make_entry(b"x")])]
            acks = [(consumer, sink.positions)]
            engine.commit(Unit(appends, acks=acks, metadata=[("row", b"value")]), unit)
            behind = append(engine, "small", [make_entry(b"x")])
            await steps()
            assert not (unit.calls or behind.is_answered)
        await quiet(engine)
        assert unit.calls == behind.calls == [None]


async def test_after_a_slow_write_small_runs_go_with_the_others_for_a_while(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that stalls holds the loop up for one write in so many."""
    monkeypatch.setattr(overtaking, "REST_FACTOR", 1 << 40)
    async with open_engine(data_dir) as engine:
        await begin(engine, "flood", "small")
        with held() as commit:
            append(engine, "flood", LARGE)
            await commit.entered()
            await stored(append(engine, "small", [make_entry(b"x")]))
            second = append(engine, "small", [make_entry(b"x")])
            await steps()
            assert not second.is_answered
        await quiet(engine)
        assert second.is_answered


async def test_alone_a_small_run_takes_the_way_that_it_took(data_dir: Path) -> None:
    """Only what is large is overtaken: a commit of small runs holds all of them."""
    async with open_engine(data_dir) as engine:
        await begin(engine, "a", "b")
        before = engine.statistics().commits_total
        outcomes = [append(engine, name, [make_entry(b"x")]) for name in ("a", "b", "a", "b")]
        assert engine._committer.waiting_bytes < SMALL_BYTES_MAX
        await quiet(engine)
        assert all(each.is_answered for each in outcomes)
        assert engine.statistics().commits_total == before + 1


async def test_a_takeover_of_the_journal_takes_no_small_run_along(data_dir: Path) -> None:
    """Nobody waits for a takeover, which is two flushes; who has one message to store would."""
    async with open_engine(data_dir) as engine:
        await begin(engine, "small")
        for _ in range(SMALL_COMMITS_MIN + 2):
            await publish(engine, "small", [b"before"])
        committer, taken = engine._committer, []
        assert committer.needs_takeover, "the journal has something to be taken over"
        commit = Commits._commit

        def counted(within: Commits, env: Any, changes: Changes, *held: Any, **kw: Any) -> Any:
            taken.append(len(changes.blocks))
            return commit(within, env, changes, *held, **kw)

        with patch.object(Commits, "_commit", counted):
            committer.take_over()
            run = append(engine, "small", [make_entry(b"beside it")])
            await stored(run)
            await quiet(engine)
        assert taken and not any(taken)
