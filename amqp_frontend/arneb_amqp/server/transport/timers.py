"""Timers: heartbeats and deadlines of all connections, served by one task.

The rule: a timer is looked at when it was due, not when it changed. Traffic moves a
connection's timer away all the time and nobody is told; when the old time comes, the
connection says when to come again. So traffic costs nothing here, and an idle connection
costs a few calls a minute. Only a timer that comes nearer has to be added again.
"""

from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol

import trio

from arneb_core.api.callbacks import call
from arneb_core.api.clock import wall_clock_ms

GRAIN_S: Final = 0.05
"""Nobody is looked at more often, whatever they say; the shortest heartbeat is sent every
half second."""

LATE_S: Final = 1.0
"""A timer is this late only when the whole process did not run: the machine slept, a debugger or
SIGSTOP held it, a disk held up a flush."""

GRACE_S: Final = 2.0
"""After that, what peers sent meanwhile is read before anybody is said to be silent, and a peer
that slept on the same machine gets to say what it wants to say."""


class Timed(Protocol):
    """Something with a timer."""

    def next_timer(self) -> float:
        """When it wants to be looked at; infinity = not before it is added again."""
        ...

    def handle_timer(self, now: float) -> None:
        """Its time has come."""
        ...


class Timers:
    """Looks after whatever was added.

    Invariant: ``_due`` and ``_timed`` describe the same set, one live member of ``_heap`` for
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
        """Look at ``timed`` when it wants; to be called again when that comes nearer."""
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
        """Look at it no more."""
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
    """The clock of timers, and the wall clock in ms."""
    return trio.current_time(), wall_clock_ms()
