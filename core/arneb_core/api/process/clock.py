"""The clock: the time of day, which people and programs set forward and back.

The rule: a time of day is compared with this clock when it matters, not earlier; durations are
measured with the monotonic clock. docs/internals/clock.md tells how each part takes a clock that is
set.
"""

import time
from collections.abc import Callable
from typing import Final

EARLIEST_MS: Final = 1
"""The earliest time: times are unsigned on disk and in both protocols, and 0 means none."""


class WallClock:
    """The time of day of one machine.

    Before 1970 (on a machine without a battery that has not been told the time yet) it starts at
    :data:`EARLIEST_MS` and runs from there, so that delays and expiries still pass.
    """

    def __init__(
        self,
        read_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._read_ns = read_ns
        self._monotonic_ns = monotonic_ns
        self._started_ns = monotonic_ns()

    def __repr__(self) -> str:
        return f"<WallClock at {self.now_ms()}>"

    def now_ms(self) -> int:
        """Return the milliseconds since 1970, at least :data:`EARLIEST_MS`."""
        now_ms = self._read_ns() // 1_000_000
        if now_ms < EARLIEST_MS:
            return EARLIEST_MS + (self._monotonic_ns() - self._started_ns) // 1_000_000
        return now_ms


wall_clock_ms: Final = WallClock().now_ms
"""The time of day of this machine, in milliseconds since 1970."""


def monotonic_ms() -> int:
    """Return milliseconds since some instant, for durations that setting the clock must not
    change."""
    return time.monotonic_ns() // 1_000_000
