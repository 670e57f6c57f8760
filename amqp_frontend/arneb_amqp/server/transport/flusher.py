"""The flusher: writes the output of many connections, once a turn of the event loop.

The rule: one commit may confirm publishes of fifty connections, and one dispatch may feed as many
consumers. Waking a task for each would cost more than the writes, so one task serves them all, and
each connection writes once for everything in the turn.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

import outcome
import trio

from arneb_core.api.process.callbacks import call

FLUSHES_PER_TURN: Final = 128
"""Flushes in one turn, each a socket write of 10 µs: some 2 ms, then others have their turn."""

FLUSHES_PER_TURN_END: Final = 16
"""Flushes that the end of a connection's turn makes at once: each would otherwise wait for another
pass, and they lengthen a turn by .2 ms at most."""


class Flusher:
    """Calls each added function once, after the tasks that are due now."""

    def __init__(self) -> None:
        self._flushes: dict[Callable[[], None], None] = {}
        self._parked: trio.lowlevel.Task | None = None

    def __repr__(self) -> str:
        return f"<Flusher {len(self._flushes)} to flush>"

    def add(self, flush: Callable[[], None]) -> None:
        """Have ``flush`` called soon."""
        self._flushes[flush] = None
        if self._parked is not None:
            task, self._parked = self._parked, None
            trio.lowlevel.reschedule(task, outcome.Value(None))

    @property
    def count(self) -> int:
        """The number of flushes to be called."""
        return len(self._flushes)

    def flush_few(self, count: int) -> None:
        """Call at once the flushes added since there were ``count``, if they are few."""
        flushes = self._flushes
        if 0 < len(flushes) - count <= FLUSHES_PER_TURN_END:
            for flush in list(islice(flushes, count, None)):
                del flushes[flush]
                call(flush)

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            if not self._flushes:
                self._parked = trio.lowlevel.current_task()
                await trio.lowlevel.wait_task_rescheduled(self._abort)
            self._flush()
            if self._flushes:
                await trio.lowlevel.checkpoint()

    def _flush(self) -> None:
        # Not in run(): its frame would keep the last connections, with all they had in flight,
        # while it waits, though they are long closed.
        flushes = self._flushes
        if len(flushes) <= FLUSHES_PER_TURN:
            self._flushes = {}
        else:
            flushes = dict.fromkeys(islice(flushes, FLUSHES_PER_TURN))
            for flush in flushes:
                del self._flushes[flush]
        for flush in flushes:
            call(flush)

    def _abort(self, _: object) -> trio.lowlevel.Abort:
        self._parked = None
        return trio.lowlevel.Abort.SUCCEEDED
