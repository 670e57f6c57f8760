"""Holes as they are drawn: a log cut into parts, and how much of each is acknowledged.

The rule: of however many entries and holes, no more is told than a bar on a screen can show; and
nothing at all of a cursor without holes.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from arneb_core.api.admin import LedgerStatistics
from arneb_core.api.position import Position, before, position
from arneb_core.api.subscriptions import Subscription

PARTS: Final = 120
"""Of a bar, each some pixels wide."""

HolePart = tuple[int, int, int]
"""Behind how many entries of the first ledger it begins, how many it has, and how many of these
are acknowledged beyond the mark-delete position."""


def hole_parts(ledgers: Sequence[LedgerStatistics], of: Subscription) -> list[HolePart]:
    """The parts of these ledgers, which follow one another, in which there are holes."""
    total = sum(each.entries for each in ledgers)
    if not total or not of.statistics().holes:
        return []
    size = -(-total // PARTS)
    found: list[HolePart] = []
    for number, ranges in enumerate(_cut(ledgers, size)):
        acknowledged = sum(
            of.acknowledged_between(max(low, of.mark_delete), high)
            for low, high in ranges
            if high > of.mark_delete
        )
        if acknowledged:
            found.append((number * size, min(size, total - number * size), acknowledged))
    return found


def _cut(
    ledgers: Sequence[LedgerStatistics], size: int
) -> Iterator[list[tuple[Position, Position]]]:
    """So many entries at a time, as ranges (low, high], of which each is in one ledger."""
    ranges: list[tuple[Position, Position]] = []
    room = size
    for each in ledgers:
        start = 0
        while start < each.entries:
            end = min(each.entries, start + room)
            ranges.append((before(position(each.id, start)), position(each.id, end - 1)))
            room -= end - start
            start = end
            if not room:
                yield ranges
                ranges, room = [], size
    if ranges:
        yield ranges
