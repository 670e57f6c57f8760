"""What comes due next in a topic: asking shows all of it, and changes nothing."""

from pathlib import Path

import pytest
import trio
from tests.core.engine.subscriptions.test_delayed import (
    START_MS,
    Clock,
    publish,
    running,
    topic_with,
)

from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.errors import StoreFailed
from arneb_core.api.topics.settings import DelayedSettings, TrackerKind
from arneb_core.engine.catalog import delayed_indexes
from arneb_core.testing.engine_kit import attach, quiet


@pytest.mark.parametrize("kind", TrackerKind)
@pytest.mark.parametrize("durable", [True, False])
async def test_looking_at_what_comes_due_next_changes_nothing(
    data_dir: Path, kind: TrackerKind, durable: bool
) -> None:
    clock = Clock()
    delays = DelayedSettings(kind, tick_ms=1, seal_entries=8, segment_entries=3, buckets_max=3)
    times = [1000 + 37 * number % 400 for number in range(60)]

    def positions() -> list[tuple[int, Position]]:
        return sorted((START_MS + at, position_at(1, index)) for index, at in enumerate(times))

    async with running(data_dir, clock, delays) as engine:
        (held,) = await topic_with(engine, "s", durable=durable)
        topic = engine.topic("t")
        assert await topic.soonest(10, clock()) == []
        for start in range(0, 60, 6):
            await publish(engine, times[start : start + 6])
        await quiet(engine)
        for limit in (0, 1, 7, 59, 60, 100):
            with trio.fail_after(5):
                assert await topic.soonest(limit, clock()) == positions()[:limit]
        behind = [each for each in positions() if each[0] > START_MS + 1200]
        assert await topic.soonest(5, START_MS + 1200) == behind[:5]
        # What comes now and is due before all that was looked at is held back as ever.
        times.append(10)
        await publish(engine, [10])
        _, sink = attach(held, permits=100, by_time=True)
        await quiet(engine)
        assert sink.bodies == []
        assert await topic.soonest(2, clock()) == positions()[:2]
        await clock.reach(20, engine)
        assert len(sink.bodies) == 1
    if durable:
        async with running(data_dir, clock, delays) as engine:
            assert await engine.topic("t").soonest(100, clock()) == positions()[1:]


async def test_what_comes_due_is_unknown_while_the_disk_fails(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    async with running(data_dir, clock) as engine:
        await topic_with(engine, "s")
        for start in range(0, 60, 6):
            await publish(engine, [1000 + n for n in range(start, start + 6)])
        await quiet(engine)

    def fails(value: bytes) -> bytes:
        raise StoreFailed("as told")

    async with running(data_dir, clock) as engine:
        with monkeypatch.context() as broken:
            broken.setattr(delayed_indexes, "unpack_segment", fails)
            with pytest.raises(StoreFailed):
                await engine.topic("t").soonest(100, clock())
        assert len(await engine.topic("t").soonest(100, clock())) == 60
