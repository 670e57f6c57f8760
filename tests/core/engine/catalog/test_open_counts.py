"""Counting open ledgers in advance saves counting them at the start, and changes nothing else."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.engine.catalog import open_counts
from arneb_core.engine.catalog.open_counts import OpenCounts, always
from arneb_core.engine.catalog.recovery import Stored, recover
from arneb_core.engine.engine import open_engine
from arneb_core.log import planning
from arneb_core.store.environment import Store
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.testing.engine_kit import append, make_entry


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many blocks were read, by one reading after the other."""
    counted: list[int] = []
    iter_blocks = Snapshot.iter_blocks

    def counting(self: Snapshot, *arguments: Any) -> Iterator[Any]:
        for found in iter_blocks(self, *arguments):
            counted[-1] += 1
            yield found

    monkeypatch.setattr(Snapshot, "iter_blocks", counting)
    return counted


def recovered(path: Path, counts: OpenCounts) -> Stored:
    with Store.open(path) as store, store.snapshot() as snapshot:
        return recover(snapshot, counts)


def shown(stored: Stored) -> list[object]:
    return [(each.name, each.id, each.stamped_ms, list(each.ledgers)) for each in stored.topics]


def count(path: Path, counts: OpenCounts) -> None:
    with Store.open(path) as store, store.snapshot() as snapshot:
        counts.count_all(snapshot, always)


async def add(path: Path, topic: str, batches: Sequence[int]) -> None:
    """Entries of so many messages each, one a commit."""
    async with open_engine(path) as engine:
        if topic not in engine.catalog.topics:
            await (await engine.create_topic(topic)).subscribe("s")
        for messages in batches:
            await append(engine, topic, [make_entry(b"x" * messages, messages)])


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.integers(1, 5), max_size=6), st.booleans()),
    max_size=8,
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_it_changes_nothing_that_is_recovered(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, list[int], bool]]
) -> None:
    path, counts = tmp_path_factory.mktemp("data"), OpenCounts()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "LEDGER_ENTRIES_MAX", 5)
        for topic, batches, is_counted in steps:
            trio.run(add, path, topic, batches)
            if is_counted:
                count(path, counts)
    assert shown(recovered(path, counts)) == shown(recovered(path, OpenCounts()))


async def test_only_what_came_since_is_read(data_dir: Path, read: list[int]) -> None:
    counts = OpenCounts()
    await add(data_dir, "a", [1] * 20)
    read.append(0)
    count(data_dir, counts)
    read.append(0)
    count(data_dir, counts)
    read.append(0)
    await add(data_dir, "a", [1] * 3)
    read.append(0)
    recovered(data_dir, counts)
    whole, again, _, since = read
    assert again == 0
    assert 0 < since <= 3 < whole


async def test_a_cancelled_count_ends_soon_and_leaves_its_results(
    data_dir: Path, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_counts, "ASKED_BLOCKS", 2)
    counts, asked = OpenCounts(), []

    def wanted() -> bool:
        asked.append(True)
        return len(asked) < 2

    await add(data_dir, "a", [1] * 20)
    read.append(0)
    count(data_dir, OpenCounts())
    read.append(0)
    with Store.open(data_dir) as store, store.snapshot() as snapshot:
        counts.count_all(snapshot, wanted)
    read.append(0)
    recovered(data_dir, counts)
    whole, first, rest = read
    assert (first, rest) == (2, whole - 2)


async def test_what_is_closed_or_deleted_is_forgotten(data_dir: Path) -> None:
    counts = OpenCounts()
    for topic in "ab":
        await add(data_dir, topic, [1, 1])
    count(data_dir, counts)
    assert len(counts._counted) == 2
    async with open_engine(data_dir) as engine:
        await engine.delete_topic("a")
    count(data_dir, counts)
    assert len(counts._counted) == 1
