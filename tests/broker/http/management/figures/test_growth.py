"""Growth of very many objects: two samples of each counter that somebody sorts by."""

from arneb.http.management.figures.growth import COUNTERS_MAX, LOOKED_AT_S, Growth


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Kit:
    """Two objects with one count each."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.counts = {"a": 5, "b": 0}
        self.looks = 0
        self.growth = Growth(self.clock, self.pause)

    async def pause(self) -> None:
        """Gives others a turn at once."""

    def read(self, name: str) -> int:
        self.looks += 1
        return self.counts[name]

    def rates(self, counter: str = "n") -> list[float]:
        rate = self.growth.rate_of(counter, self.read, lambda: ["a", "b"])
        return [rate("a"), rate("b")]


async def test_a_rate_covers_the_time_since_the_older_sample() -> None:
    kit = Kit()
    assert kit.rates() == [0, 0], "nothing is known yet"
    await kit.growth.sample()
    kit.clock.now, kit.counts["b"] = 102.0, 6
    assert kit.rates() == [0, 3]
    await kit.growth.sample()
    kit.clock.now = 104.0
    assert kit.rates() == [0, 1.5]
    await kit.growth.sample()
    kit.clock.now, kit.counts["a"] = 105.0, 6
    assert kit.rates() == [1 / 3, 0], "the rate since the sample at 102 s"


async def test_a_counter_that_nobody_sorts_by_any_more_is_no_longer_sampled() -> None:
    kit = Kit()
    kit.rates()
    await kit.growth.sample()
    kit.clock.now += LOOKED_AT_S + 1
    looks = kit.looks
    await kit.growth.sample()
    assert kit.looks == looks


async def test_the_number_of_sampled_counters_is_bounded() -> None:
    kit = Kit()
    for number in range(COUNTERS_MAX + 3):
        kit.rates(str(number))
    await kit.growth.sample()
    assert kit.looks == 2 * COUNTERS_MAX
