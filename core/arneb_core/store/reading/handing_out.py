"""Handing out: stored blocks for readers elsewhere, as they are.

The rule: only the beginning of a block is looked at here, so that a damaged one reaches whoever
decides what becomes of it. Only a block that refers to bodies is made anew, piece by piece: its
reader has no store to find them in, and all of them together may exceed any bound.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from arneb_core.api.entries.position import Position
from arneb_core.store.format.block import (
    BLOCK_BYTES_MAX,
    SHARED_BYTE,
    BlockCorrupt,
    block_span,
    encode_block,
    pick_entries,
)
from arneb_core.store.format.schema import TopicId
from arneb_core.store.reading.snapshot import Snapshot
from arneb_core.store.reading.stored_blocks import begins_behind


@dataclass(frozen=True, slots=True)
class HandedOut:
    """Blocks as stored, except for references."""

    blocks: Sequence[tuple[Position, bytes]]
    """In log order, each with the position of its last entry."""
    next: Position
    """The first position not looked at: what is missing before it does not exist any more."""


def hand_out(
    snapshot: Snapshot, topic_id: TopicId, first: Position, last: Position, bytes_max: int
) -> HandedOut:
    """Return the blocks with anything of [first, last], up to the one that reaches
    ``bytes_max``."""
    blocks: list[tuple[Position, bytes]] = []
    size = 0
    for end, stored in snapshot.block_values(topic_id, first, last):
        if begins_behind(stored, end, last):
            break  # what was asked for has been trimmed, and this came after it
        for position, value in _self_contained(snapshot, end, stored, first):
            if position < first:
                continue
            blocks.append((position, value))
            size += len(value)
            if size >= bytes_max:
                return HandedOut(blocks, Position(position + 1))
            if position >= last:
                return HandedOut(blocks, Position(position + 1))
    return HandedOut(blocks, Position(last + 1))


def _self_contained(
    snapshot: Snapshot, last: Position, value: bytes, wanted: Position
) -> Iterator[tuple[Position, bytes]]:
    """Yield the block itself. One with references becomes as many without as needed, from the entry
    at ``wanted`` on; if bodies are lost, the block itself follows from there."""
    if value[:1] != SHARED_BYTE:
        yield last, value
        return
    run: list[bytes] = []
    size = 0
    try:
        first, count = block_span(value)
        position = Position(max(first, wanted))
        for entry in pick_entries(value, range(position - first, count), snapshot.find_body):
            run.append(entry)
            size += len(entry)
            if size >= BLOCK_BYTES_MAX:
                yield Position(position + len(run) - 1), bytes(encode_block(position, run))
                position, run, size = Position(position + len(run)), [], 0
    except BlockCorrupt:
        if run:
            yield Position(position + len(run) - 1), bytes(encode_block(position, run))
        yield last, value
    else:
        if run:
            yield last, bytes(encode_block(position, run))
