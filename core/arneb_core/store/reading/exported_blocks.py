"""Exported blocks: stored blocks for readers in other processes, as they are stored.

The rule: only the beginning of a block is read here; a damaged block is passed on, and its reader
decides what to do about it. Only a block that refers to shared bodies is encoded again, piece by
piece: its reader has no store to find them in, and together they may be of any size.
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
from arneb_core.store.reading.stored_blocks import begins_after


@dataclass(frozen=True, slots=True)
class ExportedBlocks:
    """Blocks as stored, but without references to shared bodies."""

    blocks: Sequence[tuple[Position, bytes]]
    """In log order, each with the position of its last entry."""
    next: Position
    """The first position not looked at; what is missing before it no longer exists."""


def export_blocks(
    snapshot: Snapshot, topic_id: TopicId, first: Position, last: Position, bytes_max: int
) -> ExportedBlocks:
    """Return the blocks with any entry of [first, last], up to the one that reaches
    ``bytes_max``."""
    blocks: list[tuple[Position, bytes]] = []
    size = 0
    for end, stored in snapshot.block_values(topic_id, first, last):
        if begins_after(stored, end, last):
            break  # what was asked for has been trimmed, and this came after it
        for position, value in _self_contained(snapshot, end, stored, first):
            if position < first:
                continue
            blocks.append((position, value))
            size += len(value)
            if size >= bytes_max:
                return ExportedBlocks(blocks, Position(position + 1))
            if position >= last:
                return ExportedBlocks(blocks, Position(position + 1))
    return ExportedBlocks(blocks, Position(last + 1))


def _self_contained(
    snapshot: Snapshot, last: Position, value: bytes, wanted: Position
) -> Iterator[tuple[Position, bytes]]:
    """Yield the block itself, or, if it has references, as many blocks without them as needed, from
    the entry at ``wanted`` on. Where a body is lost, the block itself follows."""
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
