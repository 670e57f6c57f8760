"""A record as the journal's file holds it: in blocks of its own, which say what stood behind it.

The rule: no block of a record that counts is ever written again before LMDB has what it holds. So
a record begins where a block begins, and a power cut in the next write cannot reach it, whatever
the disk makes of the sectors that it was writing.

Nothing is written behind a record, so where the records end there stands what stood there before: a
record of an earlier round, or the middle of one. To know it again each record holds the *stamp* of
the block behind it, its first eight bytes, which are those of another record as soon as there is
one. Zeros and ones are no stamp (:data:`WEAK`), for a disk may leave them where a record was: a
blank is written in their place first.

This is the hot path of a client that waits for each confirm: a run of few entries, which is what
it brings, is laid out in one go (:func:`_run_in_blocks`) in a third of the time. A property test
compares that with the plain way byte for byte.
"""

from collections.abc import Callable
from struct import Struct, pack, pack_into
from typing import Final

from arneb_core.api.checksum import crc32c
from arneb_core.store.format import block as blocks
from arneb_core.store.format.changes import Block, Changes
from arneb_core.store.format.commit_record import (
    COUNTS,
    CRC_END,
    HEADER,
    HEADER_BYTES,
    KEEP_GIL,
    MAGIC_WITH_STAMP,
    NUMBER,
    STAMP_BYTES,
    encode_stamped,
    seal,
    stamp_in,
)

BLOCK_BYTES: Final = 4096
"""The least that any disk of today writes whole, whatever it says: many that take sectors of 512
bytes read one of these, change it and write it back, all of it. It is also the page of the system's
cache, of which a smaller write would have made as much dirty."""

MARK_MAGIC: Final = b"aRc\xff"
BLANK_MAGIC: Final = b"aRc\xfe"

WEAK: Final = (b"\x00" * STAMP_BYTES, b"\xff" * STAMP_BYTES)
"""What is there where a disk has given up what was there."""

FEW_ENTRIES: Final = 64
"""With more, the layout is a small part of the work."""

RUN_HEAD: Final = Struct(HEADER.format + COUNTS.format[1:] + "II" + blocks.HEADER.format[1:])
"""What stands before the lengths of the entries when a commit is one run and nothing else: the
header, six counts, topic and size of the block, the header of the block."""

BLOCK_AT: Final = RUN_HEAD.size - blocks.HEADER_BYTES
TAIL_BYTES: Final = STAMP_BYTES + NUMBER.size
CRC_AT: Final = len(MAGIC_WITH_STAMP)
BLOCK_CRC_AT: Final = BLOCK_AT + blocks.CRC_OFFSET
BLOCK_CRC_END: Final = BLOCK_AT + blocks.CRC_END


StampAt = Callable[[int], bytes | bytearray]
"""The stamp of the block that begins at an offset, as it is before the write."""


def end_of_block(offset: int) -> int:
    """Where the block that ``offset`` lies in ends; ``offset`` itself if one ends there."""
    return offset + -offset % BLOCK_BYTES


def stamps_of(blocks_of_it: bytes | bytearray | memoryview) -> bytes:
    """The stamps of so many blocks, one behind the other."""
    with memoryview(blocks_of_it) as view, view.cast("Q") as words:
        return words[:: BLOCK_BYTES // STAMP_BYTES].tobytes()


def stamp_behind(record: bytes | bytearray) -> bytes:
    """What a record says of the block behind it."""
    return stamp_in(record, len(record))


def in_blocks(
    epoch: int,
    number: int,
    before: int,
    salt: int,
    changes: Changes,
    offset: int,
    stamp_at: StampAt,
) -> tuple[bytes | bytearray, int]:
    """A record as it is written at ``offset``, and its checksum. ``before``: the checksum of the
    record before. The next one stands where the block ends that it ends in."""
    if len(changes.blocks) == 1 and changes.is_plain:
        run = changes.blocks[0]
        if len(run[2]) <= FEW_ENTRIES:
            size = sum(map(len, run[2]))
            if size <= blocks.BLOCK_BYTES_MAX:  # more is several blocks
                return _run_in_blocks(epoch, number, before, salt, run, size, offset, stamp_at)
    return in_blocks_plainly(epoch, number, before, salt, changes, offset, stamp_at)


def in_blocks_plainly(
    epoch: int,
    number: int,
    before: int,
    salt: int,
    changes: Changes,
    offset: int,
    stamp_at: StampAt,
) -> tuple[bytes, int]:
    """The same in the plain way, whatever the commit holds."""
    return encode_stamped(
        epoch,
        number,
        before,
        changes,
        salt,
        lambda size: stamp_at(end_of_block(offset + size)),
    )


def mark(epoch: int, number: int, before: int, salt: int) -> bytes:
    """What stands where record ``number`` will be written, if it is known when it is written that
    this is the place: in a new file, and where a record is undone."""
    return seal(MARK_MAGIC, epoch, number, before, b"", salt)[0]


MARK_BYTES: Final = len(mark(0, 0, 0, 0))


def blank(epoch: int, offset: int) -> bytes:
    """A stamp for the block at ``offset``, which has none: no other block's, should a disk mistake
    one for another."""
    which = epoch * (1 << 16) + offset // BLOCK_BYTES
    return BLANK_MAGIC + (which & 0xFFFF_FFFF).to_bytes(4, "big")


def _run_in_blocks(
    epoch: int,
    number: int,
    before: int,
    salt: int,
    run: Block,
    entries_bytes: int,
    offset: int,
    stamp_at: StampAt,
) -> tuple[bytearray, int]:
    topic_id, first, entries = run
    count = len(entries)
    lengths = pack(f">{count}I", *map(len, entries))
    block_size = blocks.HEADER_BYTES + len(lengths) + entries_bytes
    block_end = BLOCK_AT + block_size
    size = block_end + TAIL_BYTES
    head = RUN_HEAD.pack(
        *(MAGIC_WITH_STAMP, 0, epoch, number, before, size - HEADER_BYTES),
        *(0, 1, 0, 0, 0, 0),
        *(topic_id, block_size),
        *(blocks.BLOCK_FORMAT, 0, 0, 0, first, count, 0),
    )
    stamp = stamp_at(end_of_block(offset + size))
    data = bytearray().join((head, lengths, *entries, stamp, NUMBER.pack(number)))
    with memoryview(data) as view:
        pack_into(">I", data, BLOCK_CRC_AT, crc32c(view[BLOCK_CRC_END:block_end], 0, KEEP_GIL))
        checksum = crc32c(view[CRC_END:], salt, KEEP_GIL)
        pack_into(">I", data, CRC_AT, checksum)
    return data, checksum
