"""Rates: by two samples, within a budget."""

from arneb.http.management.rates import (
    COARSE_SAMPLES,
    FINE_SAMPLES,
    LOOKED_AT_S,
    SAMPLE_BYTES,
    Range,
    Rates,
)


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


async def test_what_nobody_looks_at_any_more_and_what_is_gone_is_forgotten() -> None:
    clock = Clock()
    rates = Rates(clock)
    rates.details("a", {"n": 1}, lambda: {"n": 1})
    rates.details("b", {"n": 1}, lambda: None)
    await rates.sample()
    assert len(rates) == 1
    clock.now += LOOKED_AT_S + 1
    await rates.sample()
    assert len(rates) == 0


def test_the_budget_holds_and_what_was_looked_at_last_stays() -> None:
    clock = Clock()
    per_object = (FINE_SAMPLES + COARSE_SAMPLES) * SAMPLE_BYTES
    rates = Rates(clock, bytes_max=3 * per_object)
    for name in "abcab":
        rates.details(name, {"n": 1}, lambda: {"n": 1})
    rates.details("d", {"n": 1}, lambda: {"n": 1})
    assert len(rates) == 3
    clock.now += 2
    assert rates.details("b", {"n": 5}, lambda: {"n": 5})["n"]["rate"] == 2.0
    assert rates.details("c", {"n": 5}, lambda: {"n": 5})["n"]["rate"] == 0.0


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
