"""Processor wait: how long a broker could have worked and had no processor, beside its life.

The rule: the broker promises that an acknowledgement is durable soon, and cannot work while others
have the processors. Only time in which it could work counts against that promise.
"""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

NS: Final = 1e-9
LOOK_EVERY_S: Final = 0.005


class ProcessorWait:
    """Looked at again and again while the broker lives."""

    def __init__(self, waited_s: Callable[[], float]) -> None:
        """``waited_s``: what it has waited in all; see :func:`waited_s_of`."""
        self._waited_s = waited_s
        self._looks: list[tuple[float, float]] = []
        """When, and what it had waited by then."""

    def __repr__(self) -> str:
        return f"<ProcessorWait, {self.waited_s:.3f} s in {len(self._looks)} looks>"

    @property
    def waited_s(self) -> float:
        """In its whole life."""
        return max((each for _, each in self._looks), default=0.0) - next(
            (each for _, each in self._looks), 0.0
        )

    def look(self, now: float) -> None:
        """It lives at ``now``, by the clock of all looks."""
        self._looks.append((now, self._waited_s()))

    async def look_for(self, seconds: float) -> None:
        """For so long, by the clock of the loop that runs."""
        loop, end = asyncio.get_running_loop(), time.monotonic() + seconds
        self.look(loop.time())
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(LOOK_EVERY_S, left))
            self.look(loop.time())

    def worked_until(self, end: float, work_s: float) -> float:
        """The last instant looked at behind which the broker could work for ``work_s`` before
        ``end``; without one, so long before the first look or the end."""
        last_s = max((waited_s for _, waited_s in self._looks), default=0.0)
        for now, waited_s in reversed(self._looks):
            if end - now - (last_s - waited_s) >= work_s:
                return now
        first = min([end, *(now for now, _ in self._looks)])
        return first - work_s


def waited_s_of(pid: int) -> float:
    """What all threads of a process have waited for a processor, together: the second figure of
    ``/proc/PID/task/TID/schedstat``; 0 where the kernel does not count it, or it is gone."""
    waited_ns = 0
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):  # it has ended meanwhile
                waited_ns += int(
                    Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[1]
                )
    return waited_ns * NS
