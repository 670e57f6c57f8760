"""Blocks as stored, for readers that decode them elsewhere or later.

The rule: nothing is decoded or judged here, so that a damaged block is passed on like any other,
with the position from its key; whoever decodes it finds out. The rows of BODIES that a block refers
to travel with it, because only this snapshot is sure to have them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arneb_core.api.entries.position import Position
from arneb_core.store.format.block import (
    SHARED_BYTE,
    BlockCorrupt,
    block_references,
    block_span,
    decode_block,
)
from arneb_core.store.format.bodies import unpack_body
from arneb_core.store.format.schema import BodyKey, Table, TopicId

if TYPE_CHECKING:
    from arneb_core.store.reading.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """One row of ENTRIES, and the rows of BODIES that it refers to."""

    last: Position
    """The position of its last entry, from its key."""
    value: bytes
    bodies: Mapping[BodyKey, bytes] = field(default_factory=dict)
    """The bodies it refers to, without lost ones."""

    @property
    def size(self) -> int:
        """Bytes that it takes, wherever it is."""
        return len(self.value) + sum(map(len, self.bodies.values()))

    def decode(self) -> tuple[Position, list[bytes]]:
        """Return the first entry's position, and the entries. Raises :class:`.BlockCorrupt`."""
        return decode_block(self.value, self.find_body)

    def find_body(self, key: BodyKey) -> bytes:
        """Return the entry that a reference means. Raises :class:`.BodyLost`."""
        return unpack_body(key, self.bodies.get(key))


def read_stored_blocks(
    snapshot: "Snapshot", topic_id: TopicId, first: Position, last: Position, bytes_max: int
) -> list[StoredBlock]:
    """Return the blocks with anything of [first, last], in order, up to the one that reaches
    ``bytes_max``; so the answer is empty only when there is nothing."""
    blocks: list[StoredBlock] = []
    bytes_read = 0
    for end, value in snapshot.block_values(topic_id, first, last):
        if begins_after(value, end, last):
            break
        blocks.append(StoredBlock(end, value, _bodies(snapshot, value)))
        bytes_read += blocks[-1].size
        if bytes_read >= bytes_max:
            break
    return blocks


def begins_after(value: bytes, end: Position, last: Position) -> bool:
    """Whether the block begins after ``last``. Its head is believed if it agrees with its key."""
    if end <= last:
        return False
    try:
        first, count = block_span(value)
    except BlockCorrupt:
        return False
    return first > last and first + count - 1 == end


def _bodies(snapshot: "Snapshot", value: bytes) -> dict[BodyKey, bytes]:
    if value[:1] != SHARED_BYTE:
        return {}
    try:
        keys = block_references(value)
    except BlockCorrupt:
        return {}
    found = ((key, snapshot.get(Table.BODIES, key)) for key in keys)
    return {key: row for key, row in found if row is not None}
