"""Rates: computed from two samples, within a budget."""

import gc
import tracemalloc

from arneb.http.management.figures.counters import QUEUE_COUNTERS
from arneb.http.management.figures.growth import LOOKED_AT_S
from arneb.http.management.figures.rates import HISTORY_BYTES, Range, Rates
from arneb.http.management.figures.samples import (
    COARSE_S,
    NUMBER_BYTES,
    OBJECT_BYTES,
    SAMPLE_BYTES,
    TIER_BYTES,
    Kept,
)

SAMPLE = SAMPLE_BYTES + NUMBER_BYTES
OBJECT = OBJECT_BYTES + NUMBER_BYTES
"""The rates of objects with one counter."""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


async def test_a_rate_is_the_difference_of_two_samples() -> None:
    clock, counters = Clock(), {"n": 0}
    rates = Rates(clock)
    assert rates.details("a", dict(counters), lambda: dict(counters))["n"] == {"rate": 0.0}
    counters["n"], clock.now = 30, clock.now + 3
    assert rates.details("a", dict(counters), lambda: dict(counters))["n"] == {"rate": 10.0}
    clock.now += 1
    await rates.sample()
    clock.now += 1
    assert rates.details("a", dict(counters), lambda: dict(counters))["n"] == {"rate": 0.0}


async def test_objects_that_are_gone_or_no_longer_read_are_forgotten() -> None:
    clock = Clock()
    rates = Rates(clock)
    rates.details("a", {"n": 1}, lambda: {"n": 1})
    rates.details("b", {"n": 1}, lambda: None)
    await rates.sample()
    assert len(rates) == 1
    clock.now += LOOKED_AT_S + 1
    await rates.sample()
    assert len(rates) == 0


BOUND = 40 * SAMPLE + 2 * (OBJECT + 2 * TIER_BYTES)
"""Room for two objects with twenty samples each."""


def test_the_object_read_least_recently_loses_its_oldest_samples_first() -> None:
    clock = Clock()
    rates = Rates(clock, bytes_max=BOUND)
    for now in range(1, 13):
        for name in "ab":
            rates.details(name, {"n": now}, lambda: None)
        clock.now += 1
    for now in range(13, 33):
        rates.details("b", {"n": now}, lambda: None)
        clock.now += 1
    assert rates.bytes <= BOUND
    wanted = Range(40, 1)
    kept = {name: rates.details(name, {"n": 33}, lambda: None, wanted)["n"] for name in "ba"}
    counts = {name: {each["sample"] for each in kept[name]["samples"]} for name in "ab"}
    assert len(counts["a"]) < 12 < len(counts["b"])
    assert {11, 12} <= counts["a"], "a rate needs two"
    assert kept["b"]["rate"] == 1.0


def test_there_may_be_more_objects_than_the_budget_has_room_for() -> None:
    clock = Clock()
    rates = Rates(clock, bytes_max=100 * OBJECT)
    for now in range(3):
        for number in range(200):
            rates.details(number, {"n": now}, lambda: None)
        clock.now += 1
    assert rates.bytes <= 100 * OBJECT
    assert 0 < len(rates) < 200
    assert rates.details(199, {"n": 3}, lambda: None)["n"]["rate"] == 1.0


async def test_an_unchanged_counter_is_one_sample() -> None:
    clock = Clock()
    rates = Rates(clock)
    rates.details("a", {"n": 7}, lambda: {"n": 7})
    one = rates.bytes
    for _ in range(50):
        clock.now += 1
        await rates.sample()
    assert rates.bytes == one
    rates.details("a", {"n": 7}, lambda: {"n": 9})
    clock.now += 1
    assert rates.details("a", {"n": 9}, lambda: {"n": 9})["n"]["rate"] == 2.0
    clock.now += 1
    assert rates.details("a", {"n": 11}, lambda: {"n": 11})["n"]["rate"] == 2.0
    changed = rates.bytes
    for _ in range(int(COARSE_S) - 2):
        clock.now += 1
        await rates.sample()
    assert rates.bytes == changed, "one sample for each distance, and the next one is not due"


async def test_what_is_always_sampled_is_kept_for_a_day() -> None:
    clock = Clock()
    rates = Rates(clock, now_ms=lambda: int(clock.now * 1000))
    count = 0

    async def read() -> dict[str, int]:
        return {"n": count}

    rates.always("all", read)
    for _ in range(50):
        clock.now += 1800
        count += 10
        await rates.sample()
    detail = rates.details("all", {"n": count}, lambda: None, Range(86_400, 1800))["n"]
    assert [each["sample"] for each in detail["samples"]] == list(range(490, 0, -10))
    assert detail["rate"] == round(10 / 1800, 3)


async def test_what_is_always_sampled_is_sampled_rarely_while_nobody_reads_it() -> None:
    clock = Clock()
    rates = Rates(clock)
    reads = 0

    async def read() -> dict[str, int]:
        nonlocal reads
        reads += 1
        return {"n": reads}

    rates.always("all", read)
    for _ in range(120):
        await rates.sample()
        clock.now += 1
    assert reads == 2
    rates.details("all", {"n": 2}, lambda: None)
    for _ in range(10):
        await rates.sample()
        clock.now += 1
    assert reads == 12, "rates are sampled while somebody looks"


async def test_something_is_idle_since_its_counters_last_changed() -> None:
    clock, counters = Clock(), {"n": 0}
    rates = Rates(clock, now_ms=lambda: int(clock.now * 1000))
    rates.details("a", dict(counters), lambda: dict(counters))
    clock.now += 10
    await rates.sample()
    assert rates.idle_since_ms("a") is None, "the time of the change was not seen"
    counters["n"] += 1
    clock.now += 1
    await rates.sample()
    assert rates.idle_since_ms("a") is None, "a busy object has no idle time"
    clock.now += 9
    await rates.sample()
    assert rates.idle_since_ms("a") == 1011_000
    assert rates.idle_since_ms("b") is None


async def test_samples_of_a_range_are_newest_first_at_multiples_of_the_step() -> None:
    clock, counters = Clock(), {"n": 0}
    rates = Rates(clock, now_ms=lambda: int(clock.now * 1000))
    for _ in range(20):
        rates.details("a", dict(counters), lambda: dict(counters))
        clock.now += 1
        counters["n"] += 2
        await rates.sample()
    detail = rates.details("a", dict(counters), lambda: dict(counters), Range(10, 5))["n"]
    assert [each["timestamp"] for each in detail["samples"]] == [1020_000, 1015_000, 1010_000]
    assert [each["sample"] for each in detail["samples"]] == [40, 30, 20]
    assert detail["avg_rate"] == 2.0
    assert detail["avg"] == 30


def look_at(rates: Rates, queues: int, count: int) -> None:
    """With so many queues, each of which has passed on so many messages."""
    counters = dict.fromkeys(QUEUE_COUNTERS, count)
    for number in range(queues):
        rates.details(("queue", number), counters, lambda: counters)


def test_the_budget_holds_with_50_000_queues_that_all_change() -> None:
    """As when somebody polls the whole list."""
    clock = Clock()
    rates = Rates(clock)
    assert HISTORY_BYTES == 64 * 1024 * 1024
    look_at(rates, 50_000, 0)
    assert len(rates) == 50_000, "all fit while none of them changes"
    for count in (1, 2):
        clock.now += 10
        look_at(rates, 50_000, count)
        assert rates.bytes <= HISTORY_BYTES
        assert rates.bytes == sum(each.bytes for each in rates.histories())
    assert 10_000 < len(rates) < 50_000
    clock.now += 1
    details = rates.details(("queue", 49_999), dict.fromkeys(QUEUE_COUNTERS, 12), lambda: None)
    assert details["publish"]["rate"] == 10.0


INTERPRETER_BYTES = 1024
"""What the interpreter may keep for itself meanwhile, in caches for instance: about one object."""


def test_no_object_takes_more_than_is_counted() -> None:
    clock, many = Clock(), 50
    rates = Rates(clock)
    look_at(rates, 1, 0)
    for changes in (0, 1, 130):
        gc.collect()
        tracemalloc.start()
        counted = rates.bytes
        for count in range(changes + 1):
            clock.now += 1
            look_at(rates, many, 1_000_000 + count)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert taken <= rates.bytes - counted + INTERPRETER_BYTES, changes
        clock.now += LOOKED_AT_S + 1
        rates = Rates(clock)


def test_what_is_kept_of_an_object_is_dropped_when_it_or_its_samples_change() -> None:
    clock = Clock()
    rates = Rates(clock)
    rates.details("a", {"n": 7}, lambda: {"n": 7})
    rates.keep("a", (7,), Kept((1,), "made", 500))
    assert rates.unchanged("a", (7,)) is None, "a rate needs a second"
    before = rates.bytes
    clock.now += 1
    assert rates.unchanged("a", (7,)) is None, "no samples are kept that could show a rate"
    kept = Kept((1,), "made", 500)
    rates.keep("a", (7,), kept)
    assert rates.bytes == before + 500
    assert rates.unchanged("a", (7,)) is kept
    assert rates.unchanged("a", (8,)) is None
    rates.details("a", {"n": 8}, lambda: {"n": 8})
    clock.now += 5
    assert rates.unchanged("a", (8,)) is None
    assert rates.unchanged("b", (8,)) is None
