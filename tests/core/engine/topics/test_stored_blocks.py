"""Blocks as they are stored, handed to readers who have no store."""

from collections import Counter
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from arneb_core.api.core import Unit
from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.topics.settings import TopicSettings
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.engine.topics import stored_reading
from arneb_core.engine.topics.stored_reading import StoredReading
from arneb_core.store.environment import Store
from arneb_core.store.format.block import BLOCK_BYTES_MAX, BLOCK_FORMAT, decode_block
from arneb_core.store.format.bodies import SHARED_BYTES_MIN
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import Table, TopicId, entry_key
from arneb_core.store.reading.exported_blocks import ExportedBlocks
from arneb_core.store.reading.extents import Extent
from arneb_core.testing.engine_kit import append, body_of, make_entry, publish


async def stored(engine: Engine, first: Position, last: Position, size: int) -> ExportedBlocks:
    return await StoredReading(engine.reader).blocks(engine.topic("t").id, first, last, size)


async def handed_out(
    engine: Engine, first: Position, last: Position, size: int
) -> dict[int, bytes]:
    """Bodies by position, as a reader would put them together."""
    found: dict[int, bytes] = {}
    position = first
    while position <= last:
        got = await stored(engine, position, last, size)
        assert got.next > position, "reading must make progress"
        behind = position - 1
        for end, value in got.blocks:
            at, entries = decode_block(value)
            assert value[0] == BLOCK_FORMAT, "a block that is handed out must contain its bodies"
            assert at + len(entries) - 1 == end > behind
            behind = end
            found.update(zip(range(at, end + 1), map(body_of, entries), strict=True))
        position = got.next
    return {at: body for at, body in found.items() if first <= at <= last}


@given(
    runs=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    size=st.sampled_from([1, 300, 1 << 20]),
    cut=st.tuples(st.integers(0, 100), st.integers(0, 100)),
)
@settings(max_examples=15)
def test_every_entry_is_handed_out_once_and_whole_whatever_the_bound(
    tmp_path_factory: pytest.TempPathFactory, runs: list[int], size: int, cut: tuple[int, int]
) -> None:
    async def play() -> None:
        async with open_engine(tmp_path_factory.mktemp("blocks")) as engine:
            topic = await engine.create_topic("t", TopicSettings(retention_ms=-1))
            expected: dict[int, bytes] = {}
            for number, count in enumerate(runs):
                written = [b"%d-%d" % (number, each) for each in range(count)]
                at = await publish(engine, "t", written)
                expected.update(zip(range(at, at + count), written, strict=True))
                if number % 2:
                    await topic.roll()
            positions = sorted(expected)
            low, high = sorted(positions[each % len(positions)] for each in cut)
            found = await handed_out(engine, Position(low), Position(high), size)
            assert found == {at: body for at, body in expected.items() if low <= at <= high}

    trio.run(play)


async def test_what_topics_share_is_handed_out_with_its_bodies_within_bounds(
    tmp_path: Path,
) -> None:
    large = [make_entry(bytes([n]) * SHARED_BYTES_MIN * 20) for n in range(16)]
    async with open_engine(tmp_path) as engine:
        t, u = await engine.create_topic("t"), await engine.create_topic("u")
        await engine.committed(Unit([(t, large), (u, large)]))
        found = await handed_out(engine, position_at(1, 0), position_at(1, 15), 1)
        assert list(found.values()) == list(map(body_of, large))
        found = await handed_out(engine, position_at(1, 7), position_at(1, 9), 1 << 30)
        assert list(found.values()) == list(map(body_of, large[7:10]))
        got = await stored(engine, position_at(1, 0), position_at(1, 15), 1)
        assert len(got.blocks) == 1
        assert len(got.blocks[0][1]) < 2 * BLOCK_BYTES_MAX


async def test_a_damaged_block_is_handed_out_as_it_is_and_those_around_it_too(
    tmp_path: Path,
) -> None:
    async with open_engine(tmp_path) as engine:
        await engine.create_topic("t")
        for body in (b"1", b"2", b"3"):
            await append(engine, "t", [make_entry(body * 200)])
        topic_id = engine.topic("t").id
    key = entry_key(TopicId(topic_id), position_at(1, 1))
    with Store.open(tmp_path) as store:
        with store.snapshot() as snapshot:
            value = snapshot.get(Table.ENTRIES, key)
        assert value is not None
        damaged = value[:-1] + b"?"
        store.commit(Changes(puts=[(Table.ENTRIES, key, damaged)]))
    async with open_engine(tmp_path) as engine:
        got = await stored(engine, position_at(1, 0), position_at(1, 2), 1 << 20)
        assert [position for position, _ in got.blocks] == [position_at(1, n) for n in range(3)]
        assert got.blocks[1][1] == damaged
        assert got.next == position_at(1, 3)


class Passes(trio.abc.Instrument):
    """Counts the passes of the loop."""

    def __init__(self) -> None:
        self.count = 0

    def before_io_wait(self, timeout: float) -> None:
        self.count += 1


async def test_open_ledgers_are_counted_few_in_a_turn(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_reading, "COUNTED_PER_TURN", 2)
    names = [f"t{number}" for number in range(5)]
    counted_in: list[int] = []
    count = StoredReading._counted

    def noted(reading: StoredReading, extent: Extent) -> Extent:
        counted_in.append(passes.count)
        return count(reading, extent)

    monkeypatch.setattr(StoredReading, "_counted", noted)
    async with open_engine(data_dir) as engine:
        topics = {name: await engine.create_topic(name) for name in names}
        for name in names:
            await publish(engine, name, [b"x"])
        trio.lowlevel.add_instrument(passes := Passes())
        found = await StoredReading(engine.reader, topics).extents(names)
        trio.lowlevel.remove_instrument(passes)
    assert [each.topic for each in found] == names
    assert sorted(Counter(counted_in).values()) == [1, 2, 2]
