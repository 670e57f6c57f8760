"""A record in the journal's file: in blocks of its own, with a note of what followed it.

The rule: no block of a record that counts is written again before LMDB has its contents. So a
record begins where a block begins, and a power cut in the next write cannot reach it, whatever the
disk does to the sectors that it was writing.

Nothing is written after a record, so after the last one is what was there before: a record of an
earlier round, or the middle of one. To recognise it, each record holds the *stamp* of the block
after it, the first eight bytes, which change as soon as there is another record. Zeros and ones
are not valid stamps (:data:`WEAK`), because a disk may leave them where a record was: a blank is
first written in their place.

This is the hot path of a client that waits for each confirm: its run of few entries is laid out in
one go (:func:`_run_in_blocks`) in a third of the time. A property test compares the result with the
plain way byte for byte.
"""

from collections.abc import Callable
from struct import Struct, pack, pack_into
from typing import Final

from arneb_core.api.encoding.checksum import crc32c
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
"""The least that any disk of today writes whole, whatever it claims: many that take sectors of 512
bytes read a block of this size, change it and write it back. It is also the page size of the
system's cache, where a smaller write would dirty as much."""

MARK_MAGIC: Final = b"aRc\xff"
BLANK_MAGIC: Final = b"aRc\xfe"

WEAK: Final = (b"\x00" * STAMP_BYTES, b"\xff" * STAMP_BYTES)
"""What a disk may show in place of data that it has lost."""

FEW_ENTRIES: Final = 64
"""With more entries, the layout is a small part of the work."""

RUN_HEAD: Final = Struct(HEADER.format + COUNTS.format[1:] + "II" + blocks.HEADER.format[1:])
"""Everything before the lengths of the entries when a commit is one run and nothing else: the
header, six counts, topic and size of the block, the header of the block."""

BLOCK_AT: Final = RUN_HEAD.size - blocks.HEADER_BYTES
TAIL_BYTES: Final = STAMP_BYTES + NUMBER.size
CRC_AT: Final = len(MAGIC_WITH_STAMP)
BLOCK_CRC_AT: Final = BLOCK_AT + blocks.CRC_OFFSET
BLOCK_CRC_END: Final = BLOCK_AT + blocks.CRC_END


StampAt = Callable[[int], bytes | bytearray]
"""Returns the stamp of the block that begins at an offset, as it is before the write."""


def end_of_block(offset: int) -> int:
    """Return the end of the block that contains ``offset``; ``offset`` itself if one ends there."""
    return offset + -offset % BLOCK_BYTES


def stamps_of(blocks_of_it: bytes | bytearray | memoryview) -> bytes:
    """Return the concatenated stamps of these blocks."""
    with memoryview(blocks_of_it) as view, view.cast("Q") as words:
        return words[:: BLOCK_BYTES // STAMP_BYTES].tobytes()


def stamp_behind(record: bytes | bytearray) -> bytes:
    """Return what a record says about the block after it."""
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
    """Return a record as it is written at ``offset``, and its checksum. ``before``: the checksum of
    the previous record. The next record begins at the end of the block in which this one ends."""
    if len(changes.blocks) == 1 and changes.is_plain:
        run = changes.blocks[0]
        if len(run[2]) <= FEW_ENTRIES:
            size = sum(map(len, run[2]))
            if size <= blocks.BLOCK_BYTES_MAX:  # more needs several blocks
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
    """Return the same in the plain way, whatever the commit holds."""
    return encode_stamped(
        epoch,
        number,
        before,
        changes,
        salt,
        lambda size: stamp_at(end_of_block(offset + size)),
    )


def mark(epoch: int, number: int, before: int, salt: int) -> bytes:
    """Return the mark for the place of record ``number``, where that place is known beforehand: in
    a new file, and where a record is undone."""
    return seal(MARK_MAGIC, epoch, number, before, b"", salt)[0]


MARK_BYTES: Final = len(mark(0, 0, 0, 0))


def blank(epoch: int, offset: int) -> bytes:
    """Return a stamp for the block at ``offset``, which has none: no other block has it, in case a
    disk confuses two blocks."""
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
