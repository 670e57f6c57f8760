"""Long turns: how many of them there are in one pass of the event loop.

A turn takes a few milliseconds at the most, but a pass is one turn of every task that is ready, and
with a thousand busy connections it would last seconds. The rule: whoever is about to do as much as
a turn may asks first, and only so many begin in a pass; the rest wait in the order in which they
asked. Whoever has little to do does not ask, and is served in every pass.
"""

import sys
from collections import OrderedDict
from typing import Final

import outcome
import trio

LONG_TURNS_MAX: Final = 6
"""Long turns that begin in one pass: some 12 ms. Two doors have so many each."""

LONG_TURNS_LEFT_LOW: Final = LONG_TURNS_MAX // 2
"""With so many left the next pass is looked for. Sooner it would cost whoever is alone."""

SHORT_READ_BYTES: Final = 4 * 1024
"""What a read of at most that brings is short work, some hundred microseconds, and does not ask."""

FIRST_READ_BYTES: Final = 16 * 1024
"""What is read of a client that sent less before, so that little waits in memory for its turn. Who
fills it asks before it is read, and is read in large pieces, until it sends little again."""


class LongTurns:
    """Gives out the long turns of one door's connections.

    Invariants: at most :data:`LONG_TURNS_MAX` are given out between two turns of :meth:`run`;
    ``_left`` is 0 while anybody waits, which nobody does before :meth:`run`.
    """

    def __init__(self) -> None:
        self._left = sys.maxsize
        self._waiting: OrderedDict[trio.lowlevel.Task, None] = OrderedDict()
        self._parked: trio.lowlevel.Task | None = None

    def __repr__(self) -> str:
        return f"<LongTurns, {self._left} left, {len(self._waiting)} waiting>"

    async def begin(self) -> None:
        """Wait until a long turn may begin; often that is now, without a checkpoint."""
        if self._left > 0:
            self._left -= 1
            if self._left <= LONG_TURNS_LEFT_LOW:
                self._wake()
            return
        self._wake()
        task = trio.lowlevel.current_task()
        self._waiting[task] = None

        def abort(_: object) -> trio.lowlevel.Abort:
            del self._waiting[task]
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)

    async def next(self) -> None:
        """One long turn is over; wait until another may begin, and others have had theirs."""
        await trio.lowlevel.checkpoint()
        await self.begin()

    async def run(self) -> None:
        """Give turns out, pass by pass, until cancelled."""
        self._left = 0 if self._waiting else LONG_TURNS_MAX
        while True:
            if not self._waiting and self._left > LONG_TURNS_LEFT_LOW:
                self._parked = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort)
            given = min(len(self._waiting), LONG_TURNS_MAX)
            for _ in range(given):
                task, _none = self._waiting.popitem(last=False)
                trio.lowlevel.reschedule(task)
            self._left = LONG_TURNS_MAX - given
            await trio.lowlevel.checkpoint()

    def _wake(self) -> None:
        """The next pass is looked for: a task that is woken has its turn in that one."""
        if self._parked is not None:
            task, self._parked = self._parked, None
            trio.lowlevel.reschedule(task, outcome.Value(None))

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED
