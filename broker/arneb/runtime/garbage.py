"""Garbage: when the interpreter looks for cycles that nobody refers to any more.

A full collection looks at every object there is, in one piece, and nobody has a turn meanwhile: a
quarter of a second for a million objects. The rule: what has survived one full collection is
frozen, so that the next one looks only at what came since, which is soon enough to take a few
milliseconds. What dies frozen is given up as soon as nobody refers to it; only cycles stay. So a
connection and its channels leave none behind, and the others (topics) are found by a thaw, one
collection of everything: when the loop has nothing else to do, or when so much must have died that
to keep it would be worse.
"""

import ctypes
import gc
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NoReturn

import trio

from arneb.settings.watermarks import memory_bytes

logger = logging.getLogger(__name__)

OBJECTS_EACH: Final = 2_500
"""Objects that have come and stayed until a collection of the youngest. Of the next two each looks
at one generation more, so that the third is a full one, which looks at some 7,500 objects, for 3 ms
in the mean. Each object that survives is looked at two times on the way, where the interpreter's
own thresholds (700, 10, 10) have it looked at three times, and 30,000 at once, for 37 ms: a crowd
of 500 who came at the same moment kept others waiting for a fifth less long when this changed."""

LOOK_S: Final = 5.0
"""Between two looks whether a thaw is worth while."""

IDLE_SHARE: Final = 0.02
"""The loop is idle if it took at most so much of a processor since the last look."""

OBJECTS_PER_TASK: Final = 10
"""What stays in cycles when a task has gone, which may have been a connection: trio's own."""

OBJECTS_PER_TOPIC: Final = 60
"""A topic and its subscription refer to each other."""

WORTH: Final = 2_000
"""A thaw of an idle loop is worth while when so many objects may have died frozen."""

WORTH_SHARE: Final = 0.02
"""And so many of those that there are, for it looks at all of these: a second with 100,000 queues.
"""

IDLE_AFTER_S: Final = 20.0
"""Between two thaws of an idle loop, for which the next request may have to wait."""

LOST_MAX: Final = 150_000
"""So many objects that may have died frozen, some 40 MiB, are too much for a busy loop too."""

GROWN: Final = 2
"""So is memory that is so many times as much as after the last thaw, and by :data:`GROWN_BYTES`, if
somebody has left: then what left was more than we think. What has come accounts for some of it."""

GROWN_BYTES: Final = 256 * 1024 * 1024

TOPIC_BYTES: Final = 16 * 1024
"""Of a topic that has come, with its subscription and what a frontend knows of it."""

BUSY_AFTER_S: Final = 60.0
"""Between two thaws because memory has grown."""

THAW_AFTER_S: Final = 600.0
"""An idle loop thaws after so long if anything was frozen, whether anybody has left or not: who
comes and goes between two looks is not seen."""

TIME_SHARE: Final = 0.02
"""How much of the time thaws may take."""

GIVE_BACKS: Final = 10
"""So often what is free is given back after somebody has left, once a look. The first time it is
most; what tasks hold that sleep stands where it was free when they fell asleep, alone in an arena
maybe, and only when they have woken somewhere else."""


@dataclass(frozen=True, slots=True)
class Living:
    """What there is, of which much else hangs."""

    tasks: int
    topics: int


class GarbageSchedule:
    """Collects, freezes and thaws.

    Invariant: ``_lost`` are the objects that may have died frozen since ``_thawed_at``.
    """

    def __init__(
        self,
        living: Callable[[], Living],
        clock: Callable[[], float] = time.monotonic,
        busy: Callable[[], float] = time.thread_time,
        memory: Callable[[], int] = memory_bytes,
    ) -> None:
        self._living = living
        self._clock = clock
        self._busy = busy
        self._memory = memory
        self._seen = Living(0, 0)
        self._looked_at, self._busy_s = clock(), busy()
        self._was_idle = True
        self._lost = 0
        self._thawed_at = clock()
        self._thaw_s = 0.0
        self._thawed_bytes, self._thawed_topics = memory(), 0
        self._frozen_since = False
        self._give_backs_left = 0
        self.thaws_total = 0

    def __repr__(self) -> str:
        return f"<GarbageSchedule {self.thaws_total} thaws, about {self._lost} objects lost>"

    async def run(self) -> NoReturn:
        """Keep to the schedule until cancelled.

        All that the start has made is frozen as it is; what of it was left in cycles is found by
        the first thaw. What is frozen stays so at the end: an orderly stop has no time to look at
        it all, and a process that ends need not. One that goes on calls :func:`thaw`."""
        before = gc.get_threshold()
        gc.set_threshold(OBJECTS_EACH, 0, 0)
        gc.enable()
        self._freeze()
        self._frozen_since = True
        gc.callbacks.append(self._collected)
        try:
            while True:
                await trio.sleep(LOOK_S)
                self.look()
                await self.give_back()
        finally:
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*before)

    def look(self) -> None:
        """Thaw if it is worth while."""
        living, seen = self._living(), self._seen
        self._seen = living
        left = max(0, seen.tasks - living.tasks), max(0, seen.topics - living.topics)
        self._lost += left[0] * OBJECTS_PER_TASK + left[1] * OBJECTS_PER_TOPIC
        is_idle = self._is_idle()
        if any(left) or (is_idle and not self._was_idle):
            self._give_backs_left = GIVE_BACKS
        self._was_idle = is_idle
        since_s = self._clock() - self._thawed_at
        if since_s < self._thaw_s / TIME_SHARE:
            return
        # Not while more are leaving: what they leave would be found only by the thaw after.
        if any(left) and self._lost <= 2 * LOST_MAX:
            return
        if is_idle:
            worth = max(WORTH, WORTH_SHARE * OBJECTS_PER_TOPIC * living.topics)
            is_worth = self._lost > worth and since_s >= IDLE_AFTER_S
            wanted = is_worth or (self._frozen_since and since_s >= THAW_AFTER_S)
        else:
            wanted = self._lost > LOST_MAX or (self._lost > 0 and self._has_grown(since_s, living))
        if wanted:
            self._thaw()

    async def give_back(self) -> None:
        """When somebody has left, or all have become quiet, return what that made free.

        The interpreter keeps some hundred objects of each of the most used kinds to make new ones
        of, wherever they stand: after 100,000 channels alone in 80 arenas of 1 MiB, which cannot
        be returned then. A full collection lets go of those, and it is a short one: nearly all is
        frozen."""
        left = self._give_backs_left
        if left == GIVE_BACKS or (left and self._was_idle):
            self._give_backs_left -= 1
            gc.collect()
            await trio.to_thread.run_sync(give_back)

    def _is_idle(self) -> bool:
        now, busy_s = self._clock(), self._busy()
        elapsed_s, taken_s = now - self._looked_at, busy_s - self._busy_s
        self._looked_at, self._busy_s = now, busy_s
        return taken_s <= IDLE_SHARE * elapsed_s

    def _has_grown(self, since_s: float, living: Living) -> bool:
        if since_s < BUSY_AFTER_S:
            return False
        came = TOPIC_BYTES * max(0, living.topics - self._thawed_topics)
        before = self._thawed_bytes
        return self._memory() - came > max(GROWN * before, before + GROWN_BYTES)

    def _thaw(self) -> None:
        began = self._clock()
        gc.unfreeze()
        found = gc.collect()
        self._freeze()
        self._thawed_at = self._clock()
        self._thaw_s = self._thawed_at - began
        self._thawed_bytes, self._thawed_topics = self._memory(), self._living().topics
        self._lost, self._frozen_since = 0, False
        if self.thaws_total:
            self._give_backs_left = GIVE_BACKS
        self.thaws_total += 1
        logger.debug("thawed %d objects in %.0f ms", found, self._thaw_s * 1000)

    def _freeze(self) -> None:
        gc.freeze()
        # Of nothing. The interpreter waits with a full collection until a quarter as many objects
        # have come as the last one has found, and that was everything.
        gc.collect()

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        """A collection begins or ends, in whichever thread had made too many objects."""
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
            self._frozen_since = True


@contextmanager
def starting() -> Iterator[None]:
    """No collections in a start, which makes objects that stay: with 50,000 queues two thirds of
    it would be looking at them. :class:`GarbageSchedule` begins with them, or the block's end."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def thaw() -> None:
    """Find what a broker that was stopped has left. Blocks for as long as that was large."""
    gc.unfreeze()
    gc.collect()
    give_back()


def give_back() -> None:
    """Have the C library return what it keeps for later; tens of MiB when many have left. Blocks
    for some milliseconds. Other libraries than glibc have no such function, and need none."""
    trim = getattr(_LIBC, "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


_LIBC: Final = ctypes.CDLL(None)
