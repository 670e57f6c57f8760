"""Times of day, as the server needs them: in milliseconds, and as text."""

import time
from datetime import UTC, datetime


def clock_ms() -> int:
    """The time of day, in milliseconds."""
    return time.time_ns() // 1_000_000


def now_iso() -> str:
    """The time of day as statistics have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
