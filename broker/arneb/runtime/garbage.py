"""Garbage: when the interpreter collects unreachable cycles.

A full collection visits every object without a pause, and no task runs meanwhile: a quarter of a
second for a million objects. The rule: objects that have survived one full collection are frozen,
so that the next one visits only newer objects, and is done often enough to take a few milliseconds.
A frozen object is still freed when its last reference goes; only cycles stay. So connections and
their channels leave no cycles, and those of others (topics) are found by a thaw, one collection of
everything: when the loop is idle, or when so much must have died that keeping it would be worse.
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
"""Net new objects that start a collection of the youngest generation. The next two collections each
visit one generation more, so that the third is a full one, of some 7,500 objects, which takes 3 ms
in the mean. A surviving object is visited twice. With the interpreter's thresholds (700, 10, 10) it
was visited three times, 30,000 objects at once for 37 ms; when 500 clients connected at the same
moment, others now wait for a fifth less long."""

CHECK_INTERVAL_S: Final = 5.0
"""The time between two checks whether a thaw is worthwhile."""

IDLE_SHARE: Final = 0.02
"""The loop is idle if it used at most this share of a CPU since the last check."""

OBJECTS_PER_TASK: Final = 10
"""Estimated objects in cycles that a finished task, maybe a connection, leaves: trio's own."""

OBJECTS_PER_TOPIC: Final = 60
"""Estimated objects in cycles that a deleted topic leaves: it and its subscription refer to each
other."""

WORTH: Final = 2_000
"""An idle loop thaws when at least this many objects may have died frozen."""

WORTH_SHARE: Final = 0.02
"""And at least this share of all objects, since a thaw visits all: a second with 100,000 queues."""

IDLE_AFTER_S: Final = 20.0
"""The time between two thaws of an idle loop; the next request may have to wait for one."""

LOST_MAX: Final = 150_000
"""With this many objects that may have died frozen, some 40 MiB, a busy loop thaws too."""

GROWN: Final = 2
"""A busy loop also thaws when memory is this many times what it was after the last thaw, and has
grown by :data:`GROWN_BYTES`, if tasks or topics have gone: then more has died than estimated. The
growth that new topics account for is not counted."""

GROWN_BYTES: Final = 256 * 1024 * 1024

TOPIC_BYTES: Final = 16 * 1024
"""Memory of a new topic, with its subscription and its frontend's objects."""

BUSY_AFTER_S: Final = 60.0
"""The time between two thaws because memory has grown."""

THAW_AFTER_S: Final = 600.0
"""An idle loop thaws after this time if anything was frozen, even if nothing seems to have gone:
tasks that begin and end between two checks are not seen."""

TIME_SHARE: Final = 0.02
"""The largest share of time that thaws may take."""

GIVE_BACKS: Final = 10
"""How many times free memory is returned after tasks or topics have gone, once a check. The first
time returns most. The memory of sleeping tasks may keep whole arenas until the tasks have woken and
their objects have moved elsewhere."""


@dataclass(frozen=True, slots=True)
class Living:
    """The objects that hold most others: tasks and topics, counted."""

    tasks: int
    topics: int


class GarbageSchedule:
    """Decides when to collect, freeze and thaw.

    Invariant: ``_lost`` is how many objects may have died frozen since ``_thawed_at``.
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

        All objects of the start are frozen as they are; the first thaw finds the cycles among them.
        Frozen objects stay frozen at the end: an orderly stop has no time to visit them all, and a
        process that ends need not. A process that continues calls :func:`thaw`."""
        before = gc.get_threshold()
        gc.set_threshold(OBJECTS_EACH, 0, 0)
        gc.enable()
        self._freeze()
        self._frozen_since = True
        gc.callbacks.append(self._collected)
        try:
            while True:
                await trio.sleep(CHECK_INTERVAL_S)
                self.look()
                await self.give_back()
        finally:
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*before)

    def look(self) -> None:
        """Thaw if it is worthwhile."""
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
        # Not while more are going: only the next thaw would find their cycles.
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
        """Return free memory after tasks or topics have gone, or when the loop has become idle.

        The interpreter keeps some hundred freed objects of each common type for reuse, wherever
        they lie: after 100,000 channels, they were alone in 80 arenas of 1 MiB, which cannot be
        returned then. A full collection frees them, and is short, since nearly all is frozen."""
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
        # Collect nothing. The interpreter delays a full collection until the new objects are a
        # quarter of those that the last one found, and the last one visited everything.
        gc.collect()

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        """Note that a collection begins or ends, in whichever thread made too many objects."""
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
            self._frozen_since = True


@contextmanager
def starting() -> Iterator[None]:
    """Turn collections off during a start, whose objects stay: with 50,000 queues they would take
    two thirds of it. :class:`GarbageSchedule` turns them on again, or the end of the block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def thaw() -> None:
    """Free the objects of a stopped broker. Blocks for longer the larger it was."""
    gc.unfreeze()
    gc.collect()
    give_back()


def give_back() -> None:
    """Have the C library return memory that it keeps for reuse: tens of MiB after many clients have
    gone. Blocks for some milliseconds. C libraries other than glibc lack the function, and need
    none."""
    trim = getattr(_LIBC, "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


_LIBC: Final = ctypes.CDLL(None)
