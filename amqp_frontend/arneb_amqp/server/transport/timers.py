"""Timers: heartbeats and deadlines of all connections, served by one task.

The rule: a timer is checked when it was due, not when it changed. Traffic postpones a connection's
timer all the time without notice; at the old time the connection says when to check again. So
traffic costs nothing here, and an idle connection costs a few calls a minute. Only a timer that
comes nearer has to be added again.
"""

from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol

import trio

from arneb_core.api.process.callbacks import call
from arneb_core.api.process.clock import wall_clock_ms

GRAIN_S: Final = 0.05
"""The shortest interval between checks of a timer; the shortest heartbeat is sent every half
second."""

LATE_S: Final = 1.0
"""A timer is this late only if the whole process was held up: the machine slept, a debugger or
SIGSTOP stopped it, a disk delayed a flush."""

GRACE_S: Final = 2.0
"""How long after that peers' input is read before any peer is declared silent; a peer that slept on
the same machine gets time to speak."""


class Timed(Protocol):
    """Something with a timer."""

    def next_timer(self) -> float:
        """Return when it wants to be checked; infinity = not until it is added again."""
        ...

    def handle_timer(self, now: float) -> None:
        """Handle the timer."""
        ...


class Timers:
    """Checks the timers added to it.

    Invariant: ``_due`` and ``_timed`` describe the same set, with one live member of ``_heap`` for
    each; members of ``_heap`` whose number is not in ``_timed`` are dead.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int]] = []
        self._due: dict[Timed, tuple[float, int]] = {}
        self._timed: dict[int, Timed] = {}
        self._numbers = count()
        self._added = trio.Event()

    def __repr__(self) -> str:
        return f"<Timers of {len(self._due)}>"

    def __len__(self) -> int:
        return len(self._due)

    def add(self, timed: Timed, not_before: float = 0.0) -> None:
        """Check ``timed`` when it is due; call again when that comes nearer."""
        due = max(timed.next_timer(), not_before)
        if due == float("inf") or due >= self._due.get(timed, (float("inf"), 0))[0]:
            return
        self.remove(timed)
        if not self._heap or due < self._heap[0][0]:
            self._added.set()
        number = next(self._numbers)
        self._due[timed], self._timed[number] = (due, number), timed
        heappush(self._heap, (due, number))

    def remove(self, timed: Timed) -> None:
        """Stop checking it."""
        _, number = self._due.pop(timed, (0.0, -1))
        self._timed.pop(number, None)

    async def run(self) -> None:
        """Serve until cancelled."""
        while True:
            self._added = trio.Event()
            until = self._heap[0][0] if self._heap else float("inf")
            begin = trio.current_time()
            with trio.move_on_at(until):
                await self._added.wait()
            if trio.current_time() - max(begin, until) > LATE_S:
                await trio.sleep(GRACE_S)
            self._serve(trio.current_time())

    def _serve(self, now: float) -> None:
        while self._heap and self._heap[0][0] <= now:
            _, number = heappop(self._heap)
            timed = self._timed.get(number)
            if timed is None:
                continue
            self.remove(timed)
            call(self._look_at, timed, now)

    def _look_at(self, timed: Timed, now: float) -> None:
        try:
            if timed.next_timer() <= now:
                timed.handle_timer(now)
        finally:
            self.add(timed, now + GRAIN_S)


def instants() -> tuple[float, int]:
    """Return the clock of timers, and the wall clock in ms."""
    return trio.current_time(), wall_clock_ms()
