"""Long turns: how many of them there are in one pass of the event loop.

A turn takes a few milliseconds at the most, but a pass is one turn of every task that is ready, and
with a thousand busy connections it would last seconds. The rule: whoever is about to do as much as
a turn may asks first, and only as many begin in a pass as keep it short, going by how long the
passes before it took; the rest wait in the order in which they asked. Whoever has little to do does
not ask, and is served in every pass, until a thousand of them have: of short reads, too, a pass has
only so many bytes, and whoever comes later is the first in the next.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable
from time import perf_counter
from typing import Final

import outcome
import trio

PASS_S: Final = 0.02
"""What a pass may take before fewer turns begin in the next: a commit that is ready waits for it.
Shorter passes would cut what many publish together into more commits."""

LONG_TURNS_MIN: Final = 6
"""Long turns that may begin in any pass, however long the last: some 12 ms. Two doors have so many
each."""

LONG_TURNS_MAX: Final = 24
"""And that may begin where passes are short: some 50 ms, once, if all of them become as long as a
turn may be in the same pass."""

SHORT_READ_BYTES: Final = 4 * 1024
"""What a read of at most that brings is short work, some hundred microseconds, and does not ask."""

SHORT_READS_BYTES: Final = 64 * 1024
"""Of short reads together in one pass, with :data:`WAKING_BYTES` for each: some 8 ms, which are 180
single publishes. Inside a pass trio's order is none, so there may be twice as many in one."""

LARGE_READ_BYTES: Final = 64 * 1024
"""Who has read so much has others go first who read little: a pass of the loop is a tenth of the
time that it takes to handle."""

WAKING_BYTES: Final = 256
"""What it costs to read anything, in bytes that cost as much to handle."""

FIRST_READ_BYTES: Final = 16 * 1024
"""What is read of a client that sent less before, so that little waits in memory for its turn. Who
fills it asks before it is read, and is read in large pieces, until it sends little again."""


class LongTurns:
    """Gives out the long turns of one door's connections.

    Invariants: at most ``_allowed`` are given out between two turns of :meth:`run`, which is
    between :data:`LONG_TURNS_MIN` and :data:`LONG_TURNS_MAX`; ``_left`` is 0 while anybody waits,
    which nobody does before :meth:`run`; nor is ``short_left`` above 0 while a short read waits.
    """

    SHORT_LOW: Final = 3 * SHORT_READS_BYTES // 4
    """With so much left the next pass is looked for: soon enough that with some fifty connections
    nobody waits, and not for every read."""

    def __init__(self, seconds: Callable[[], float] = perf_counter) -> None:
        self._seconds = seconds
        self._allowed = LONG_TURNS_MIN
        self._left = sys.maxsize
        self._left_low = LONG_TURNS_MIN // 2
        """With so many left the next pass is looked for. Sooner it would cost whoever is alone."""
        self._pass_s = PASS_S
        """What the last one took; before the first nothing is known."""
        self._waiting: OrderedDict[trio.lowlevel.Task, int] = OrderedDict()
        self.short_left = sys.maxsize
        """What short reads of this pass have left. Whoever reads takes what it has read from it,
        and calls :meth:`begin_short` once :attr:`SHORT_LOW` is reached: most cost no call."""
        self.short_reads = 0
        """How many there were, in all."""
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
        """``size`` bytes of a short read, and the waking, have been taken from what is left of
        this pass, which is little by now; wait for another if it was nothing any more."""
        self._wake()
        if self.short_left < 0:
            await _wait(self._short_waiting, size + WAKING_BYTES)

    async def next(self) -> None:
        """One long turn is over; wait until another may begin, and others have had theirs."""
        await trio.lowlevel.checkpoint()
        await self.begin()

    async def run(self) -> None:
        """Give turns out, pass by pass, until cancelled."""
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
                continue  # how long this pass takes says nothing: fewer turns there cannot be
            await trio.lowlevel.checkpoint()
            ended = self._seconds()
            self._allow(ended - began)
            began = ended

    @property
    def _is_roomy(self) -> bool:
        """Nobody waits, nor will anybody soon."""
        if self._waiting or self._short_waiting:
            return False
        return self._left > self._left_low and self.short_left > self.SHORT_LOW

    def _give_short(self) -> None:
        """Wake as many of those with short reads as the next pass has room for."""
        waiting, left = self._short_waiting, SHORT_READS_BYTES
        while waiting and left > 0:
            task, size = waiting.popitem(last=False)
            left -= size
            trio.lowlevel.reschedule(task)
        self.short_left = 0 if waiting else left

    def _allow(self, pass_s: float) -> None:
        """A pass took so long: see how many turns may begin in the next."""
        # The mean of two: inside a pass trio's order is none, so that all turns of one pass may
        # come behind this one, and those of the next before it.
        pass_s, self._pass_s = (pass_s + self._pass_s) / 2, pass_s
        if pass_s > PASS_S:
            self._allowed = max(LONG_TURNS_MIN, int(self._allowed * PASS_S / pass_s))
        elif pass_s < PASS_S / 2 and self._waiting:
            self._allowed = min(LONG_TURNS_MAX, 2 * self._allowed)
        self._left_low = self._allowed // 2

    def _wake(self) -> None:
        """The next pass is looked for: a task that is woken has its turn in that one."""
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
