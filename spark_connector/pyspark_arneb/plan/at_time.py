"""Where in a topic's log a point in time is.

The rule: the broker's publish times follow the order of the log, so the first entry of a time is
found by bisection, in about twenty reads of a block. If the clock was ever set back, the entry
found may be too early.
"""

from bisect import bisect_left
from typing import Final

from arneb_core.api.entries.entry import TIMES, TIMES_OFFSET
from arneb_core.api.entries.position import Position
from arneb_core.store.reading.extents import Extent, LedgerExtent
from pyspark_arneb.log.block_source import BlockSource

ONE_BLOCK: Final = 1
"""Bytes to read at a time: reads are in whole blocks, so this is one block."""


def position_at_time(source: BlockSource, extent: Extent, time_ms: int) -> Position:
    """Return the first entry that the broker received at or after ``time_ms``, or the end of the
    log."""
    for ledger in extent.ledgers:
        if not 0 < ledger.closed_ms < time_ms:
            position = _position_in(source, extent, ledger, time_ms)
            if position <= ledger.last:
                return position
    return extent.end


def published_ms(source: BlockSource, extent: Extent, position: Position) -> int | None:
    """Return when the broker received the entry at ``position``, or the next one if it is
    missing."""
    for block in source.read(extent.topic_id, position, extent.end, ONE_BLOCK):
        first, entries = block.decode()
        return _time(entries[max(0, position - first)])
    return None


def _position_in(
    source: BlockSource, extent: Extent, ledger: LedgerExtent, time_ms: int
) -> Position:
    low, end = ledger.first, Position(ledger.last + 1)
    while low < end:
        middle = Position((low + end) // 2)
        blocks = source.read(extent.topic_id, middle, ledger.last, ONE_BLOCK)
        if not blocks:
            return end  # trimmed meanwhile, or the rest of the ledger was lost
        first, entries = blocks[0].decode()
        times = [_time(entry) for entry in entries]
        if times[-1] < time_ms:
            low = Position(first + len(entries))
        elif times[0] < time_ms:
            return Position(first + bisect_left(times, time_ms))
        else:
            end = Position(min(first, middle))
    return low


def _time(entry: bytes) -> int:
    published_at: int = TIMES.unpack_from(entry, TIMES_OFFSET)[0]
    return published_at
