"""Bodies: entries that went to several topics in one commit, stored once.

The rule: an entry of :data:`SHARED_BYTES_MIN` bytes or more that occurs in two or more places of
one commit is one row of BODIES, and the blocks hold references to it. A row of REFERENCES counts
the references that blocks still hold. It changes only in a transaction that writes or deletes such
blocks, so it agrees with the blocks after any crash, and the body goes with the last of them.

A body's key is the place of its first reference, topic and position: no two commits use the same
place, so no two bodies ever have the same key.

====== ====== ============================================
offset type   field of a row of BODIES
====== ====== ============================================
0      u32    CRC-32C of the entry
4             the entry
====== ====== ============================================
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from arneb_core.api.encoding.checksum import crc32c
from arneb_core.api.entries.position import Position
from arneb_core.store.format.block import BodyLost, encode_block, encode_shared_block, split_run
from arneb_core.store.format.changes import Block
from arneb_core.store.format.schema import BodyKey, entry_key

SHARED_BYTES_MIN: Final = 4096
"""A page. Below it a copy costs less than a row, a count and a look-up for each of its readers."""

CRC_BYTES: Final = 4
KEEP_GIL: Final = 0


@dataclass(slots=True)
class Body:
    """An entry that a commit stores once."""

    entry: bytes
    references: int


@dataclass(slots=True)
class Encoded:
    """What a commit puts into ENTRIES, BODIES and REFERENCES."""

    blocks: list[tuple[bytes, bytearray]] = field(default_factory=list)
    bodies: dict[BodyKey, Body] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of the values, without counts."""
        size = 0
        for _, value in self.blocks:
            size += len(value)
        for body in self.bodies.values():
            size += CRC_BYTES + len(body.entry)
        return size


def encode_runs(runs: Sequence[Block], shared: Collection[bytes]) -> Encoded:
    """Encode runs as blocks; done before the transaction begins. Those objects in ``shared`` that
    occur in several places become bodies."""
    encoded = Encoded()
    keys = _places(runs, {id(entry) for entry in shared}) if shared else {}
    for topic_id, first, entries in runs:
        for place, part, lengths in split_run(first, entries):
            key = entry_key(topic_id, Position(place + len(part) - 1))
            if not keys or max(lengths) < SHARED_BYTES_MIN:
                encoded.blocks.append((key, encode_block(place, part, lengths)))
                continue
            held = [keys.get(id(entry)) for entry in part]
            encoded.blocks.append((key, encode_shared_block(place, part, held)))
            for body_key, entry in zip(held, part, strict=True):
                if body_key is not None:
                    encoded.bodies.setdefault(body_key, Body(entry, 0)).references += 1
    return encoded


def _places(runs: Sequence[Block], wanted: set[int]) -> Mapping[int, BodyKey]:
    """Return the key of each wanted object that occurs more than once, by its id."""
    counts: Counter[int] = Counter()
    keys: dict[int, BodyKey] = {}
    for topic_id, first, entries in runs:
        if max(map(len, entries), default=0) < SHARED_BYTES_MIN:
            continue
        for place, entry in enumerate(entries, first):
            if id(entry) in wanted:
                counts[id(entry)] += 1
                keys.setdefault(id(entry), BodyKey(entry_key(topic_id, Position(place))))
    return {number: key for number, key in keys.items() if counts[number] > 1}


def shared_entries(runs: Sequence[list[bytes]]) -> list[bytes]:
    """Return the large entries that are in several of ``runs``, as objects. Costs next to nothing
    when all are small."""
    if len(runs) < 2:
        return []
    large = [
        entry
        for run in runs
        if max(map(len, run), default=0) >= SHARED_BYTES_MIN
        for entry in run
        if len(entry) >= SHARED_BYTES_MIN
    ]
    counts = Counter(map(id, large))
    return list({id(entry): entry for entry in large if counts[id(entry)] > 1}.values())


def pack_body(entry: bytes) -> bytes:
    """Return a row of BODIES."""
    return b"".join((crc32c(entry, 0, KEEP_GIL).to_bytes(CRC_BYTES, "big"), entry))


def unpack_body(key: BodyKey, value: bytes | None) -> bytes:
    """Return the entry; raises :class:`.BodyLost` when it is not the one that was packed under
    ``key``."""
    if value is None:
        raise BodyLost(f"expected a body under key {key.hex()}, got none")
    entry = value[CRC_BYTES:]
    expected, found = int.from_bytes(value[:CRC_BYTES], "big"), crc32c(entry, 0, KEEP_GIL)
    if len(value) < CRC_BYTES or found != expected:
        raise BodyLost(f"expected a body with checksum {expected:08x}, got {found:08x}")
    return entry
