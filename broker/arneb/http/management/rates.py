"""Rates: how fast counters grow, and what they were.

The rule: a rate is the difference of two samples that are a second apart or more, the later one
taken now. Samples of what somebody looks at are taken each second. One that is like the one before
is none: it is only noted for how long that has held. All are within a budget: of what was not
looked at for longest, the oldest go first, all but the last two.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import trio

from arneb.http.management.growth import LOOKED_AT_S, Growth

FINE_S: Final = 1.0
FINE_SAMPLES: Final = 120
"""A second apart, for two minutes."""
COARSE_S: Final = 5.0
COARSE_SAMPLES: Final = 120
"""Five seconds apart, for ten minutes."""

OF_A_DAY: Final = ((60.0, 60), (600.0, 48), (1800.0, 48))
"""Seconds apart, and how many: an hour, eight hours and a day. Of what there is one of."""

HISTORY_BYTES: Final = 64 * 1024 * 1024
"""The budget of all samples."""
SAMPLE_BYTES: Final = 200
"""What one takes besides its numbers."""
NUMBER_BYTES: Final = 8
SAMPLES_KEPT: Final = 2
"""Of each object that anything is kept of: a rate needs so many."""
ROOM_MADE: Final = 0.1
"""Of the budget, when it is used up, so that this is not looked at for each sample."""

UNSEEN_S: Final = 60.0
"""How far apart the samples are of what is sampled always, while nobody looks: it may be a sum
over very many."""

OBJECTS_PER_TURN: Final = 100

NO_RATE: Final[Mapping[str, Any]] = {"rate": 0.0}
"""Of what does not grow: most of what there is."""

Counters = Mapping[str, int]
Read = Callable[[], Counters | None]
"""The counters of something now; None: it is gone."""


@dataclass(slots=True)
class Sample:
    """Counters, and from when to when they were so."""

    at_s: float
    until_s: float
    counters: "array[int]"


@dataclass(slots=True)
class _Tier:
    """Samples so far apart, oldest first."""

    step_s: float
    samples: deque[Sample]
    due_s: float = 0.0

    def take(self, now: float, counters: "array[int]") -> int:
        """A sample, unless there is one of this time: how many more there are."""
        if now < self.due_s:
            return 0
        self.due_s = now + self.step_s
        last = self.samples[-1] if self.samples else None
        if last is not None and last.counters == counters:
            last.until_s = now
            return 0
        is_full = len(self.samples) == self.samples.maxlen
        self.samples.append(Sample(now, now, counters))
        return 0 if is_full else 1


@dataclass(slots=True)
class History:
    """The samples of one object."""

    read: Read
    names: tuple[str, ...]
    looked_at_s: float
    tiers: tuple[_Tier, ...]
    rests_until_s: float = 0.0
    """Nobody looks at it: no sample is taken before."""
    changed_at_s: float | None = None
    """When its counters were last seen to have changed."""
    _last: "array[int]" = field(default_factory=lambda: array("q"))

    @property
    def sample_bytes(self) -> int:
        """What one sample takes."""
        return SAMPLE_BYTES + NUMBER_BYTES * len(self.names)

    def take(self, now: float, counters: Counters) -> int:
        """A sample; how many more there are."""
        numbers = array("q", counters.values())
        if self._last != numbers:
            self.changed_at_s = now if self._last else None
            self._last = numbers
        return sum(each.take(now, numbers) for each in self.tiers)

    def before(self, now: float) -> "tuple[float, array[int]] | None":
        """The newest counters that are a second old, or older, and when they were so."""
        for sample in reversed(self.tiers[0].samples):
            if sample.at_s <= now - FINE_S:
                return min(sample.until_s, now - FINE_S), sample.counters
        return None

    def drop_oldest(self) -> int:
        """Give half of the samples up, the older ones; how many went."""
        gone = 0
        for tier in self.tiers:
            for _ in range((len(tier.samples) - SAMPLES_KEPT + 1) // 2):
                tier.samples.popleft()
                gone += 1
        return gone


@dataclass(frozen=True, slots=True)
class Range:
    """For how long back, and how far apart, samples are wanted; in seconds."""

    age_s: int
    step_s: int


class Rates:
    """The samples of everything that somebody looks at.

    Invariant: ``bytes`` is what all samples take, and not above ``bytes_max`` unless each object
    has but two.
    """

    def __init__(
        self,
        clock: Callable[[], float] = trio.current_time,
        now_ms: Callable[[], int] = lambda: 0,
        bytes_max: int = HISTORY_BYTES,
    ) -> None:
        self._clock = clock
        self._now_ms = now_ms
        self._bytes_max = bytes_max
        self.bytes = 0
        self.growth = Growth(clock)
        self._histories: OrderedDict[Hashable, History] = OrderedDict()
        self._always: dict[Hashable, Callable[[], Awaitable[Counters]]] = {}

    def __repr__(self) -> str:
        return f"<Rates of {len(self._histories)} objects, {self.bytes} bytes>"

    def __len__(self) -> int:
        return len(self._histories)

    def always(self, key: Hashable, read: Callable[[], Awaitable[Counters]]) -> None:
        """Sample this from now on, and keep what it was for a day."""
        self._always[key] = read

    def details(
        self,
        key: Hashable,
        counters: Counters,
        read: Read,
        ranges: Mapping[str, Range] | Range | None = None,
    ) -> Mapping[str, Mapping[str, Any]]:
        """``rate`` of each counter, and what else is asked for by a range, of all counters or of
        each by name. ``read`` is for later samples."""
        now = self._clock()
        history = self._looked_at(key, counters, read, now)
        before = history.before(now)
        self._take(history, now, counters)
        details: dict[str, Mapping[str, Any]] = dict.fromkeys(counters, NO_RATE)
        if before is not None and before[1] != (numbers := array("q", counters.values())):
            span_s = now - before[0]
            for index, name in enumerate(counters):
                rate = (numbers[index] - before[1][index]) / span_s
                details[name] = {"rate": round(rate, 3)}
        if ranges:
            for index, name in enumerate(history.names):
                wanted = ranges if isinstance(ranges, Range) else ranges.get(name)
                if wanted is not None:
                    details[name] = {
                        **details[name], **self._samples(history, index, now, wanted),
                    }  # fmt: skip
        return details

    def idle_since_ms(self, key: Hashable) -> int | None:
        """When the counters of something were last seen to change, if that is more than a few
        seconds ago; None, too, if it was not seen."""
        history = self._histories.get(key)
        if history is None or history.changed_at_s is None:
            return None
        idle_s = self._clock() - history.changed_at_s
        return None if idle_s < COARSE_S else self._now_ms() - int(idle_s * 1000)

    def _looked_at(self, key: Hashable, counters: Counters, read: Read, now: float) -> History:
        history = self._histories.get(key)
        if history is None or history.names != tuple(counters):
            self._forget(key)
            more = OF_A_DAY if key in self._always else ()
            history = self._histories[key] = _history(read, tuple(counters), now, more)
        history.looked_at_s, history.read, history.rests_until_s = now, read, 0.0
        self._histories.move_to_end(key)
        return history

    def _take(self, history: History, now: float, counters: Counters) -> None:
        self.bytes += history.take(now, counters) * history.sample_bytes
        if self.bytes > self._bytes_max:
            self._keep_budget()

    def _keep_budget(self) -> None:
        """Give half up of what was not looked at for longest, and so on until there is some room;
        if that is not enough, all of it."""
        wanted = self._bytes_max * (1 - ROOM_MADE)
        for history in list(self._histories.values()):
            self.bytes -= history.drop_oldest() * history.sample_bytes
            if self.bytes <= wanted:
                return
        while self.bytes > wanted and len(self._histories) > 1:
            self._forget(next(iter(self._histories)))

    def _forget(self, key: Hashable) -> None:
        history = self._histories.pop(key, None)
        if history is not None:
            held = sum(len(each.samples) for each in history.tiers)
            self.bytes -= held * history.sample_bytes

    def _samples(self, history: History, index: int, now: float, wanted: Range) -> dict[str, Any]:
        now_ms = self._now_ms()
        newest_ms = now_ms // 1000 // wanted.step_s * wanted.step_s * 1000
        kept = sorted(
            (each for tier in history.tiers for each in tier.samples), key=lambda each: each.at_s
        )
        samples = []
        place = len(kept) - 1
        for back in range(0, wanted.age_s + 1, wanted.step_s):
            at_ms = newest_ms - back * 1000
            at_s = now - (now_ms - at_ms) / 1000
            while place >= 0 and kept[place].at_s > at_s:
                place -= 1
            count = kept[place].counters[index] if place >= 0 else 0
            samples.append({"sample": count, "timestamp": at_ms})
        counts = [each["sample"] for each in samples]
        span_s = (len(samples) - 1) * wanted.step_s
        return {
            "avg": sum(counts) / len(counts),
            "avg_rate": (counts[0] - counts[-1]) / span_s if span_s else 0.0,
            "samples": samples,
        }

    async def run(self) -> NoReturn:
        """Take samples, for ever."""
        while True:
            await trio.sleep(FINE_S)
            await self.sample()

    async def sample(self) -> None:
        """Take one of all that is looked at, and of what is sampled always."""
        for key, read_now in self._always.items():
            history = self._histories.get(key)
            if history is not None and self._clock() < history.rests_until_s:
                continue
            counters, now = await read_now(), self._clock()
            looked_at_s = -LOOKED_AT_S if history is None else history.looked_at_s
            history = self._looked_at(key, counters, _nothing, now)
            history.looked_at_s = looked_at_s
            if now - looked_at_s > LOOKED_AT_S:
                history.rests_until_s = now + UNSEEN_S
            self._take(history, now, counters)
        for number, key in enumerate(list(self._histories), 1):
            now = self._clock()
            found = self._histories.get(key)
            if found is not None and key not in self._always:
                read = found.read() if now - found.looked_at_s <= LOOKED_AT_S else None
                if read is None:
                    self._forget(key)
                else:
                    self._take(found, now, read)
            if number % OBJECTS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
        await self.growth.sample()


def _nothing() -> None:
    """What is sampled always is read by somebody else."""


def _history(
    read: Read, names: tuple[str, ...], now: float, more: Sequence[tuple[float, int]] = ()
) -> History:
    steps = ((FINE_S, FINE_SAMPLES), (COARSE_S, COARSE_SAMPLES), *more)
    tiers = tuple(_Tier(step_s, deque(maxlen=count)) for step_s, count in steps)
    return History(read, names, now, tiers)
