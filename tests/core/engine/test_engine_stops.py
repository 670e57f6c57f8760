"""What a stop writes: what the disk lacks, and nothing else."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from arneb_core.api.entries.position import Position
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.environment import Store
from arneb_core.testing.engine_kit import Outcome, attach, publish, quiet
from arneb_core.testing.faults import FaultyStore

IDLE = 500
"""Cursors of which a commit takes 128."""


async def redelivered(engine: Engine, name: str) -> Sequence[Position]:
    """What of the topic is called redelivered to somebody who comes now."""
    consumer, sink = attach(engine.topic(name).subscriptions["s"], unlimited=True)
    await quiet(engine)
    consumer.detach()
    return sorted(sink.redelivered)


async def make(engine: Engine, name: str) -> None:
    topic = await engine.create_topic(name, subscriptions=["s"])
    assert topic.subscriptions["s"].durable


@pytest.mark.parametrize("after_a_crash", [False, True])
async def test_a_stop_writes_nothing_about_unused_queues(
    tmp_path: Path, after_a_crash: bool
) -> None:
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    async with open_engine(live) as engine:
        for number in range(IDLE):
            await make(engine, f"idle-{number}")
        shutil.copytree(live, crashed)
    with Store.open(crashed if after_a_crash else live) as store:
        counting = FaultyStore(store)
        async with open_engine(live, store=store, committing=counting) as engine:
            assert len(engine.topics) == IDLE
            await quiet(engine)
            before = counting.commits_total
        assert counting.commits_total - before <= 2


async def test_a_stop_writes_what_was_delivered_and_the_next_one_keeps_it(tmp_path: Path) -> None:
    async with open_engine(tmp_path) as engine:
        await make(engine, "t")
        first = await publish(engine, "t", [b"0", b"1", b"2"])
        consumer, sink = attach(engine.topic("t").subscriptions["s"], permits=2)
        await quiet(engine)
        assert sink.positions == [first, first + 1]
        consumer.acknowledge([first])
        await quiet(engine)
    for _ in range(2):  # nothing happens in between, and nothing is forgotten
        async with open_engine(tmp_path):
            pass
    async with open_engine(tmp_path) as engine:
        assert await redelivered(engine, "t") == [first + 1]


async def test_what_is_suspect_after_a_crash_stays_so_after_a_stop(tmp_path: Path) -> None:
    """Nobody has had it as far as the disk knows, and nobody can know."""
    live, crashed = tmp_path / "live", tmp_path / "crashed"
    async with open_engine(live) as engine:
        await make(engine, "t")
        first = await publish(engine, "t", [b"0", b"1"])
        shutil.copytree(live, crashed)
    async with open_engine(crashed):
        pass
    async with open_engine(crashed) as engine:
        assert await redelivered(engine, "t") == [first, first + 1]


async def test_a_cursor_of_which_a_commit_failed_is_written_at_the_stop(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        faulty = FaultyStore(store)
        async with open_engine(tmp_path, store=store, committing=faulty) as engine:
            await make(engine, "t")
            first = await publish(engine, "t", [b"0", b"1"])
            consumer, _ = attach(engine.topic("t").subscriptions["s"], permits=1)
            await quiet(engine)
            faulty.fail_next()
            outcome = Outcome()
            consumer.acknowledge([first], outcome)
            assert await outcome.wait() is not None
    async with open_engine(tmp_path) as engine:
        assert engine.topic("t").subscriptions["s"].ready_messages == 1
