"""Pace: how much of a port's work begins in one pass of the event loop.

The rule: many clients that send at the same time must not make a pass long, since every client of
the broker waits for it. Clients that have had the least come first: a new connection with a whole
request, then a known connection, then one with a part of a request.
"""

from enum import Enum
from typing import Final

import trio

UNITS_A_PASS: Final = 64
"""Units of work begun in one pass: some 5 ms."""


class Lane(Enum):
    """A kind of work. Lanes further up go first, but each has its share of every pass."""

    NEW = "new"
    """A connection's first request, completely received."""
    KNOWN = "known"
    """A later request of a connection."""
    PART = "part"
    """A part of a request."""
    COMING = "coming"
    """A new connection without a whole request. To accept it, perhaps closing another, is as much
    work as to answer a small request."""
    LONG = "long"
    """The next piece of a long answer."""


UNITS: Final = {Lane.NEW: 4, Lane.KNOWN: 4, Lane.PART: 1, Lane.COMING: 4, Lane.LONG: 0}
"""The cost of each kind of work, in units of some 80 µs."""

LEFT_FOR_OTHERS: Final = {Lane.NEW: 28, Lane.KNOWN: 16, Lane.PART: 8, Lane.COMING: 0}
"""Units of a pass that a lane leaves to those below it."""

LONG_EVERY: Final = 4
"""While other lanes wait, one pass in this many makes a piece of a long answer, which takes as long
as a dozen of their requests."""


class Pace:
    """Paces the work of one port.

    Invariant: waiting tasks are woken by :meth:`_next`, which runs once in each pass while work was
    begun in the last one or a task waits.
    """

    def __init__(self, units: int = UNITS_A_PASS) -> None:
        self._units = units
        self._left = units
        self._waiting: dict[Lane, dict[trio.lowlevel.Task, None]] = {each: {} for each in Lane}
        self._is_counting = False
        self._passes = 0

    def __repr__(self) -> str:
        waiting = ", ".join(f"{len(tasks)} {lane.value}" for lane, tasks in self._waiting.items())
        return f"<Pace {self._left}/{self._units} units left, waiting: {waiting}>"

    async def begin(self, lane: Lane) -> None:
        """Wait until work of this lane may begin; return at once, without a checkpoint, if there is
        little to do."""
        if self._left > 0 and not any(self._waiting.values()):
            self._left -= UNITS[lane]
            self._count()
            return
        task, tasks = trio.lowlevel.current_task(), self._waiting[lane]
        tasks[task] = None
        self._count()

        def abort(_: trio.lowlevel.RaiseCancelT) -> trio.lowlevel.Abort:
            del tasks[task]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    def _count(self) -> None:
        """Have :meth:`_next` run in the next pass."""
        if not self._is_counting:
            self._is_counting = True
            trio.lowlevel.current_trio_token().run_sync_soon(self._next)

    def _next(self) -> None:
        self._is_counting = False
        self._left = self._units
        for lane, left in LEFT_FOR_OTHERS.items():
            self._let_in(lane, left)
        for lane in LEFT_FOR_OTHERS:
            self._let_in(lane, 0)
        self._let_a_long_one_in()
        if self._left < self._units or self._waiting[Lane.LONG]:
            self._count()

    def _let_a_long_one_in(self) -> None:
        self._passes += 1
        tasks = self._waiting[Lane.LONG]
        others_wait = any(each for lane, each in self._waiting.items() if lane is not Lane.LONG)
        if tasks and (not others_wait or self._passes % LONG_EVERY == 0):
            self._wake(Lane.LONG, next(iter(tasks)))

    def _let_in(self, lane: Lane, left: int) -> None:
        tasks = self._waiting[lane]
        while tasks and self._left > left:
            self._wake(lane, next(iter(tasks)))

    def _wake(self, lane: Lane, task: trio.lowlevel.Task) -> None:
        del self._waiting[lane][task]
        self._left -= UNITS[lane]
        trio.lowlevel.reschedule(task)
