"""A block: a run of entries of one topic as one value of the store.

The rule: a block is written once, never changed, and verified by its checksum when it is read. Why
the unit is a run and not a single entry: docs/decisions/0002-entries-are-stored-in-blocks.md.

====== ========= ================================================================
offset type      field
====== ========= ================================================================
0      u8        block format: 1, or 2 with references
1      u8, u16   zero
4      u32       CRC-32C of everything after this field
8      u64       position of the first entry
16     u32       number of entries, *n*
20     u32       zero
24     n x u32   length of each entry
24+4n            the entries, concatenated
====== ========= ================================================================

A reference takes the place of its entry: the length has its highest bit set, and the entry is
replaced by the 12 bytes of its :data:`.schema.BodyKey`. Blocks without references have format 1.

This is the hot path: the loops over entries below run in C (``map``, ``join``, ``BytesIO.read``),
about 50 ns per entry to decode and 100 ns to encode.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from io import BytesIO
from itertools import accumulate
from struct import Struct, pack, pack_into, unpack_from
from typing import Final

from arneb_core.api.encoding.checksum import crc32c
from arneb_core.api.entries.position import ENTRY_MASK, Position, entry_of, render
from arneb_core.store.format.schema import BODY_KEY_BYTES, BodyKey

BLOCK_FORMAT: Final = 1
SHARED_FORMAT: Final = 2
SHARED_BYTE: Final = bytes([SHARED_FORMAT])
REFERENCE: Final = 1 << 31
BLOCK_BYTES_MAX: Final = 256 * 1024
"""A longer run is split: large enough that a scan costs little per entry, small enough that
a read of one entry is cheap and LMDB finds that many contiguous pages again. One entry that
is larger makes a block of its own."""

HEADER: Final = Struct(">BBHIQII")
HEADER_BYTES: Final = HEADER.size
CRC_OFFSET: Final = 4
CRC_END: Final = 8
LENGTH_BYTES: Final = 4
assert HEADER_BYTES == 24

KEEP_GIL: Final = 0
"""The checksum of a block takes about 15 us; releasing the GIL could cost milliseconds."""


FindBody = Callable[[BodyKey], bytes]
"""Returns the entry that a reference means; raises :class:`BlockCorrupt`."""


class BlockCorrupt(ValueError):
    """The bytes are not a block as written."""


class BodyLost(BlockCorrupt):
    """The block is sound, but an entry that it refers to is missing or changed."""


def encode_block(
    first: Position, entries: Sequence[bytes], lengths: Iterable[int] = ()
) -> bytearray:
    """Encode ``entries``, which are dense from ``first``, as a block. ``lengths``: theirs, if the
    caller has them already."""
    packed = pack(f">{len(entries)}I", *(lengths or map(len, entries)))
    return _encode(BLOCK_FORMAT, first, packed, entries)


def encode_shared_block(
    first: Position, entries: Sequence[bytes], keys: Sequence[BodyKey | None]
) -> bytearray:
    """Encode a block with references in place of the entries that have a key."""
    if not any(keys):
        return encode_block(first, entries)
    parts = [key or entry for key, entry in zip(keys, entries, strict=True)]
    lengths = [
        len(entry) | REFERENCE if key else len(entry)
        for key, entry in zip(keys, entries, strict=True)
    ]
    return _encode(SHARED_FORMAT, first, pack(f">{len(entries)}I", *lengths), parts)


def _encode(fmt: int, first: Position, lengths: bytes, entries: Sequence[bytes]) -> bytearray:
    count = len(entries)
    assert count, "a block holds at least one entry"
    assert entry_of(first) + count - 1 <= ENTRY_MASK, f"run crosses a ledger at {render(first)}"
    header = HEADER.pack(fmt, 0, 0, 0, first, count, 0)
    # A bytearray: the checksum goes in last without another copy of the value.
    value = bytearray().join((header, lengths, *entries))
    with memoryview(value) as view:
        pack_into(">I", value, CRC_OFFSET, crc32c(view[CRC_END:], 0, KEEP_GIL))
    return value


def block_span(value: bytes) -> tuple[Position, int]:
    """Return the first position and number of entries, from the header alone.

    Raises :class:`BlockCorrupt` when it is not a header of a known format.
    """
    if len(value) < HEADER_BYTES:
        raise BlockCorrupt(f"expected a block of at least {HEADER_BYTES} bytes, got {len(value)}")
    fmt, zero, zero2, _crc, first, count, zero3 = HEADER.unpack_from(value)
    if fmt not in (BLOCK_FORMAT, SHARED_FORMAT) or zero or zero2 or zero3:
        raise BlockCorrupt(f"expected block format 1 or 2, got {value[:CRC_OFFSET].hex()}")
    if not count:
        raise BlockCorrupt("expected at least one entry in a block, got 0")
    return Position(first), count


def decode_block(value: bytes, find: FindBody | None = None) -> tuple[Position, list[bytes]]:
    """Return the position of the first entry, and the entries; ``find`` looks up references.

    Raises :class:`BlockCorrupt` when ``value`` is not byte for byte what was encoded.
    """
    first, lengths, body = _checked(value)
    if value[0] == SHARED_FORMAT:
        return first, _resolved(value, lengths, body, find)
    # Reading from a BytesIO (which shares the bytes) takes half the time of slicing.
    entries = BytesIO(value)
    entries.seek(body)
    return first, list(map(entries.read, lengths))


def pick_entries(
    value: bytes, indices: Iterable[int], find: FindBody | None = None
) -> Iterator[bytes]:
    """Yield the entries at ``indices``, which ascend and are in the block. The whole block is
    checked first, but only these entries are made, one by one. Raises as :func:`decode_block`."""
    _, lengths, at = _checked(value)
    plain = value[0] == BLOCK_FORMAT
    passed = 0
    for index in indices:
        skipped = lengths[passed:index]
        at += sum(skipped) if plain else sum(map(_stored, skipped))
        passed = index
        yield _entry(value, at, lengths[index], find)


def block_bytes(head: bytes) -> int:
    """Return the length of a block, from its header and the lengths of its entries. Raises
    :class:`BlockCorrupt`."""
    _, count = block_span(head)
    body = HEADER_BYTES + LENGTH_BYTES * count
    if len(head) < body:
        raise BlockCorrupt(f"expected the lengths of {count} entries, got {len(head)} bytes")
    lengths = unpack_from(f">{count}I", head, HEADER_BYTES)
    return body + (sum(lengths) if head[0] == BLOCK_FORMAT else sum(map(_stored, lengths)))


def check_block(value: bytes) -> None:
    """Raise :class:`BlockCorrupt` unless ``value`` is byte for byte a block as encoded; bodies that
    it refers to are not checked."""
    _checked(value)


def block_references(value: bytes) -> list[BodyKey]:
    """Return the references in a block, with repetitions. Raises as :func:`decode_block`."""
    if value[:1] != SHARED_BYTE:
        return []
    _, lengths, at = _checked(value)
    found = []
    for length in lengths:
        if length & REFERENCE:
            found.append(BodyKey(value[at : at + BODY_KEY_BYTES]))
        at += _stored(length)
    return found


def whole_parts(
    value: bytes, find: FindBody
) -> list[tuple[Position, list[bytes], list[BodyKey | None]]]:
    """Return the runs that remain of a block without entries whose body is lost, each with the keys
    of its references. Raises :class:`BlockCorrupt` when the block itself is damaged."""
    first, lengths, at = _checked(value)
    parts: list[tuple[Position, list[bytes], list[BodyKey | None]]] = []
    goes_on = False
    for position, length in enumerate(lengths, first):
        key = BodyKey(value[at : at + BODY_KEY_BYTES]) if length & REFERENCE else None
        try:
            entry = _entry(value, at, length, find)
        except BodyLost:
            goes_on = False
        else:
            if not goes_on:
                parts.append((Position(position), [], []))
            parts[-1][1].append(entry)
            parts[-1][2].append(key)
            goes_on = True
        at += _stored(length)
    return parts


def _stored(length: int) -> int:
    return BODY_KEY_BYTES if length & REFERENCE else length


def _resolved(value: bytes, lengths: Sequence[int], at: int, find: FindBody | None) -> list[bytes]:
    entries = []
    for length in lengths:
        entries.append(_entry(value, at, length, find))
        at += _stored(length)
    return entries


def _entry(value: bytes, at: int, length: int, find: FindBody | None) -> bytes:
    """Return the entry at ``at``, or the one referred to there."""
    if not length & REFERENCE:
        return value[at : at + length]
    if find is None:
        raise BlockCorrupt("expected a block without references, got one with some")
    entry = find(BodyKey(value[at : at + BODY_KEY_BYTES]))
    if len(entry) != length ^ REFERENCE:
        raise BodyLost(f"expected a body of {length ^ REFERENCE} bytes, got {len(entry)}")
    return entry


def _checked(value: bytes) -> tuple[Position, Sequence[int], int]:
    """Return the first position, the raw lengths, and where the entries begin."""
    first, count = block_span(value)
    with memoryview(value) as view:
        crc = crc32c(view[CRC_END:], 0, KEEP_GIL)
    expected = int.from_bytes(value[CRC_OFFSET:CRC_END], "big")
    if crc != expected:
        raise BlockCorrupt(f"expected checksum {expected:08x}, got {crc:08x}")
    body = HEADER_BYTES + LENGTH_BYTES * count
    if len(value) < body:
        raise BlockCorrupt(f"expected the lengths of {count} entries, got {len(value)} bytes")
    lengths = unpack_from(f">{count}I", value, HEADER_BYTES)
    size = body + (sum(lengths) if value[0] == BLOCK_FORMAT else sum(map(_stored, lengths)))
    if size != len(value):
        raise BlockCorrupt(f"expected {size} bytes, got {len(value)}")
    return first, lengths, body


def cut_run(
    position: Position, entries: list[bytes], first: Position, last: Position | None
) -> tuple[Position, list[bytes]]:
    """Return the part of a run that lies in [first, last]."""
    if last is not None and position + len(entries) - 1 > last:
        del entries[max(0, last - position + 1) :]
    if position < first:
        del entries[: first - position]
        position = first
    return position, entries


def split_run(
    first: Position, entries: list[bytes], bytes_max: int = BLOCK_BYTES_MAX
) -> list[tuple[Position, list[bytes], list[int]]]:
    """Split a run into runs of about ``bytes_max`` bytes, with at least one entry each; return them
    with the lengths of their entries."""
    lengths = list(map(len, entries))
    if sum(lengths) <= bytes_max:
        return [(first, entries, lengths)] if entries else []
    ends = list(accumulate(lengths))
    start, base = 0, 0
    parts = []
    while start < len(entries):
        stop = max(start + 1, bisect_right(ends, base + bytes_max, start))
        parts.append((Position(first + start), entries[start:stop], lengths[start:stop]))
        start, base = stop, ends[stop - 1]
    return parts
