"""The flusher: writes out what many connections have gathered, once a turn of the event loop.

The rule: one commit may confirm publishes of fifty connections, and one dispatch may feed as
many consumers. Waking a task for each would cost more than the writes, so one task serves
them all, and each connection writes once for everything that the turn has brought it.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final

import outcome
import trio

from arneb_core.api.callbacks import call

FLUSHES_PER_TURN: Final = 128
"""One is a write to a socket, 10 µs: some 2 ms, then others have their turn."""

FLUSHES_PER_TURN_END: Final = 16
"""What the end of a connection's turn writes at once of what that turn has brought about: for a
pass more each would wait, and a turn is longer by .2 ms at the most."""


class Flusher:
    """Calls what was added, each once, after the tasks that are due now."""

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
        """How many will be called."""
        return len(self._flushes)

    def flush_few(self, count: int) -> None:
        """Call at once what was added since there were ``count``, if it is little."""
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
        # Not in run(): its frame would hold the last connections while it waits, with all that
        # they had in flight, though they are long closed.
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
