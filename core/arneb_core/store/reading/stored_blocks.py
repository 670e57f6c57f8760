"""Blocks as they are stored, for readers that decode them elsewhere or later.

The rule: nothing is decoded or judged here, so that a damaged block is handed on like any other,
with the position that its key gives it; whoever decodes it finds out. The rows of BODIES that a
block refers to travel with it, because only this snapshot is sure to have them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arneb_core.api.position import Position
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
    """Of its last entry, as its key says."""
    value: bytes
    bodies: Mapping[BodyKey, bytes] = field(default_factory=dict)
    """A body that is lost is not among them."""

    @property
    def size(self) -> int:
        """Bytes that it takes, wherever it is kept."""
        return len(self.value) + sum(map(len, self.bodies.values()))

    def decode(self) -> tuple[Position, list[bytes]]:
        """The position of the first entry, and the entries. Raises :class:`.BlockCorrupt`."""
        return decode_block(self.value, self.find_body)

    def find_body(self, key: BodyKey) -> bytes:
        """The entry that a reference means. Raises :class:`.BodyLost`."""
        return unpack_body(key, self.bodies.get(key))


def read_stored_blocks(
    snapshot: "Snapshot", topic_id: TopicId, first: Position, last: Position, bytes_max: int
) -> list[StoredBlock]:
    """The blocks that hold something of [first, last], in order, to the end of the one with which
    ``bytes_max`` is reached; so the answer is empty only when there is nothing."""
    blocks: list[StoredBlock] = []
    bytes_read = 0
    for end, value in snapshot.block_values(topic_id, first, last):
        if begins_behind(value, end, last):
            break
        blocks.append(StoredBlock(end, value, _bodies(snapshot, value)))
        bytes_read += blocks[-1].size
        if bytes_read >= bytes_max:
            break
    return blocks


def begins_behind(value: bytes, end: Position, last: Position) -> bool:
    """What the block's head says is believed only if it agrees with its key."""
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
