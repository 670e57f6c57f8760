"""The clock of the server: gives pure code its ``now`` and the time of day."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import trio

from arneb_core.api.process.clock import wall_clock_ms


@dataclass(frozen=True, slots=True)
class Clock:
    """The event loop's time and the time of day; tests replace both."""

    now: Callable[[], float] = trio.current_time
    """Seconds of the event loop: for durations."""
    wall_ms: Callable[[], int] = wall_clock_ms
    """Milliseconds since 1970: for publish times, and for what ends at a time of day."""

    def iso(self) -> str:
        """Return the time of day in the format of statistics."""
        return iso_of(self.wall_ms())


def iso_of(ms: int) -> str:
    """Return milliseconds since 1970 in the format of statistics."""
    when = datetime.fromtimestamp(ms / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
