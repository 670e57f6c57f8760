"""Due by time: what many ticks want is collected over turns, read in log order, and each goes out
in its tick's turn, whatever was acknowledged, came back or was cut off meanwhile."""

from pathlib import Path

import pytest
from tests.core.engine.subscriptions.test_delayed import (
    START_MS,
    Clock,
    publish,
    running,
    topic_with,
)

from arneb_core.api.entries.position import entry_of
from arneb_core.api.topics.settings import DelayedSettings
from arneb_core.engine.engine import Engine
from arneb_core.engine.threads.reader import Reader
from arneb_core.subscription.entries import delayed_entries
from arneb_core.testing.engine_kit import RecordingSink, attach, quiet

TIMES = [1_000 + 37 * number % 400 for number in range(120)]
DELAYS = DelayedSettings(tick_ms=10, seal_entries=16, segment_entries=4, buckets_max=3)


def tick_of(number: int) -> int:
    return (START_MS + TIMES[number]) // 10


def numbers(sink: RecordingSink) -> list[int]:
    return [entry_of(position) for position in sink.positions]


def check(found: list[int], expected: list[int]) -> None:
    """Those, a sooner tick before a later one."""
    ticks = list(map(tick_of, found))
    assert ticks == sorted(ticks)
    assert ticks == sorted(map(tick_of, expected))
    assert len(set(found)) == len(found)


async def all_published(engine: Engine) -> None:
    for start in range(0, len(TIMES), 12):
        await publish(engine, TIMES[start : start + 12])
        await quiet(engine)


@pytest.mark.parametrize("release", [1, 7, 32, 500])
@pytest.mark.parametrize("collect", [1, 8, 40, 1_000])
async def test_ticks_go_out_in_their_order_however_they_are_collected(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, release: int, collect: int
) -> None:
    monkeypatch.setattr(delayed_entries, "RELEASE_MAX", release)
    monkeypatch.setattr(delayed_entries, "COLLECT_MAX", collect)
    clock = Clock()
    async with running(data_dir, clock, DELAYS) as engine:
        (held,) = await topic_with(engine, "s")
        await all_published(engine)
    async with running(data_dir, clock, DELAYS) as engine:  # so that nothing is in memory
        held = engine.topic("t").subscriptions["s"]
        await clock.reach(2_000, engine)
        _, sink = attach(held, permits=200, by_time=True)
        await quiet(engine)
        check(numbers(sink), list(range(120)))


async def test_what_many_ticks_want_is_read_once_for_all_that_is_collected(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: with eight keys a turn, all 120 are read by one look at the log."""
    asked: list[int] = []
    read_positions = Reader.read_positions

    def counted(self: Reader, topic_id, positions, bytes_max, then) -> None:  # type: ignore[no-untyped-def]
        asked.append(len(positions))
        read_positions(self, topic_id, positions, bytes_max, then)

    monkeypatch.setattr(Reader, "read_positions", counted)
    monkeypatch.setattr(delayed_entries, "RELEASE_MAX", 8)
    clock = Clock()
    async with running(data_dir, clock, DELAYS) as engine:
        await topic_with(engine, "s")
        await all_published(engine)
    async with running(data_dir, clock, DELAYS) as engine:
        await clock.reach(2_000, engine)
        _, sink = attach(engine.topic("t").subscriptions["s"], permits=200, by_time=True)
        await quiet(engine)
        check(numbers(sink), list(range(120)))
    assert asked == [120]


async def test_what_was_collected_and_not_handed_out_comes_after_a_restart_in_its_turn(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delayed_entries, "RELEASE_MAX", 8)
    clock = Clock()
    async with running(data_dir, clock, DELAYS) as engine:
        (held,) = await topic_with(engine, "s")
        await all_published(engine)
        await clock.reach(2_000, engine)
        consumer, sink = attach(held, permits=50, by_time=True)
        await quiet(engine)
        first = numbers(sink)
        check(first, sorted(range(120), key=tick_of)[:50])
        consumer.acknowledge(sink.positions[:20])
        await quiet(engine)
    async with running(data_dir, clock, DELAYS) as engine:
        held = engine.topic("t").subscriptions["s"]
        _, sink = attach(held, permits=200, by_time=True)
        await quiet(engine)
        check(numbers(sink), [each for each in range(120) if each not in first[:20]])
