"""The clock of the server: what pure code is given as ``now`` and as the time of day."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import trio

from arneb_core.api.clock import wall_clock_ms


@dataclass(frozen=True, slots=True)
class Clock:
    """Both times; tests give it others."""

    now: Callable[[], float] = trio.current_time
    """Seconds of the event loop: for what lasts."""
    wall_ms: Callable[[], int] = wall_clock_ms
    """Milliseconds since 1970: for what is published, and what ends at a time of day."""

    def iso(self) -> str:
        """The time of day as statistics have it."""
        return iso_of(self.wall_ms())


def iso_of(ms: int) -> str:
    """Milliseconds since 1970 as statistics have them."""
    when = datetime.fromtimestamp(ms / 1000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
