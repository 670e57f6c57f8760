"""Processor wait: how long a broker was ready to run but had no processor.

The rule: the broker promises that an acknowledgement is durable soon, and cannot work while other
programs have the processors. Only time in which it could work counts against that promise.
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
    """Sampled repeatedly while the broker lives."""

    def __init__(self, waited_s: Callable[[], float]) -> None:
        """``waited_s()`` is the total wait so far; see :func:`waited_s_of`."""
        self._waited_s = waited_s
        self._looks: list[tuple[float, float]] = []
        """When each sample was taken, and the total wait by then."""

    def __repr__(self) -> str:
        return f"<ProcessorWait, {self.waited_s:.3f} s in {len(self._looks)} looks>"

    @property
    def waited_s(self) -> float:
        """The wait in its whole life, in seconds."""
        return max((each for _, each in self._looks), default=0.0) - next(
            (each for _, each in self._looks), 0.0
        )

    def look(self, now: float) -> None:
        """Take a sample: the broker is alive at ``now``, on the clock of all samples."""
        self._looks.append((now, self._waited_s()))

    async def look_for(self, seconds: float) -> None:
        """Take samples for this long, on the clock of the running event loop."""
        loop, end = asyncio.get_running_loop(), time.monotonic() + seconds
        self.look(loop.time())
        while (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(LOOK_EVERY_S, left))
            self.look(loop.time())

    def worked_until(self, end: float, work_s: float) -> float:
        """The time of the last sample after which the broker could work for ``work_s`` before
        ``end``. Without such a sample, the time ``work_s`` before the first sample, or before the
        end."""
        last_s = max((waited_s for _, waited_s in self._looks), default=0.0)
        for now, waited_s in reversed(self._looks):
            if end - now - (last_s - waited_s) >= work_s:
                return now
        first = min([end, *(now for now, _ in self._looks)])
        return first - work_s


def waited_s_of(pid: int) -> float:
    """How long all threads of a process together have waited for a processor: the second figure in
    ``/proc/PID/task/TID/schedstat``. 0 if the kernel does not count it, or if the process is
    gone."""
    waited_ns = 0
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):  # the thread has ended in the meantime
                waited_ns += int(
                    Path(f"/proc/{pid}/task/{thread}/schedstat").read_text().split()[1]
                )
    return waited_ns * NS
