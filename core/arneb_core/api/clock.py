"""The clock: the time of day, which people and programs set forward and back.

The rule: what is to happen at a time of day is compared with this clock when it comes to that, and
not earlier; how long something has lasted is measured with the monotonic clock. How the parts take
a clock that is set is told in docs/internals/clock.md.
"""

import time
from collections.abc import Callable
from typing import Final

EARLIEST_MS: Final = 1
"""Times of day are unsigned on disk and in both protocols, and 0 stands for none."""


class WallClock:
    """The time of day of one machine.

    Before 1970 (a machine without a battery that has not heard of the time yet) it starts at
    :data:`EARLIEST_MS` and goes on from there, so that delays and expiries still pass.
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
        """Milliseconds since 1970, :data:`EARLIEST_MS` at least."""
        now_ms = self._read_ns() // 1_000_000
        if now_ms < EARLIEST_MS:
            return EARLIEST_MS + (self._monotonic_ns() - self._started_ns) // 1_000_000
        return now_ms


wall_clock_ms: Final = WallClock().now_ms
"""The time of day of this machine, in milliseconds since 1970."""


def monotonic_ms() -> int:
    """Milliseconds since some instant, for what lasts and must not be cut short by a clock that is
    set."""
    return time.monotonic_ns() // 1_000_000
