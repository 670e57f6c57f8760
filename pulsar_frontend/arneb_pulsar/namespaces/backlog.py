"""Backlogs: where a subscription must stand for its backlog to be small enough.

The rule: pure; sizes inside a ledger are its average, as everywhere that sizes are asked for.
"""

from collections.abc import Sequence
from typing import Final

from arneb_core.api.admin import LedgerStatistics
from arneb_core.api.position import Position, position

EVICTED_TO: Final = 0.9
"""Of the quota's bytes an eviction leaves so much, as in Pulsar: the next message fits too."""


def place_leaving(ledgers: Sequence[LedgerStatistics], bytes_left: int) -> Position | None:
    """The last entry that has to go so that at most ``bytes_left`` stand behind it; None if
    none has to."""
    left = bytes_left
    for info in reversed(ledgers):
        if not info.entries:
            continue
        if info.bytes > left:
            stay = left * info.entries // info.bytes
            return position(info.id, info.entries - 1 - stay)
        left -= info.bytes
    return None


def bytes_from(ledgers: Sequence[LedgerStatistics], place: Position) -> int:
    """Bytes of the entries from ``place`` on."""
    total = 0
    for info in ledgers:
        if info.entries and position(info.id, info.entries - 1) >= place:
            below = max(0, place - position(info.id, 0))
            total += (info.entries - below) * info.bytes // info.entries
    return total


def nth_entry(
    ledgers: Sequence[LedgerStatistics], number: int, *, from_end: bool
) -> Position | None:
    """The nth entry, counted from 1; the last one on the way if there are not so many."""
    left, found = number, None
    for info in reversed(ledgers) if from_end else ledgers:
        if not info.entries:
            continue
        step = min(left, info.entries)
        found = position(info.id, info.entries - step if from_end else step - 1)
        left -= step
        if not left:
            break
    return found
