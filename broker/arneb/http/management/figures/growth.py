"""Growth: how fast one counter grows of each of very many objects, for whoever sorts by it.

The rule: what is looked at is sampled each second, whole and in turns; of each counter two samples
are kept, so that a rate is over a second or two. Samples hold what is not 0.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import trio

COUNTERS_MAX: Final = 4
"""Counters that are sampled at once: each takes some MiB with very many objects."""

OBJECTS_PER_TURN: Final = 2000
LOOKED_AT_S: Final = 75.0
"""Samples are taken for so long after somebody looked: pollers come each minute, some twice."""

Read = Callable[[Any], int]


@dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    counts: Mapping[Any, int]


@dataclass(slots=True)
class _Watched:
    """One counter; the newer of its two samples comes last."""

    read: Read
    objects: Callable[[], Iterable[Any]]
    looked_at_s: float
    samples: list[_Sample] = field(default_factory=list)


class Growth:
    """The counters that somebody sorts by."""

    def __init__(
        self,
        clock: Callable[[], float] = trio.current_time,
        pause: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._watched: OrderedDict[str, _Watched] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Growth of {', '.join(self._watched) or 'nothing'}>"

    def rate_of(
        self, counter: str, read: Read, objects: Callable[[], Iterable[Any]]
    ) -> Callable[[Any], float]:
        """What says how fast ``counter`` grows of an object, in a second; 0 as long as there is no
        sample. ``objects``: all of them, for later samples."""
        now = self._clock()
        watched = self._watched.get(counter)
        if watched is None:
            watched = self._watched[counter] = _Watched(read, objects, now)
        watched.looked_at_s = now
        self._watched.move_to_end(counter)
        if len(self._watched) > COUNTERS_MAX:
            self._watched.popitem(last=False)
        if not watched.samples or watched.samples[0].at_s >= now:
            return lambda _: 0.0
        before, span_s = watched.samples[0].counts, now - watched.samples[0].at_s
        return lambda each: (read(each) - before.get(each, 0)) / span_s

    async def sample(self) -> None:
        """Take one of all that is looked at."""
        for counter, watched in list(self._watched.items()):
            if self._clock() - watched.looked_at_s > LOOKED_AT_S:
                del self._watched[counter]
                continue
            watched.samples = [*watched.samples[-1:], await self._sample(watched)]

    async def _sample(self, watched: _Watched) -> _Sample:
        now, read = self._clock(), watched.read
        counts: dict[Any, int] = {}
        objects = iter(watched.objects())
        while piece := list(islice(objects, OBJECTS_PER_TURN)):
            counts.update((each, count) for each in piece if (count := read(each)))
            await self._pause()
        return _Sample(now, counts)
