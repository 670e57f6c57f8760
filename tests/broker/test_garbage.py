"""The garbage schedule: collections stay short, and nothing that died is kept for good."""

import gc
import weakref
from collections.abc import Iterator

import pytest
import trio

from arneb.garbage import (
    AGAIN_AFTER_S,
    FULL_EVERY,
    GROWN,
    LOOK_S,
    OBJECTS_PER_TASK,
    THAW_AFTER_S,
    TIME_SHARE,
    GarbageSchedule,
    Living,
)


class Thing:
    """An object that can be part of a cycle."""

    def __init__(self) -> None:
        self.me = self


class Broker:
    """What there is, as a test says."""

    def __init__(self) -> None:
        self.living = Living(0, 0)
        self.now = 1000.0

    def look(self) -> Living:
        return self.living


@pytest.fixture
def broker() -> Iterator[Broker]:
    yield Broker()
    gc.unfreeze()


@pytest.fixture
def schedule(broker: Broker) -> GarbageSchedule:
    return GarbageSchedule(broker.look, lambda: broker.now)


async def run(schedule: GarbageSchedule, nursery: trio.Nursery) -> None:
    nursery.start_soon(schedule.run)
    await trio.testing.wait_all_tasks_blocked()


async def test_a_full_collection_looks_only_at_what_came_since_the_last(
    schedule: GarbageSchedule,
) -> None:
    async with trio.open_nursery() as nursery:
        await run(schedule, nursery)
        many = [Thing() for _ in range(20_000)]
        gc.collect()
        assert len(gc.get_objects()) < 10_000
        assert gc.get_freeze_count() > 20_000
        assert gc.get_threshold()[2] == FULL_EVERY
        nursery.cancel_scope.cancel()
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold()[2] != FULL_EVERY
    assert many


async def test_what_dies_frozen_is_found_when_its_task_has_gone(
    schedule: GarbageSchedule, broker: Broker
) -> None:
    async with trio.open_nursery() as nursery:
        await run(schedule, nursery)
        thing = Thing()
        gone = weakref.ref(thing)
        broker.living = Living(1000, 10)
        schedule.look()
        gc.collect()
        del thing
        gc.collect()
        assert gone() is not None, "it is frozen"
        thaws = schedule.thaws_total
        broker.living = Living(0, 10)
        broker.now += 1000
        schedule.look()
        assert gone() is None
        for _ in range(20):
            broker.now += LOOK_S
            schedule.look()
        assert schedule.thaws_total == thaws + 1
        nursery.cancel_scope.cancel()


def test_little_that_left_is_not_worth_a_thaw(schedule: GarbageSchedule, broker: Broker) -> None:
    gc.freeze()
    count = gc.get_freeze_count() // OBJECTS_PER_TASK
    broker.living = Living(count, 0)
    schedule.look()
    broker.now += 100
    broker.living = Living(count - 1, 0)
    schedule.look()
    assert schedule.thaws_total == 0
    broker.living = Living(0, 0)
    schedule.look()
    assert schedule.thaws_total == 1


async def test_one_that_left_with_most_of_what_there_is_is_worth_a_thaw(
    schedule: GarbageSchedule, broker: Broker
) -> None:
    """A connection may have had two thousand channels, or two million messages."""
    async with trio.open_nursery() as nursery:
        await run(schedule, nursery)
        survived = gc.get_freeze_count()
        broker.living = Living(100, 0)
        schedule.look()
        things = [Thing() for _ in range(GROWN * survived)]
        gone = weakref.ref(things[0])
        gc.collect()
        things.clear()
        thaws = schedule.thaws_total
        broker.now += 100
        schedule.look()
        assert schedule.thaws_total == thaws, "nobody has left"
        for left in (99, 98):
            broker.living = Living(left, 0)
            schedule.look()
            assert schedule.thaws_total == thaws, "others are leaving"
        schedule.look()
        assert (schedule.thaws_total, gone()) == (thaws + 1, None)
        broker.now += AGAIN_AFTER_S
        schedule.look()
        assert schedule.thaws_total == thaws + 2, "once more for what was being taken apart"
        thaws += 1
        broker.living = Living(97, 0)
        broker.now += 100
        schedule.look()
        schedule.look()
        assert schedule.thaws_total == thaws + 1
        nursery.cancel_scope.cancel()


async def test_the_c_library_gives_back_what_they_left_when_they_have(
    schedule: GarbageSchedule, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[float] = []
    monkeypatch.setattr("arneb.garbage.give_back", lambda: calls.append(broker.now))
    for living, expected in [
        (Living(10, 10), 0),
        (Living(10, 10), 0),
        (Living(9, 10), 1),
        (Living(9, 10), 1),
        (Living(9, 0), 2),
        (Living(12, 3), 2),
    ]:
        broker.living = living
        schedule.look()
        await schedule.give_back()
        assert len(calls) == expected


def test_queues_that_left_are_worth_a_thaw_too(schedule: GarbageSchedule, broker: Broker) -> None:
    gc.freeze()
    broker.living = Living(0, 100_000)
    schedule.look()
    broker.living = Living(0, 0)
    schedule.look()
    assert schedule.thaws_total == 1


def test_thaws_take_a_small_share_of_the_time(schedule: GarbageSchedule, broker: Broker) -> None:
    """However often a client comes and goes."""
    gc.freeze()
    spent = 0.0

    def thaw_of_a_second(phase: str, info: dict[str, int]) -> None:
        nonlocal spent
        if phase == "stop":
            broker.now += 1.0
            spent += 1.0

    began = broker.now
    gc.callbacks.append(thaw_of_a_second)
    try:
        while broker.now < began + 1000:
            broker.living = Living(100_000, 0)
            schedule.look()
            broker.living = Living(0, 0)
            schedule.look()
            broker.now += LOOK_S
    finally:
        gc.callbacks.remove(thaw_of_a_second)
    assert schedule.thaws_total >= 5
    assert spent <= 1000 * TIME_SHARE + 2


def test_a_thaw_comes_in_the_end(schedule: GarbageSchedule, broker: Broker) -> None:
    broker.living = Living(5, 5)
    schedule.look()
    broker.now += THAW_AFTER_S
    schedule.look()
    assert schedule.thaws_total == 0, "nothing was frozen since"
    schedule._collected("stop", {"generation": 2})
    schedule.look()
    assert schedule.thaws_total == 1
