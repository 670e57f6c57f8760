"""The commit record: one commit as bytes with a checksum.

The rule: reading a record returns exactly the :class:`.Changes` that were written, or says that the
bytes are no record. Records form a chain: each carries the checksum of the previous one, the next
number, and the epoch of their log. So a reader notices what is missing, and what was written
without the right to.

====== ====== ===================================================================
offset type   field of a record
====== ====== ===================================================================
0      4s     the kind and version of the record: :data:`MAGIC`
4      u32    CRC-32C of everything after this field, begun with the log's salt
8      u64    epoch
16     u64    number: one more than the previous record's
24     u32    checksum of the previous record
28     u32    bytes of the body
32            the body: six counts u32, then that many of each in this order, then the rest
====== ====== ===================================================================

======== =======================================================================
of these fields
======== =======================================================================
bodies   :data:`.schema.BodyKey`, u32 length, an entry that several blocks share
blocks   topic u32, u32 length, a block (:mod:`.block`)
deletes  table u8, u32 length, the key
puts     table u8, u8 1 or 0 for none, u32 length, u32 length, the key, the value
prefixes as deletes
trims    as in :func:`.records.pack_trims`
(zeros)  padding, if the writer needs any
number   u64, again: so the last sector of a record always differs from what it overwrites
======== =======================================================================

A record of the second version, :data:`MAGIC_WITH_STAMP`, has no zeros; before the number at its
end it has the eight bytes that are after the place where it is written (:mod:`.journal.record`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct, error
from typing import Final

from arneb_core.api.encoding.checksum import crc32c
from arneb_core.api.entries.position import Position
from arneb_core.store.format.block import BlockCorrupt, decode_block
from arneb_core.store.format.bodies import encode_runs
from arneb_core.store.format.changes import Block, Changes
from arneb_core.store.format.records import TRIM_RECORD, pack_trims, unpack_trims
from arneb_core.store.format.schema import (
    BODY_KEY_BYTES,
    TABLE_NUMBERS,
    BodyKey,
    Table,
    TopicId,
    parse_entry_key,
)

MAGIC: Final = b"aRc\x01"
"""The last byte is the version of the layout."""

MAGIC_WITH_STAMP: Final = b"aRc\x02"
STAMP_BYTES: Final = 8

HEADER: Final = Struct(">4sIQQII")
HEADER_BYTES: Final = HEADER.size
CHECKED: Final = Struct(">QQII")
"""The part of the header that the checksum covers."""

CRC_END: Final = HEADER_BYTES - CHECKED.size
assert (HEADER_BYTES, CRC_END) == (32, 8)

COUNTS: Final = Struct(">6I")
BLOCK_ITEM: Final = Struct(">II")
KEY_ITEM: Final = Struct(">BI")
PUT_ITEM: Final = Struct(">B?II")
LENGTH: Final = Struct(">I")
NUMBER: Final = Struct(">Q")
TABLES: Final = {number: table for table, number in TABLE_NUMBERS.items()}

KEEP_GIL: Final = 0


class RecordCorrupt(ValueError):
    """The bytes are not a record as written."""


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit and its place in the chain."""

    epoch: int
    number: int
    before: int
    """The checksum of the previous record."""
    changes: Changes
    checksum: int = 0
    """The checksum of this record."""


def encode_record(
    epoch: int, number: int, before: int, changes: Changes, salt: int = 0, align: int = 1
) -> tuple[bytes, int]:
    """Return the record, filled up to a multiple of ``align``, and its checksum."""
    packed = _pack_changes(changes)
    filler = bytes(-(HEADER_BYTES + sum(map(len, packed)) + NUMBER.size) % align)
    body = b"".join((*packed, filler, NUMBER.pack(number)))
    return seal(MAGIC, epoch, number, before, body, salt)


def encode_stamped(
    epoch: int,
    number: int,
    before: int,
    changes: Changes,
    salt: int,
    stamp: Callable[[int], bytes | bytearray],
) -> tuple[bytes, int]:
    """Return a record of the second version, and its checksum. ``stamp`` returns what is after a
    record of a given size."""
    packed = _pack_changes(changes)
    size = HEADER_BYTES + sum(map(len, packed)) + STAMP_BYTES + NUMBER.size
    body = b"".join((*packed, stamp(size), NUMBER.pack(number)))
    return seal(MAGIC_WITH_STAMP, epoch, number, before, body, salt)


def seal(
    magic: bytes, epoch: int, number: int, before: int, body: bytes, salt: int
) -> tuple[bytes, int]:
    """Return a header with its body, and the checksum of both."""
    head = CHECKED.pack(epoch, number, before, len(body))
    checksum = crc32c(head, salt, KEEP_GIL)
    if body:
        checksum = crc32c(body, checksum, KEEP_GIL)
    return b"".join((magic, LENGTH.pack(checksum), head, body)), checksum


def parse_record(
    data: bytes, offset: int = 0, salt: int = 0, magic: bytes = MAGIC
) -> tuple[CommitRecord, int] | None:
    """Return the record that begins at ``offset``, and where it ends; None if there is no whole
    record of the version ``magic``.

    Raises :class:`RecordCorrupt` when it is whole but holds what this version cannot read.
    """
    found = unseal(magic, data, offset, salt)
    if found is None:
        return None
    checksum, epoch, number, before, body = found
    end = offset + HEADER_BYTES + len(body)
    if magic == MAGIC_WITH_STAMP:
        body = body[: -STAMP_BYTES - NUMBER.size] + body[-NUMBER.size :]
    return CommitRecord(epoch, number, before, _unpack_changes(body, number), checksum), end


def stamp_in(data: bytes | bytearray, end: int) -> bytes:
    """Return what a record of the second version that ends at ``end`` says was behind it."""
    at = end - NUMBER.size
    return bytes(data[at - STAMP_BYTES : at])


def unseal(
    magic: bytes, data: bytes, offset: int, salt: int
) -> tuple[int, int, int, int, bytes] | None:
    """Return checksum, epoch, number, checksum before, and body of what :func:`seal` made; None if
    that is not there, or not whole."""
    if data[offset : offset + len(magic)] != magic or offset + HEADER_BYTES > len(data):
        return None
    _, checksum, epoch, number, before, length = HEADER.unpack_from(data, offset)
    end = offset + HEADER_BYTES + length
    if end > len(data):
        return None
    with memoryview(data) as view:
        if crc32c(view[offset + CRC_END : end], salt, KEEP_GIL) != checksum:
            return None
    return checksum, epoch, number, before, data[offset + HEADER_BYTES : end]


def encode_changes(changes: Changes) -> bytes:
    """Return a commit's changes as bytes, for a log that numbers and checks its records itself."""
    return b"".join((*_pack_changes(changes), NUMBER.pack(0)))


def decode_changes(data: bytes) -> Changes:
    """Undo :func:`encode_changes`. Raises :class:`RecordCorrupt`."""
    return _unpack_changes(data, 0)


def rows_in(data: bytes) -> int:
    """Count the rows, prefixes and trims in a result of :func:`encode_changes`, without reading
    them. Raises :class:`RecordCorrupt`."""
    try:
        _, _, *counts = COUNTS.unpack_from(data)
    except error as short:
        raise RecordCorrupt(f"expected six counts, got {len(data)} bytes") from short
    return sum(counts)


def merged_blocks(commits: Iterable[Changes]) -> list[Block]:
    """Return the runs of several commits, with contiguous ones merged."""
    topics: dict[TopicId, list[tuple[Position, list[bytes]]]] = {}
    for changes in commits:
        for topic_id, first, entries in changes.blocks:
            runs = topics.setdefault(topic_id, [])
            if runs and runs[-1][0] + len(runs[-1][1]) == first:
                runs[-1][1].extend(entries)
            else:
                runs.append((first, list(entries)))
    return [(topic, first, entries) for topic, runs in topics.items() for first, entries in runs]


def _pack_changes(changes: Changes) -> list[bytes | bytearray]:
    encoded = encode_runs(changes.blocks, changes.shared)
    parts: list[bytes | bytearray] = [
        COUNTS.pack(
            len(encoded.bodies),
            len(encoded.blocks),
            len(changes.deletes),
            len(changes.puts),
            len(changes.prefixes),
            len(changes.trims),
        )
    ]
    for body_key, body in encoded.bodies.items():
        parts += (body_key, LENGTH.pack(len(body.entry)), body.entry)
    for key, block in encoded.blocks:
        parts += (BLOCK_ITEM.pack(parse_entry_key(key)[0], len(block)), block)
    for table, key in changes.deletes:
        parts += (KEY_ITEM.pack(TABLE_NUMBERS[table], len(key)), key)
    for table, key, value in changes.puts:
        head = PUT_ITEM.pack(TABLE_NUMBERS[table], value is not None, len(key), len(value or b""))
        parts += (head, key, value or b"")
    for table, key in changes.prefixes:
        parts += (KEY_ITEM.pack(TABLE_NUMBERS[table], len(key)), key)
    if changes.trims:
        parts.append(pack_trims(changes.trims))
    return parts


def _unpack_changes(body: bytes, number: int) -> Changes:
    try:
        return _Body(body).changes(number)
    except (error, BlockCorrupt, KeyError) as problem:
        raise RecordCorrupt(f"expected a commit, got a record that holds none: {problem}") from None


class _Body:
    """A body, read from front to end."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def changes(self, number: int) -> Changes:
        bodies, blocks, deletes, puts, prefixes, trims = self._fields(COUNTS)
        known: dict[BodyKey, bytes] = {}
        for _ in range(bodies):
            key = BodyKey(self._take(BODY_KEY_BYTES))
            known[key] = self._take(*self._fields(LENGTH))
        runs: list[Block] = []
        for _ in range(blocks):
            topic, size = self._fields(BLOCK_ITEM)
            # The same object for the same key, so that it is stored once again.
            first, entries = decode_block(self._take(size), known.__getitem__)
            runs.append((TopicId(topic), first, entries))
        found = Changes(
            runs,
            deletes=[self._key() for _ in range(deletes)],
            puts=[self._put() for _ in range(puts)],
            prefixes=[self._key() for _ in range(prefixes)],
            trims=unpack_trims(self._take(trims * TRIM_RECORD.size)),
            shared=list(known.values()),
        )
        rest = self._body[self._at :]
        if rest.lstrip(b"\0") != NUMBER.pack(number).lstrip(b"\0") or len(rest) < NUMBER.size:
            raise RecordCorrupt(f"expected {number} behind byte {self._at} of the body, got more")
        return found

    def _key(self) -> tuple[Table, bytes]:
        number, size = self._fields(KEY_ITEM)
        return TABLES[number], self._take(size)

    def _put(self) -> tuple[Table, bytes, bytes | None]:
        number, has_value, key_bytes, value_bytes = self._fields(PUT_ITEM)
        key, value = self._take(key_bytes), self._take(value_bytes)
        return TABLES[number], key, value if has_value else None

    def _fields(self, layout: Struct) -> tuple[int, ...]:
        found = layout.unpack_from(self._body, self._at)
        self._at += layout.size
        return found

    def _take(self, size: int) -> bytes:
        taken = self._body[self._at : self._at + size]
        self._at += size
        if len(taken) != size:
            raise RecordCorrupt(f"expected {size} bytes more, got {len(taken)}")
        return taken
