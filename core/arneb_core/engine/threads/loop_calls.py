"""Loop calls: functions that other threads have called in the event loop.

The rule: calls are made soon, in the order in which threads asked for them, and never once the
engine is closed. Every commit ends with one, so this is a pipe that one task reads and that is
written to once for all calls until the task looks. Trio's ``run_sync_soon`` can do more (calls from
signal handlers, and without a task), but costs 40 % more from a thread into the loop.
"""

import os
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVarTuple

import trio

Args = TypeVarTuple("Args")

RING_BYTES: Final = 64
"""Bytes read at once; there is rarely more than one."""


class LoopCalls:
    """The calls that wait (:class:`arneb_core.store.commit.local.InLoop`).

    Invariant: while a call waits, ``_rung`` is set and a byte is in the pipe or just read, or
    a thread is about to see to that.
    """

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._rung = False
        self.waits_for_others: Callable[[], bool] = lambda: False
        """Whether tasks with less to do run before calls are made."""
        self._reader, self._bell = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._bell, False)

    def __repr__(self) -> str:
        return f"<LoopCalls, {len(self._calls)} waiting>"

    def __call__(self, function: Callable[[*Args], object], *args: *Args) -> None:
        """Have ``function`` called in the loop. May be called from any thread."""
        self._calls.append((function, args))
        # Two threads may both ring, which costs a byte. Neither may rely on the other to ring.
        if not self._rung:
            self._rung = True
            os.write(self._bell, b"\0")

    async def run(self) -> NoReturn:
        """Make the calls until cancelled. An exception in a call ends this, and the other calls
        wait until it is run again."""
        while True:
            self._make()
            await trio.lowlevel.wait_readable(self._reader)
            os.read(self._reader, RING_BYTES)
            self._rung = False
            if self.waits_for_others():
                await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Make no more calls, whoever asks for one. No thread may be asking at this moment."""
        self._rung = True  # so that nobody writes to what may be another file by then
        os.close(self._reader)
        os.close(self._bell)

    def _make(self) -> None:
        # Not in run(): its frame would keep the last call, and all that it committed, alive while
        # it waits for the next.
        calls = self._calls
        while calls:
            function, args = calls.popleft()
            function(*args)
