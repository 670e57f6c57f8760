"""Growth: how fast one counter of each of very many objects grows, for sorting by it.

The rule: counters in use are sampled each second, for all objects, in turns. Two samples of each
counter are kept, so a rate covers a second or two. Samples omit zeros.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import trio

COUNTERS_MAX: Final = 4
"""Counters sampled at the same time: with very many objects each takes some MiB."""

OBJECTS_PER_TURN: Final = 2000
LOOKED_AT_S: Final = 75.0
"""How long sampling continues after the last request: pollers come once or twice a minute."""

Read = Callable[[Any], int]


@dataclass(frozen=True, slots=True)
class _Sample:
    at_s: float
    counts: Mapping[Any, int]


@dataclass(slots=True)
class _Watched:
    """One counter, with its two samples, the newer last."""

    read: Read
    objects: Callable[[], Iterable[Any]]
    looked_at_s: float
    samples: list[_Sample] = field(default_factory=list)


class Growth:
    """The counters that lists are sorted by."""

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
        """Return a function from an object to the growth of its ``counter`` per second, which is 0
        until there is a sample. ``objects`` yields all objects for later samples."""
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
        """Sample all counters in use."""
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
