"""Garbage: when the interpreter looks for cycles that nobody refers to any more.

A full collection looks at every object there is, in one piece, and nobody has a turn meanwhile: a
third of a second for a million objects. The rule: what has survived one full collection is frozen,
so that the next one looks only at what came since, which is soon enough to be short. Cycles that
die frozen (a queue, a channel) are found by a thaw, one collection of everything; it comes when so
much has left that it is worth while, and never takes more than a small share of the time.
"""

import ctypes
import gc
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

import trio

logger = logging.getLogger(__name__)

FULL_EVERY: Final = 12
"""Collections of the middle generation until a full one: it looks at some ten thousand objects
then, and at a hundred thousand if nearly everything that is made survives."""

LOOK_S: Final = 5.0
"""Between two looks whether a thaw is worth while."""

WORTH_SHARE: Final = 0.05
"""A thaw is worth while when about so much of what is frozen may have died."""

OBJECTS_PER_TASK: Final = 1_000
"""What may have died with a task, which is a connection with its channels; rather too many, for a
thaw too few keeps memory and a thaw too many only costs time."""

OBJECTS_PER_TOPIC: Final = 100

GROWN: Final = 2
"""A thaw is worth while, too, when somebody has left and so many times as much is frozen as the
last thaw found alive: one connection may have had two thousand channels."""

AGAIN_AFTER_S: Final = 10.0
"""After such a thaw another one comes, for what was still being taken apart."""

THAW_AFTER_S: Final = 600.0
"""A thaw comes at the latest then, if anything was frozen since the last one: who comes and goes
between two looks is not seen."""

TIME_SHARE: Final = 0.02
"""How much of the time thaws may take."""


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
        self, living: Callable[[], Living], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._living = living
        self._clock = clock
        self._seen = Living(0, 0)
        self._lost = 0
        self._thawed_at = clock()
        self._thaw_s = 0.0
        self._frozen_since = False
        self._survived = 0
        """What the last thaw found alive; 0 = there was none yet."""
        self._left = False
        self._again = False
        self.thaws_total = 0

    def __repr__(self) -> str:
        return f"<GarbageSchedule {self.thaws_total} thaws, about {self._lost} objects lost>"

    async def run(self) -> NoReturn:
        """Keep to the schedule until cancelled."""
        before = gc.get_threshold()
        gc.set_threshold(before[0], before[1], FULL_EVERY)
        self._thaw()
        gc.callbacks.append(self._collected)
        try:
            while True:
                await trio.sleep(LOOK_S)
                self.look()
                await self.give_back()
        finally:
            gc.callbacks.remove(self._collected)
            gc.set_threshold(*before)
            gc.unfreeze()

    def look(self) -> None:
        """Thaw if it is worth while."""
        living, seen = self._living(), self._seen
        self._seen = living
        self._lost += max(0, seen.tasks - living.tasks) * OBJECTS_PER_TASK
        self._lost += max(0, seen.topics - living.topics) * OBJECTS_PER_TOPIC
        self._left = self._left or living.tasks < seen.tasks or living.topics < seen.topics
        since_s = self._clock() - self._thawed_at
        if since_s < self._thaw_s / TIME_SHARE:
            return
        is_due = self._frozen_since and since_s >= THAW_AFTER_S
        frozen = gc.get_freeze_count()
        # Not while more are leaving: what they leave would be found only by the thaw after.
        all_left = self._lost > 0 and living.tasks >= seen.tasks
        has_grown = all_left and 0 < GROWN * self._survived < frozen
        is_again = self._again and since_s >= AGAIN_AFTER_S
        if is_due or has_grown or is_again or self._lost > WORTH_SHARE * frozen:
            self._thaw()
            self._again = has_grown

    async def give_back(self) -> None:
        """When somebody has left, return what that made free."""
        if self._left:
            self._left = False
            await trio.to_thread.run_sync(give_back)

    def _thaw(self) -> None:
        began = self._clock()
        gc.unfreeze()
        found = gc.collect()
        gc.freeze()
        self._thawed_at = self._clock()
        self._thaw_s = self._thawed_at - began
        self._lost, self._frozen_since = 0, False
        self._survived = gc.get_freeze_count()
        self._left = self._left or self.thaws_total > 0
        self.thaws_total += 1
        logger.debug("thawed %d objects in %.0f ms", found, self._thaw_s * 1000)

    def _collected(self, phase: str, info: Mapping[str, int]) -> None:
        """A collection begins or ends, in whichever thread had made too many objects."""
        if phase == "stop" and info["generation"] == 2:
            gc.freeze()
            self._frozen_since = True


def give_back() -> None:
    """Have the C library return what it keeps for later; tens of MiB when many have left. Blocks
    for some milliseconds. Other libraries than glibc have no such function, and need none."""
    trim = getattr(_LIBC, "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


_LIBC: Final = ctypes.CDLL(None)
