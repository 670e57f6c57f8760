"""Leftovers: blocks that are in the store and in no log.

The rule: nobody is given them. They stand where a commit of today or of before a crash was to come,
or where a log was cut off, and are removed bit by bit; meanwhile the log may have gone on behind
them. Both rows that name them are changed by the very commit that makes them count or go.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from arneb_core.api.position import Position
from arneb_core.store.format.block import BlockCorrupt, block_span
from arneb_core.store.format.records import unpack_trims
from arneb_core.store.format.schema import META_AHEAD, META_TRIMS, TopicId

Range = tuple[Position, Position]
"""First and last."""


def leftovers(meta: Callable[[bytes], bytes | None]) -> dict[TopicId, list[Range]]:
    """Where they are, by topic; ``meta`` gives the rows of META."""
    found: dict[TopicId, list[Range]] = {}
    for key in (META_TRIMS, META_AHEAD):
        with suppress(ValueError):  # damaged, which a start refuses and a check finds
            for topic_id, first, last in unpack_trims(meta(key) or b""):
                found.setdefault(topic_id, []).append((first, last))
    return found


def is_left_over(ranges: Sequence[Range], end: Position, value: bytes) -> bool:
    """Whether the block ``value``, whose last entry is at ``end``, lies in one of ``ranges``. One
    that only ends there has something of the log."""
    for first, last in ranges:
        if first <= end <= last:
            try:
                return block_span(value)[0] >= first
            except BlockCorrupt:
                return True
    return False
