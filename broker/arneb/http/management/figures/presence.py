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

UNKNOWN_COLLECTIONS: Final[Mapping[str, int]] = dict.fromkeys(
    ("fullsweep_after", "max_heap_size", "min_bin_vheap_size", "min_heap_size", "minor_gcs"), 0
)
"""``garbage_collection`` of an Erlang process. Some clients read only numbers of at least 0."""


def time_to_json(ms: int) -> str:
    """Return a time as RabbitMQ writes it, such as ``2026-01-31T23:59:59.123+00:00``."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
