"""Times of day, as the server needs them: in milliseconds, and as text."""

from datetime import UTC, datetime

from arneb_core.api.clock import wall_clock_ms as clock_ms

__all__ = ("clock_ms", "now_iso")


def now_iso() -> str:
    """The time of day as statistics have it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
