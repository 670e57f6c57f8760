"""Leftovers: blocks that are in the store and in no log.

The rule: no reader sees them. They are at the positions of a commit to come, of this run or of one
before a crash, or where a log was cut off, and are removed step by step; meanwhile the log may have
grown beyond them. The two rows that name them are changed by the same commit that makes them
entries or removes them.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from arneb_core.api.entries.position import Position
from arneb_core.store.format.block import BlockCorrupt, block_span
from arneb_core.store.format.records import unpack_trims
from arneb_core.store.format.schema import META_AHEAD, META_TRIMS, TopicId

Range = tuple[Position, Position]
"""First and last position."""


def leftovers(meta: Callable[[bytes], bytes | None]) -> dict[TopicId, list[Range]]:
    """Return the leftover ranges by topic; ``meta`` reads rows of META."""
    found: dict[TopicId, list[Range]] = {}
    for key in (META_TRIMS, META_AHEAD):
        with suppress(ValueError):  # damage, which a start refuses and a check finds
            for topic_id, first, last in unpack_trims(meta(key) or b""):
                found.setdefault(topic_id, []).append((first, last))
    return found


def is_left_over(ranges: Sequence[Range], end: Position, value: bytes) -> bool:
    """Whether the block ``value``, which ends at ``end``, lies in one of ``ranges``. A block that
    only ends there has entries of the log."""
    for first, last in ranges:
        if first <= end <= last:
            try:
                return block_span(value)[0] >= first
            except BlockCorrupt:
                return True
    return False
