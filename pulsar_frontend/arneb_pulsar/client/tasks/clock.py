"""The clock: which timers are due, and one task that calls them.

The rule: a producer or consumer has no task for its timers. It has a :class:`Timer`, whose callback
is synchronous and short.
"""

import asyncio
import math
from collections.abc import Callable
from heapq import heappop, heappush
from importlib import import_module
from itertools import count

import anyio

NEVER = math.inf


class Timer:
    """Calls back at the time that was set last."""

    __slots__ = ("_callback", "_clock", "due", "scheduled")

    def __init__(self, clock: "Clock", callback: Callable[[float], None]) -> None:
        self._clock = clock
        self._callback = callback
        self.due = NEVER
        self.scheduled = NEVER
        """The earliest time at which the clock checks it."""

    def __repr__(self) -> str:
        return f"<Timer {'off' if self.due == NEVER else f'due at {self.due:.3f}'}>"

    def set(self, due: float | None) -> None:
        """Call back at ``due``; None: never."""
        self.due = NEVER if due is None else due
        if self.due < self.scheduled:
            self._clock.schedule(self)

    def run(self, now: float) -> None:
        """Call back; the clock calls this when the timer is due."""
        self.due = NEVER
        self._callback(now)


class Clock:
    """All timers of one client, made in its event loop."""

    def __init__(self) -> None:
        self.now = event_loop_time()
        """Seconds, as every ``now`` of the client means them. Hot path: an attribute, so that what
        is called is the event loop's own function."""
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = count()
        self._earlier: anyio.Event | None = None
        self._sleeps_until = NEVER

    def __repr__(self) -> str:
        return f"<Clock with {len(self._heap)} times>"

    def timer(self, callback: Callable[[float], None]) -> Timer:
        """Return a timer that is not set."""
        return Timer(self, callback)

    def schedule(self, timer: Timer) -> None:
        """Check ``timer`` when it is due."""
        timer.scheduled = timer.due
        heappush(self._heap, (timer.due, next(self._numbers), timer))
        if timer.due < self._sleeps_until and self._earlier is not None:
            self._earlier.set()

    async def run(self) -> None:
        """Call due timers, for ever."""
        while True:
            due = self.run_due(self.now())
            self._earlier, self._sleeps_until = anyio.Event(), due
            with anyio.CancelScope(deadline=due):
                await self._earlier.wait()
            self._earlier = None

    def run_due(self, now: float) -> float:
        """Call the timers due at ``now``; return when the next one is."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, _, timer = heappop(heap)
            if timer.scheduled != at:
                continue
            timer.scheduled = NEVER
            if timer.due <= now:
                timer.run(now)
            elif timer.due != NEVER:
                self.schedule(timer)
        return heap[0][0] if heap else NEVER


def event_loop_time() -> Callable[[], float]:
    """Return the clock function of the running event loop. anyio determines the loop at every call,
    which takes five times as long."""
    try:
        # None where trio is a guest of an asyncio loop: then trio's time is what counts.
        is_asyncio = asyncio.current_task() is not None
    except RuntimeError:
        is_asyncio = False
    if is_asyncio:
        return asyncio.get_running_loop().time
    # An optional dependency, which is there where it runs.
    clock: Callable[[], float] = import_module("trio").current_time
    return clock
