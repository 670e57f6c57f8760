"""Alarms: they depend on levels and watermarks, and on nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from arneb.monitoring.alarms import Alarms
from arneb.settings.table import ConfigInvalid
from arneb.settings.watermarks import Levels, Watermarks, memory_available_bytes, read_levels
from arneb_core.api.process.resource_alarms import NOTHING_SHORT, Resource, Short

AVAILABLE = 1000


def alarms_of(watermarks: Watermarks, read: Callable[[Path], Levels]) -> Alarms:
    return Alarms(watermarks, Path(), available=lambda: AVAILABLE, read=read)


def run(function: Callable[[], object]) -> None:
    async def main() -> None:
        await function()  # type: ignore[misc]

    trio.run(main)


@given(
    st.floats(0, 1),
    st.none() | st.integers(0, 2 * AVAILABLE),
    st.integers(0, AVAILABLE),
    st.lists(st.builds(Levels, st.integers(0, 2 * AVAILABLE), st.integers(0, 2 * AVAILABLE))),
)
def test_a_resource_beyond_its_watermark_is_short(
    part: float, bytes_max: int | None, free_min: int, levels: list[Levels]
) -> None:
    marks = Watermarks(
        memory_high_watermark=part,
        memory_high_watermark_bytes=-1 if bytes_max is None else bytes_max,
        disk_free_min_bytes=free_min,
    )
    alarms = alarms_of(marks, lambda _: levels[0])
    assert alarms.resource_alarms.short == NOTHING_SHORT

    async def look() -> None:
        while levels:
            await alarms.look()
            mark = int(part * AVAILABLE) if bytes_max is None else bytes_max
            seen, statistics = levels.pop(0), alarms.statistics
            assert statistics.memory_alarm is (seen.memory_used_bytes >= mark)
            assert statistics.disk_alarm is (seen.disk_free_bytes < free_min)
            assert statistics.memory_high_watermark_bytes == mark
            short = alarms.resource_alarms.short
            assert (Resource.MEMORY in short) is statistics.memory_alarm
            assert (Resource.DISK in short) is statistics.disk_alarm

    run(look)


def test_a_moved_watermark_applies_at_once_and_zero_is_an_alarm() -> None:
    alarms = alarms_of(Watermarks(), lambda _: Levels(100, 60_000_000))
    heard = list[Short]()
    alarms.resource_alarms.listen(heard.append)

    async def move() -> None:
        await alarms.look()
        await alarms.move({"memory_high_watermark": 0})
        await alarms.move({"disk_free_min_bytes": 1 << 60})
        await alarms.move({"memory_high_watermark_bytes": 101})
        await alarms.move({"memory_high_watermark": 0.1})
        await alarms.move({"memory_high_watermark": 0.2, "disk_free_min_bytes": 0})

    run(move)
    memory, disk = frozenset({Resource.MEMORY}), frozenset({Resource.DISK})
    assert heard == [memory, memory | disk, disk, memory | disk, NOTHING_SHORT]


@pytest.mark.parametrize(
    "wrong",
    [
        {"memory_high_watermark": 1.1},
        {"memory_high_watermark": -0.1},
        {"memory_high_watermark": "1"},
        {"memory_high_watermark": float("nan")},
        {"memory_high_watermark_bytes": -2},
        {"memory_high_watermark_bytes": True},
        {"disk_free_min_bytes": -1},
        {"disk_free_min_bytes": 1.5},
        {"check_interval_s": 0},
        {"disk_free_limit": 1},
    ],
)
def test_wrong_watermarks_are_refused_and_change_nothing(wrong: dict[str, object]) -> None:
    alarms = alarms_of(Watermarks(), lambda _: Levels(0, 1 << 60))

    async def move() -> None:
        with pytest.raises(ConfigInvalid):
            await alarms.move(wrong)

    run(move)
    assert alarms.watermarks == Watermarks()


def test_levels_that_cannot_be_read_leave_alarms_as_they_are() -> None:
    levels: list[Levels | OSError] = [Levels(AVAILABLE, 0), OSError("gone"), Levels(0, 1 << 60)]

    def read(_: Path) -> Levels:
        found = levels.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    alarms = alarms_of(Watermarks(), read)

    async def look() -> None:
        await alarms.look()
        assert alarms.resource_alarms.short == {Resource.MEMORY, Resource.DISK}
        await alarms.look()
        assert alarms.resource_alarms.short == {Resource.MEMORY, Resource.DISK}
        await alarms.look()
        assert alarms.resource_alarms.short == NOTHING_SHORT

    run(look)


def test_what_the_store_can_reuse_counts_as_free(tmp_path: Path) -> None:
    """Its file never shrinks, so that otherwise consuming would not end a disk alarm."""
    inside = 1 << 50
    free = read_levels(tmp_path, room_inside=lambda: inside).disk_free_bytes
    assert free - inside >= 0
    watermarks = Watermarks(disk_free_min_bytes=inside)
    assert Resource.DISK in alarmed(watermarks, read_levels)
    assert Resource.DISK not in alarmed(
        watermarks, lambda path: read_levels(path, room_inside=lambda: inside)
    )


def alarmed(watermarks: Watermarks, read: Callable[[Path], Levels]) -> Short:
    alarms = Alarms(watermarks, Path("/"), read=read)
    trio.run(alarms.look)
    return alarms.resource_alarms.short


def test_levels_are_those_of_this_process_and_disk(tmp_path: Path) -> None:
    levels = read_levels(tmp_path)
    assert 1 << 20 < levels.memory_used_bytes < memory_available_bytes()
    assert levels.disk_free_bytes > 0
