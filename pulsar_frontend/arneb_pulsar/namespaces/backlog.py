"""Backlogs: where a subscription must be for its backlog to be small enough.

The rule: pure; entries count with the average size of their ledger, as in all statistics.
"""

from collections.abc import Sequence
from typing import Final

from arneb_core.api.entries.position import Position, position_at
from arneb_core.api.topics.admin import LedgerStatistics

EVICTED_TO: Final = 0.9
"""The share of the quota's bytes that an eviction leaves, as in Pulsar: the next message fits
too."""


def position_leaving(ledgers: Sequence[LedgerStatistics], bytes_left: int) -> Position | None:
    """Return the last entry that has to go so that at most ``bytes_left`` are left behind it; None
    if none has to."""
    left = bytes_left
    for info in reversed(ledgers):
        if not info.entries:
            continue
        if info.bytes > left:
            stay = left * info.entries // info.bytes
            return position_at(info.id, info.entries - 1 - stay)
        left -= info.bytes
    return None


def bytes_from(ledgers: Sequence[LedgerStatistics], position: Position) -> int:
    """Return the bytes of the entries from ``position`` on."""
    total = 0
    for info in ledgers:
        if info.entries and position_at(info.id, info.entries - 1) >= position:
            below = max(0, position - position_at(info.id, 0))
            total += (info.entries - below) * info.bytes // info.entries
    return total


def nth_entry(
    ledgers: Sequence[LedgerStatistics], number: int, *, from_end: bool
) -> Position | None:
    """Return the nth entry, counted from 1; the last one counted if there are fewer."""
    left, found = number, None
    for info in reversed(ledgers) if from_end else ledgers:
        if not info.entries:
            continue
        step = min(left, info.entries)
        found = position_at(info.id, info.entries - step if from_end else step - 1)
        left -= step
        if not left:
            break
    return found
