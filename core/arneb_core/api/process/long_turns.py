"""Long turns: limits how many of them there are in one pass of the event loop.

A turn takes a few milliseconds at most, but a pass is one turn of every task that is ready, and
with a thousand busy connections it would last seconds. The rule: a connection about to do as much
as a turn may asks first, and only as many begin in a pass as keep it short, judging by the passes
before; the rest wait in the order of asking. Connections with little to do do not ask, and are
served in every pass, unless there are a thousand of them: short reads, too, have a bound of bytes
per pass, and those beyond it come first in the next.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable
from time import perf_counter
from typing import Final

import outcome
import trio

PASS_S: Final = 0.02
"""Length of a pass beyond which fewer turns begin in the next: a commit that is ready waits for it.
Shorter passes would split what many publish together into more commits."""

LONG_TURNS_MIN: Final = 6
"""Long turns that may begin in any pass, however long the last one: some 12 ms. Two frontends have
as many each."""

LONG_TURNS_MAX: Final = 24
"""Long turns that may begin when passes are short: some 50 ms, once, if all of them become as long
as a turn may be in the same pass."""

SHORT_READ_BYTES: Final = 4 * 1024
"""A read of at most this is short work, some hundred microseconds, and does not ask."""

SHORT_READS_BYTES: Final = 64 * 1024
"""Bytes of short reads in one pass, with :data:`WAKING_BYTES` for each: some 8 ms, or 180 single
publishes. Trio's order within a pass is arbitrary, so one pass may see twice as many."""

LARGE_READ_BYTES: Final = 64 * 1024
"""After reading this much, a connection lets those with short reads go first: a pass of the loop
takes a tenth of the time that handling it takes."""

WAKING_BYTES: Final = 256
"""The fixed cost of a read, in bytes that cost as much to handle."""

FIRST_READ_BYTES: Final = 16 * 1024
"""Bytes read from a client that sent less before, so that little waits in memory. A client that
fills it asks before the next read, and is read in large pieces until it sends little again."""


class LongTurns:
    """Grants the long turns of one frontend's connections.

    Invariants: at most ``_allowed`` turns, which is between :data:`LONG_TURNS_MIN` and
    :data:`LONG_TURNS_MAX`, are granted between two turns of :meth:`run`. ``_left`` is 0 while a
    task waits, and none does before :meth:`run`; ``short_left`` is not above 0 while a short read
    waits.
    """

    SHORT_LOW: Final = 3 * SHORT_READS_BYTES // 4
    """With this much left, :meth:`run` is woken for the next pass: early enough that with some
    fifty connections none has to wait, and not for every read."""

    def __init__(self, seconds: Callable[[], float] = perf_counter) -> None:
        self._seconds = seconds
        self._allowed = LONG_TURNS_MIN
        self._left = sys.maxsize
        self._left_low = LONG_TURNS_MIN // 2
        """With this many left, :meth:`run` is woken. Earlier would cost a lone connection."""
        self._pass_s = PASS_S
        """How long the last pass took; before the first, nothing is known."""
        self._waiting: OrderedDict[trio.lowlevel.Task, int] = OrderedDict()
        self.short_left = sys.maxsize
        """Bytes left for short reads in this pass. Readers subtract what they read, and call
        :meth:`begin_short` only once :attr:`SHORT_LOW` is reached: most reads cost no call."""
        self.short_reads = 0
        """How many short reads there were in all."""
        self._short_waiting: OrderedDict[trio.lowlevel.Task, int] = OrderedDict()
        self._parked: trio.lowlevel.Task | None = None

    def __repr__(self) -> str:
        waiting = f"{len(self._waiting)} and {len(self._short_waiting)} short waiting"
        return f"<LongTurns, {self._left} of {self._allowed} left, {waiting}>"

    async def begin(self) -> None:
        """Wait until a long turn may begin; often that is now, without a checkpoint."""
        if self._left > 0:
            self._left -= 1
            if self._left <= self._left_low:
                self._wake()
            return
        self._wake()
        await _wait(self._waiting, 1)

    async def begin_short(self, size: int) -> None:
        """Wait for another pass if this one has nothing left for short reads. ``size`` bytes and
        the waking have already been subtracted."""
        self._wake()
        if self.short_left < 0:
            await _wait(self._short_waiting, size + WAKING_BYTES)

    async def next(self) -> None:
        """End one long turn, and wait until another may begin, with others having had theirs."""
        await trio.lowlevel.checkpoint()
        await self.begin()

    async def run(self) -> None:
        """Grant turns, pass by pass, until cancelled."""
        self._left = 0 if self._waiting else self._allowed
        self.short_left = 0 if self._short_waiting else SHORT_READS_BYTES
        began = self._seconds()
        while True:
            if self._is_roomy:
                self._parked = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort)
                began = self._seconds()
                self._pass_s = PASS_S
            given = min(len(self._waiting), self._allowed)
            for _ in range(given):
                task, _none = self._waiting.popitem(last=False)
                trio.lowlevel.reschedule(task)
            self._left = self._allowed - given
            self._give_short()
            if not (given or self._short_waiting) and self._allowed == LONG_TURNS_MIN:
                continue  # the length of this pass says nothing: there cannot be fewer turns
            await trio.lowlevel.checkpoint()
            ended = self._seconds()
            self._allow(ended - began)
            began = ended

    @property
    def _is_roomy(self) -> bool:
        """Whether nobody waits, nor will soon."""
        if self._waiting or self._short_waiting:
            return False
        return self._left > self._left_low and self.short_left > self.SHORT_LOW

    def _give_short(self) -> None:
        """Wake as many waiting short reads as the next pass has room for."""
        waiting, left = self._short_waiting, SHORT_READS_BYTES
        while waiting and left > 0:
            task, size = waiting.popitem(last=False)
            left -= size
            trio.lowlevel.reschedule(task)
        self.short_left = 0 if waiting else left

    def _allow(self, pass_s: float) -> None:
        """Set how many turns may begin in the next pass, after one that took ``pass_s``."""
        # The mean of two: trio's order within a pass is arbitrary, so all turns of one pass may
        # come behind this task, and those of the next before it.
        pass_s, self._pass_s = (pass_s + self._pass_s) / 2, pass_s
        if pass_s > PASS_S:
            self._allowed = max(LONG_TURNS_MIN, int(self._allowed * PASS_S / pass_s))
        elif pass_s < PASS_S / 2 and self._waiting:
            self._allowed = min(LONG_TURNS_MAX, 2 * self._allowed)
        self._left_low = self._allowed // 2

    def _wake(self) -> None:
        """Wake :meth:`run`, which then has its turn in the next pass."""
        if self._parked is not None:
            task, self._parked = self._parked, None
            trio.lowlevel.reschedule(task, outcome.Value(None))

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED


async def _wait(waiting: OrderedDict[trio.lowlevel.Task, int], size: int) -> None:
    """Wait in ``waiting`` until :meth:`LongTurns.run` takes the task out."""
    task = trio.lowlevel.current_task()
    waiting[task] = size

    def abort(_: object) -> trio.lowlevel.Abort:
        del waiting[task]
        return trio.lowlevel.Abort.SUCCEEDED

    await trio.lowlevel.wait_task_rescheduled(abort)
