"""Presence: fields that RabbitMQ's documents always have and that have no counterpart here.

The rule: the fields have RabbitMQ's types, and the values that it uses for unknown.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

NO_REDUCTIONS: Final[Mapping[str, Any]] = {
    "reductions": 0,
    "reductions_details": {"rate": 0.0},
}
"""Reductions of an Erlang process."""

NO_COLLECTIONS: Final[Mapping[str, int]] = {
    "fullsweep_after": 65_535,
    "max_heap_size": 0,
    "min_bin_vheap_size": 46_422,
    "min_heap_size": 233,
    "minor_gcs": 0,
}
"""``garbage_collection`` of an Erlang process with the default settings, before the first one.
Clients read them as whole numbers, and a suite of one expects a ``fullsweep_after`` like this."""


def time_to_json(ms: int) -> str:
    """Return a time as RabbitMQ writes it, such as ``2026-01-31T23:59:59.123+00:00``."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
