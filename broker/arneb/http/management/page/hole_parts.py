"""Holes as they are drawn: a log cut into parts, and how many entries of each are acknowledged.

The rule: the size of an answer depends on the bar on the screen, not on the number of entries and
holes. A cursor without holes has no parts.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from arneb_core.api.entries.position import Position, before, position_at
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.admin import LedgerStatistics

PARTS: Final = 120
"""Parts of a bar, each some pixels wide."""

HolePart = tuple[int, int, int]
"""The number of entries before the part, of entries in it, and of those acknowledged beyond the
mark-delete position."""


def hole_parts(ledgers: Sequence[LedgerStatistics], of: Subscription) -> list[HolePart]:
    """Return the parts of consecutive ledgers that have holes."""
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
    """Yield ``size`` entries at a time, as ranges (low, high] that are each in one ledger."""
    ranges: list[tuple[Position, Position]] = []
    room = size
    for each in ledgers:
        start = 0
        while start < each.entries:
            end = min(each.entries, start + room)
            ranges.append((before(position_at(each.id, start)), position_at(each.id, end - 1)))
            room -= end - start
            start = end
            if not room:
                yield ranges
                ranges, room = [], size
    if ranges:
        yield ranges
