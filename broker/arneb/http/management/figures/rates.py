"""Rates: how fast counters grow, and their history.

The rule: a rate is the difference of two samples at least a second apart, the later one taken now.
Objects that somebody looks at are sampled each second. All samples, and what else is kept of their
objects, share a budget; beyond it the oldest samples of the least recently viewed objects are
dropped first, all but the last two.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import trio

from arneb.http.management.figures.growth import LOOKED_AT_S, Growth
from arneb.http.management.figures.samples import (
    COARSE_S,
    FINE_S,
    OF_A_DAY,
    STEPS,
    Counters,
    History,
    Kept,
    Read,
)

HISTORY_BYTES: Final = 64 * 1024 * 1024
"""The budget for all samples."""
ROOM_MADE: Final = 0.1
"""The share of the budget that is freed when it is used up, so that not every sample has to free
some."""

UNSEEN_S: Final = 60.0
"""The interval of permanent samples while nobody looks: one may be a sum over very many objects."""

OBJECTS_PER_TURN: Final = 100

PAUSE_FACTOR: Final = 20
"""A round of samples that took a second is followed by a pause of twenty: sampling very many
objects each second would take most of the broker's time."""

NO_RATE: Final[Mapping[str, Any]] = {"rate": 0.0}
"""Of counters that do not grow, which are most; shared."""


@dataclass(frozen=True, slots=True)
class Range:
    """How far back, and how far apart, samples are wanted; in seconds."""

    age_s: int
    step_s: int


class Rates:
    """The samples of all objects that somebody looks at.

    Invariant: ``bytes`` is the size of all samples, and above ``bytes_max`` only if each object has
    just two.
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
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}
        """Names of counters, shared by all objects that have the same."""
        self._always: dict[Hashable, Callable[[], Awaitable[Counters]]] = {}

    def __repr__(self) -> str:
        return f"<Rates of {len(self._histories)} objects, {self.bytes} bytes>"

    def __len__(self) -> int:
        return len(self._histories)

    def histories(self) -> Iterable[History]:
        """The histories of all objects that somebody looks at."""
        return self._histories.values()

    def always(self, key: Hashable, read: Callable[[], Awaitable[Counters]]) -> None:
        """Sample this permanently from now on, and keep a day's history."""
        self._always[key] = read

    def details(
        self,
        key: Hashable,
        counters: Counters,
        read: Read,
        ranges: Mapping[str, Range] | Range | None = None,
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return the ``rate`` of each counter, with samples and averages over ``ranges``: one range
        for all counters, or one for each by name. ``read`` takes later samples."""
        now = self._clock()
        history = self._looked_at(key, counters, read, now)
        before = history.before(now)
        self._take(history, now, counters)
        details: dict[str, Mapping[str, Any]] = dict.fromkeys(counters, NO_RATE)
        if before is not None:
            span_s = now - before[0]
            for (name, number), old in zip(counters.items(), before[1], strict=True):
                if number != old:
                    details[name] = {"rate": round((number - old) / span_s, 3)}
        if ranges:
            for index, name in enumerate(history.names):
                wanted = ranges if isinstance(ranges, Range) else ranges.get(name)
                if wanted is not None:
                    details[name] = {
                        **details[name], **self._samples(history, index, now, wanted),
                    }  # fmt: skip
        return details

    def unchanged(self, key: Hashable, numbers: tuple[int, ...]) -> Kept | None:
        """Return what was kept of an object if its counters are still these, and have been for so
        long that all its rates are 0."""
        history, now = self._histories.get(key), self._clock()
        kept = None if history is None else history.unchanged(now, numbers)
        if history is None or kept is None:
            return None
        history.looked_at_s = now
        self._histories.move_to_end(key)
        return kept

    def keep(self, key: Hashable, numbers: tuple[int, ...], kept: Kept) -> None:
        """Keep what was made of an object, if the next viewer can use it."""
        history = self._histories.get(key)
        if history is not None and history.rests_with(self._clock(), numbers):
            before = history.bytes
            history.keep(kept)
            self._resized(history, before)

    def idle_since_ms(self, key: Hashable) -> int | None:
        """Return when an object's counters were last seen to change; None if that is only a few
        seconds ago or was never seen."""
        history = self._histories.get(key)
        if history is None or history.changed_at_s is None:
            return None
        idle_s = self._clock() - history.changed_at_s
        return None if idle_s < COARSE_S else self._now_ms() - int(idle_s * 1000)

    def _looked_at(self, key: Hashable, counters: Counters, read: Read, now: float) -> History:
        history = self._histories.get(key)
        names = tuple(counters)
        if history is None or history.names != names:
            self._forget(key)
            steps = (*STEPS, *OF_A_DAY) if key in self._always else STEPS
            names = self._names.setdefault(names, names)
            history = self._histories[key] = History(read, counters, now, names, steps)
            self.bytes += history.bytes
        history.looked_at_s, history.read, history.rests_until_s = now, read, 0.0
        self._histories.move_to_end(key)
        return history

    def _take(self, history: History, now: float, counters: Counters) -> None:
        before = history.bytes
        history.take(now, counters)
        self._resized(history, before)

    def _resized(self, history: History, before: int) -> None:
        self.bytes += history.bytes - before
        if self.bytes > self._bytes_max:
            self._keep_budget()

    def _keep_budget(self) -> None:
        """Drop half of the samples of each object, least recently viewed first, until there is
        room; if that is not enough, drop whole objects."""
        wanted = self._bytes_max * (1 - ROOM_MADE)
        for history in list(self._histories.values()):
            before = history.bytes
            history.drop_oldest()
            self.bytes += history.bytes - before
            if self.bytes <= wanted:
                return
        while self.bytes > wanted and len(self._histories) > 1:
            self._forget(next(iter(self._histories)))

    def _forget(self, key: Hashable) -> None:
        history = self._histories.pop(key, None)
        if history is not None:
            self.bytes -= history.bytes

    def _samples(self, history: History, index: int, now: float, wanted: Range) -> dict[str, Any]:
        now_ms = self._now_ms()
        newest_ms = now_ms // 1000 // wanted.step_s * wanted.step_s * 1000
        kept = history.samples
        samples = []
        at = len(kept) - 1
        for back in range(0, wanted.age_s + 1, wanted.step_s):
            at_ms = newest_ms - back * 1000
            at_s = now - (now_ms - at_ms) / 1000
            while at >= 0 and kept[at].at_s > at_s:
                at -= 1
            count = kept[at].counters[index] if at >= 0 else 0
            samples.append({"sample": count, "timestamp": at_ms})
        counts = [each["sample"] for each in samples]
        span_s = (len(samples) - 1) * wanted.step_s
        return {
            "avg": sum(counts) / len(counts),
            "avg_rate": (counts[0] - counts[-1]) / span_s if span_s else 0.0,
            "samples": samples,
        }

    async def run(self) -> NoReturn:
        """Take samples for ever."""
        took_s = 0.0
        while True:
            await trio.sleep(max(FINE_S, PAUSE_FACTOR * took_s))
            began = self._clock()
            await self.sample()
            took_s = self._clock() - began

    async def sample(self) -> None:
        """Sample all objects that somebody looks at, and the permanent ones."""
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
    """Permanent samples are read by their own functions."""
