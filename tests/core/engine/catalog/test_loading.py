"""Loading: a start reads in threads, and makes topics and subscriptions piece by piece."""

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.api.topics.settings import DelayedSettings, TrackerKind
from arneb_core.engine.catalog import catalog
from arneb_core.engine.engine import open_engine
from arneb_core.engine.subscriptions.subscription import LogSubscription
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.records import (
    CursorRecord,
    SubscriptionRecord,
    TopicRecord,
    pack_number,
)
from arneb_core.store.format.schema import (
    META_NEXT_TOPIC_ID,
    PLACE_SUFFIX,
    SubscriptionId,
    Table,
    TopicId,
    cursor_prefix,
    subscription_key,
    topic_key,
    topic_prefix,
)
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.testing.engine_kit import append, quiet

TOPICS = 700
READING = ("get", "scan", "keys", "iter_blocks", "read_blocks", "read_positions", "last_position")
"""What a snapshot is asked for."""


class Turns(trio.abc.Instrument):
    """Counts what is done in each turn of a task."""

    def __init__(self) -> None:
        self.made: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.turns = 0

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.most |= self.made
        self.turns += bool(self.made)
        self.made.clear()


def counted(monkeypatch: pytest.MonkeyPatch, kind: type, turns: Turns) -> None:
    """Have ``turns`` count what is made of ``kind``."""
    make: Callable[..., None] = kind.__init__  # type: ignore[misc]

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        turns.made["made"] += 1
        make(self, *args, **kwargs)

    monkeypatch.setattr(kind, "__init__", made)


def noted(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, threads: set[str]) -> None:
    """Have ``threads`` tell which threads called a function."""
    original: Callable[..., Any] = getattr(kind, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        threads.add(threading.current_thread().name)
        return original(*args, **kwargs)

    monkeypatch.setattr(kind, name, called)


async def test_thousands_of_topics_are_made_piece_by_piece(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(data_dir) as store:
        changes = Changes()
        changes.puts.append((Table.META, META_NEXT_TOPIC_ID, pack_number(TOPICS + 1)))
        for number in range(1, TOPICS + 1):
            topic_id, name = TopicId(number), f"topic {number}"
            changes.puts += [
                (Table.CATALOG, topic_key(name), TopicRecord(topic_id).pack()),
                (
                    Table.CATALOG,
                    subscription_key(topic_id, "s"),
                    SubscriptionRecord(SubscriptionId(1)).pack(),
                ),
                (
                    Table.CURSORS,
                    cursor_prefix(topic_id, SubscriptionId(1)) + PLACE_SUFFIX,
                    CursorRecord(BEFORE_ALL, Position(BEFORE_ALL + 1)).pack(),
                ),
            ]
        store.commit(changes)
    turns = Turns()
    for kind in (LogTopic, LogSubscription):
        counted(monkeypatch, kind, turns)
    trio.lowlevel.add_instrument(turns)
    async with open_engine(data_dir) as engine:
        assert len(engine.topics) == TOPICS
        assert turns.most["made"] <= catalog.LOADED_MAX
        assert turns.turns >= 2 * TOPICS // catalog.LOADED_MAX
    trio.lowlevel.remove_instrument(turns)


@pytest.mark.parametrize("kind", TrackerKind)
async def test_the_loop_reads_nothing_while_an_engine_opens(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, kind: TrackerKind
) -> None:
    """Not even when a delayed index has to be rebuilt, in several steps."""
    delays = DelayedSettings(tracker=kind, seal_entries=10)
    async with open_engine(data_dir, now_ms=lambda: 1_000, delays=delays) as engine:
        topic = await engine.create_topic("t")
        await topic.subscribe("s")
        engine.expect_delays(topic)
        for start in range(0, 50, 5):
            times = range(9_000 + start, 9_005 + start)
            entries = [EntryHeader(Origin.PULSAR, 1, deliver_at_ms=at).pack() for at in times]
            await append(engine, "t", entries)
        await quiet(engine)
    if kind is TrackerKind.BUCKET:
        with Store.open(data_dir) as store:
            store.commit(Changes(prefixes=[(Table.DELAYED, topic_prefix(TopicId(1)))]))
    threads: set[str] = set()
    for name in READING:
        noted(monkeypatch, Snapshot, name, threads)
    async with open_engine(data_dir, now_ms=lambda: 1_000, delays=delays) as engine:
        loop = threading.current_thread().name
        assert threads
        assert loop not in threads
        monkeypatch.undo()
        found = engine.topic("t").delayed
        assert found is not None
        assert len(found.tracker.members) == 50
