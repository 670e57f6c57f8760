"""Rates: how fast counters grow, and what they were.

The rule: a rate is the difference of two samples that are a second apart or more, the later one
taken now. Samples of what somebody looks at are taken each second and kept, all within a budget:
what was not looked at for longest goes first.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import trio

FINE_S: Final = 1.0
FINE_SAMPLES: Final = 120
"""A second apart, for two minutes."""
COARSE_S: Final = 5.0
COARSE_SAMPLES: Final = 120
"""Five seconds apart, for ten."""

HISTORY_BYTES: Final = 64 * 1024 * 1024
"""The budget of all samples."""
SAMPLE_BYTES: Final = 700
"""What one takes, of some eight counters."""

LOOKED_AT_S: Final = 75.0
"""Samples are taken for so long after somebody looked: pollers come each minute, some twice."""

OBJECTS_PER_TURN: Final = 100

Counters = Mapping[str, int]
Read = Callable[[], Counters | None]
"""The counters of something now; None: it is gone."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Counters at an instant."""

    at_s: float
    counters: Counters


@dataclass(slots=True)
class History:
    """The samples of one object, oldest first."""

    read: Read
    looked_at_s: float
    fine: deque[Sample] = field(default_factory=lambda: deque(maxlen=FINE_SAMPLES))
    coarse: deque[Sample] = field(default_factory=lambda: deque(maxlen=COARSE_SAMPLES))

    def take(self, now: float, counters: Counters) -> None:
        """A sample, unless there is one of this second."""
        if not self.fine or now - self.fine[-1].at_s >= FINE_S:
            self.fine.append(Sample(now, counters))
        if not self.coarse or now - self.coarse[-1].at_s >= COARSE_S:
            self.coarse.append(Sample(now, counters))

    def before(self, now: float) -> Sample | None:
        """The newest sample that is a second old, or older."""
        for sample in reversed(self.fine):
            if now - sample.at_s >= FINE_S:
                return sample
        return None


@dataclass(frozen=True, slots=True)
class Range:
    """For how long back, and how far apart, samples are wanted; in seconds."""

    age_s: int
    step_s: int


class Rates:
    """The samples of everything that somebody looks at."""

    def __init__(
        self,
        clock: Callable[[], float] = trio.current_time,
        now_ms: Callable[[], int] = lambda: 0,
        bytes_max: int = HISTORY_BYTES,
    ) -> None:
        self._clock = clock
        self._now_ms = now_ms
        self._samples_max = bytes_max // SAMPLE_BYTES
        self._histories: OrderedDict[Hashable, History] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Rates of {len(self._histories)} objects>"

    def __len__(self) -> int:
        return len(self._histories)

    def details(
        self, key: Hashable, counters: Counters, read: Read, wanted: Range | None = None
    ) -> dict[str, dict[str, Any]]:
        """``rate`` of each counter, and what else a range asks for. ``read`` is for later
        samples."""
        now = self._clock()
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = History(read, now)
        history.looked_at_s, history.read = now, read
        self._histories.move_to_end(key)
        before = history.before(now)
        history.take(now, counters)
        self._keep_budget()
        return {
            name: self._detail(history, name, value, before, now, wanted)
            for name, value in counters.items()
        }

    def _detail(
        self,
        history: History,
        name: str,
        value: int,
        before: Sample | None,
        now: float,
        wanted: Range | None,
    ) -> dict[str, Any]:
        rate = 0.0
        if before is not None:
            rate = (value - before.counters.get(name, 0)) / (now - before.at_s)
        detail: dict[str, Any] = {"rate": round(rate, 3)}
        if wanted is None:
            return detail
        kept = [*history.coarse, *history.fine]
        kept.sort(key=lambda each: each.at_s)
        newest_ms = self._now_ms() // 1000 // wanted.step_s * wanted.step_s * 1000
        samples = []
        for back in range(0, wanted.age_s + 1, wanted.step_s):
            at_ms = newest_ms - back * 1000
            at_s = now - (self._now_ms() - at_ms) / 1000
            found = [each for each in kept if each.at_s <= at_s]
            count = found[-1].counters.get(name, 0) if found else 0
            samples.append({"sample": count, "timestamp": at_ms})
        counts = [each["sample"] for each in samples]
        span_s = (len(samples) - 1) * wanted.step_s
        detail["avg"] = sum(counts) / len(counts)
        detail["avg_rate"] = (counts[0] - counts[-1]) / span_s if span_s else 0.0
        detail["samples"] = samples
        return detail

    def _keep_budget(self) -> None:
        per_object = FINE_SAMPLES + COARSE_SAMPLES
        while len(self._histories) * per_object > self._samples_max:
            self._histories.popitem(last=False)

    async def run(self) -> NoReturn:
        """Take samples, for ever."""
        while True:
            await trio.sleep(FINE_S)
            await self.sample()

    async def sample(self) -> None:
        """Take one of all that is looked at."""
        for number, key in enumerate(list(self._histories), 1):
            now = self._clock()
            history = self._histories.get(key)
            if history is None:
                continue
            counters = history.read() if now - history.looked_at_s <= LOOKED_AT_S else None
            if counters is None:
                del self._histories[key]
            else:
                history.take(now, counters)
            if number % OBJECTS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
