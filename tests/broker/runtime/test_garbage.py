"""The garbage schedule: collections stay short, and no garbage is kept for ever."""

import gc
import weakref
from collections.abc import Iterator
from itertools import pairwise

import pytest
import trio

from arneb.runtime.garbage import (
    BUSY_AFTER_S,
    CHECK_INTERVAL_S,
    GIVE_BACKS,
    GROWN_BYTES,
    IDLE_AFTER_S,
    LOST_MAX,
    OBJECTS_EACH,
    OBJECTS_PER_TASK,
    OBJECTS_PER_TOPIC,
    THAW_AFTER_S,
    TIME_SHARE,
    TOPIC_BYTES,
    WORTH,
    WORTH_SHARE,
    GarbageSchedule,
    Living,
    starting,
    thaw,
)

BUSY = 0.5
"""The share of a processor that a loop uses when it has work to do."""

FULL_OBJECTS_MAX = 10_000


class Thing:
    """An object that can be part of a cycle."""

    def __init__(self) -> None:
        self.me = self


class Broker:
    """A broker's connections, topics and memory, as a test sets them."""

    def __init__(self) -> None:
        self.living = Living(0, 0)
        self.now = 1000.0
        self.busy_s = 0.0
        self.bytes = GROWN_BYTES
        self.schedule = GarbageSchedule(
            lambda: self.living, lambda: self.now, lambda: self.busy_s, lambda: self.bytes
        )

    def look_again(self, seconds: float = CHECK_INTERVAL_S, share: float = BUSY) -> int:
        """Advance the time, with the loop using that share of a processor; return the thaws so
        far."""
        self.now += seconds
        self.busy_s += seconds * share
        self.schedule.look()
        return self.schedule.thaws_total

    def topics_go(self, count: int) -> None:
        """So many topics go, and then nothing goes any more."""
        self.living = Living(0, count)
        self.schedule.look()
        self.living = Living(0, 0)
        self.schedule.look()


@pytest.fixture
def broker() -> Iterator[Broker]:
    yield Broker()
    gc.unfreeze()


async def run(broker: Broker, nursery: trio.Nursery) -> None:
    nursery.start_soon(broker.schedule.run)
    await trio.testing.wait_all_tasks_blocked()


async def test_a_full_collection_examines_only_what_was_created_since_the_last(
    broker: Broker,
) -> None:
    gc.collect()
    # Python 3.12 counts its own immortal objects as frozen.
    immortal = gc.get_freeze_count()
    async with trio.open_nursery() as nursery:
        await run(broker, nursery)
        many = [Thing() for _ in range(20_000)]
        gc.collect()
        assert len(gc.get_objects()) < 10_000
        assert gc.get_freeze_count() > 20_000
        assert gc.get_threshold() == (OBJECTS_EACH, 0, 0)
        nursery.cancel_scope.cancel()
    assert gc.get_freeze_count() > 20_000, "a stop must not look at all objects"
    assert gc.get_threshold() != (OBJECTS_EACH, 0, 0)
    thaw()
    assert gc.get_freeze_count() <= immortal
    assert many


async def test_nothing_is_collected_while_a_broker_starts_or_right_after(broker: Broker) -> None:
    looked_at = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(len(gc.get_objects()))

    gc.callbacks.append(count)
    try:
        with starting():
            many = [Thing() for _ in range(100_000)]
            assert not looked_at
            async with trio.open_nursery() as nursery:
                await run(broker, nursery)
                assert gc.isenabled()
                assert max(looked_at) < 10_000
                nursery.cancel_scope.cancel()
    finally:
        gc.callbacks.remove(count)
    assert gc.isenabled()
    assert many


async def test_a_full_collection_comes_before_there_is_much_to_examine(broker: Broker) -> None:
    """Whatever survives: a million objects are frozen a few thousand at a time."""
    looked_at = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked_at.append(len(gc.get_objects()))

    # The interpreter would wait for a quarter of what it has found alive, unless it is made to
    # forget that.
    there = [Thing() for _ in range(8 * FULL_OBJECTS_MAX)]
    async with trio.open_nursery() as nursery:
        await run(broker, nursery)
        gc.callbacks.append(count)
        try:
            many = [Thing() for _ in range(200_000)]
        finally:
            gc.callbacks.remove(count)
        nursery.cancel_scope.cancel()
    assert len(looked_at) >= 200_000 // FULL_OBJECTS_MAX
    assert max(looked_at) < FULL_OBJECTS_MAX
    assert many and there


async def test_frozen_garbage_is_found_when_the_loop_is_idle(broker: Broker) -> None:
    async with trio.open_nursery() as nursery:
        await run(broker, nursery)
        thing = Thing()
        gone = weakref.ref(thing)
        gc.collect()
        del thing
        gc.collect()
        assert gone() is not None, "a frozen object is not collected"
        thaws = broker.schedule.thaws_total
        broker.topics_go(WORTH // OBJECTS_PER_TOPIC + 1)
        assert broker.look_again(IDLE_AFTER_S) == thaws, "a busy broker does not collect"
        assert broker.look_again(share=0.0) == thaws + 1
        assert gone() is None
        for _ in range(20):
            assert broker.look_again(share=0.0) == thaws + 1, "nobody has left since"
        nursery.cancel_scope.cancel()


def test_a_few_deleted_topics_are_not_worth_a_thaw(broker: Broker) -> None:
    broker.topics_go(WORTH // OBJECTS_PER_TOPIC)
    assert broker.look_again(THAW_AFTER_S, share=0.0) == 0
    broker.topics_go(1)
    assert broker.look_again(share=0.0) == 1


def test_with_very_many_topics_only_many_deleted_ones_are_worth_a_thaw(broker: Broker) -> None:
    """A thaw examines everything that exists, for a second with 100,000 queues."""
    there = 100_000
    few = int(WORTH_SHARE * there) - 10
    broker.living = Living(0, there + few)
    broker.look_again()
    broker.living = Living(0, there)
    broker.look_again()
    assert broker.look_again(IDLE_AFTER_S, share=0.0) == 0
    broker.living = Living(0, there - 20)
    broker.look_again()
    assert broker.look_again(share=0.0) == 1


def test_memory_of_new_queues_is_no_reason(broker: Broker) -> None:
    came = 100_000
    broker.topics_go(1)
    broker.living = Living(0, came)
    broker.bytes = GROWN_BYTES + came * TOPIC_BYTES
    assert broker.look_again(BUSY_AFTER_S) == 0
    broker.bytes += GROWN_BYTES + 1
    assert broker.look_again() == 1


def test_a_busy_loop_thaws_only_for_very_much(broker: Broker) -> None:
    """Everybody would have to wait for it."""
    broker.topics_go(LOST_MAX // OBJECTS_PER_TOPIC)
    for _ in range(200):
        assert broker.look_again() == 0
    broker.topics_go(1)
    assert broker.look_again() == 1


def test_there_is_no_thaw_while_more_are_being_deleted(broker: Broker) -> None:
    """What they leave would be found only by the next thaw. But deletions without end must not
    prevent one."""
    topics = 10 * LOST_MAX // OBJECTS_PER_TOPIC
    thaws = [0]
    while thaws[-1] < 2:
        topics -= LOST_MAX // OBJECTS_PER_TOPIC // 2
        broker.living = Living(0, topics)
        thaws.append(broker.look_again())
    first = next(index for index, (one, two) in enumerate(pairwise(thaws)) if one < two)
    assert first > 3


def test_connections_that_come_and_go_are_no_reason(broker: Broker) -> None:
    """They leave nothing behind that a collection would have to find."""
    for _ in range(100):
        broker.living = Living(LOST_MAX // OBJECTS_PER_TASK // 200, 0)
        broker.look_again()
        broker.living = Living(0, 0)
        assert broker.look_again() == 0


def test_doubled_memory_is_a_reason_if_something_was_deleted(broker: Broker) -> None:
    broker.bytes = 2 * GROWN_BYTES + 1
    assert broker.look_again(BUSY_AFTER_S) == 0, "no connection has ended"
    broker.topics_go(1)
    assert broker.look_again() == 1
    broker.topics_go(1)
    assert broker.look_again(BUSY_AFTER_S) == 1, "memory has not grown since the last collection"
    broker.bytes = 4 * GROWN_BYTES + 3
    assert broker.look_again() == 2
    broker.bytes *= 3
    broker.topics_go(1)
    assert broker.look_again() == 2, "the last collection was a moment ago"


async def test_freed_memory_is_returned_to_the_system_after_a_deletion(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[float] = []
    monkeypatch.setattr("arneb.runtime.garbage.give_back", lambda: calls.append(broker.now))
    for living, expected in [
        (Living(10, 10), 0),
        (Living(10, 10), 0),
        (Living(9, 10), 1),
        (Living(9, 10), 1),
        (Living(9, 0), 2),
        (Living(12, 3), 2),
    ]:
        broker.living = living
        broker.look_again()
        await broker.schedule.give_back()
        assert len(calls) == expected


async def test_memory_is_returned_once_the_loop_has_become_idle(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue of millions was purged, and nothing was deleted."""
    calls: list[float] = []
    monkeypatch.setattr("arneb.runtime.garbage.give_back", lambda: calls.append(broker.now))
    for share, expected in [(BUSY, 0), (BUSY, 0), (0.0, 1), (0.0, 2), (BUSY, 2), (0.0, 3)]:
        broker.look_again(share=share)
        await broker.schedule.give_back()
        assert len(calls) == expected


@pytest.mark.parametrize("share", [0.0, BUSY])
def test_thaws_take_a_small_share_of_the_time(broker: Broker, share: float) -> None:
    """However many topics come and go."""
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
            broker.topics_go(LOST_MAX)
            broker.look_again(share=share)
    finally:
        gc.callbacks.remove(thaw_of_a_second)
    assert broker.schedule.thaws_total >= 5
    assert spent <= 1000 * TIME_SHARE + 2


def test_a_thaw_comes_in_the_end(broker: Broker) -> None:
    broker.topics_go(0)
    assert broker.look_again(THAW_AFTER_S, share=0.0) == 0, "nothing was frozen since"
    broker.schedule._collected("stop", {"generation": 2})
    assert broker.look_again() == 0, "a busy broker does not collect"
    assert broker.look_again(share=0.0) == 1


async def looks(broker: Broker, monkeypatch: pytest.MonkeyPatch, share: float) -> list[int]:
    """A connection closes, and the checks continue until no more memory is returned. Returns the
    checks at which some was, each time after a full collection."""
    given: list[int] = []
    collected = 0

    def collect() -> int:
        nonlocal collected
        collected += 1
        return 0

    monkeypatch.setattr("arneb.runtime.garbage.gc.collect", collect)
    monkeypatch.setattr("arneb.runtime.garbage.give_back", lambda: given.append(collected))
    broker.living = Living(1, 0)
    broker.look_again(share=BUSY)
    broker.living = Living(0, 0)
    at: list[int] = []
    for number in range(3 * GIVE_BACKS):
        broker.look_again(share=share)
        await broker.schedule.give_back()
        if len(given) > len(at):
            at.append(number)
    assert given == list(range(1, len(given) + 1)), (
        "exactly one collection must precede each return of memory"
    )
    return at


async def test_free_memory_is_returned_several_times_after_a_connection_has_closed(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter keeps free objects to reuse them, each perhaps in an arena of its own. So do
    tasks that sleep, until they wake."""
    assert await looks(broker, monkeypatch, share=0.0) == list(range(GIVE_BACKS))


async def test_a_busy_loop_returns_memory_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await looks(broker, monkeypatch, share=BUSY) == [0]
