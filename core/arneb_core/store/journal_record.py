"""A record as the journal's file holds it: in whole slots, with the mark of the next one behind it.

The rule: a record that is whole has its mark. A power cut leaves each sector of a write as it was
or as it was to be. Records begin and end at multiples of :data:`SLOT_BYTES`, so no header lies in
two sectors, and none ends where a sector ends, so the mark lies in the last of its record's
sectors.

This is the hot path of a client that waits for each confirm: a run of few entries, which is what
it brings, is laid out in one buffer (:func:`_run_slotted`) in 4 µs instead of 9. A property test
compares that with the plain way byte for byte.
"""

from struct import Struct, pack, pack_into
from typing import Final

from crc32c import crc32c

from arneb_core.store import block as blocks
from arneb_core.store.changes import Block, Changes
from arneb_core.store.commit_record import (
    COUNTS,
    CRC_END,
    HEADER,
    HEADER_BYTES,
    KEEP_GIL,
    MAGIC,
    NUMBER,
    encode_record,
    seal,
)

SLOT_BYTES: Final = HEADER_BYTES
SECTOR_BYTES: Final = 512
"""The least that a disk writes whole; a multiple of it is as good."""

MARK_MAGIC: Final = b"aRc\xff"

FEW_ENTRIES: Final = 64
"""With more, the layout is a small part of the work."""

RUN_HEAD: Final = Struct(HEADER.format + COUNTS.format[1:] + "II" + blocks.HEADER.format[1:])
"""What stands before the lengths of the entries when a commit is one run and nothing else: the
header, six counts, topic and size of the block, the header of the block."""

BLOCK_AT: Final = RUN_HEAD.size - blocks.HEADER_BYTES
AROUND_BYTES: Final = RUN_HEAD.size + NUMBER.size
CRC_AT: Final = len(MAGIC)
BLOCK_CRC_AT: Final = BLOCK_AT + blocks.CRC_OFFSET
BLOCK_CRC_END: Final = BLOCK_AT + blocks.CRC_END


def slotted(
    epoch: int, number: int, before: int, salt: int, changes: Changes, offset: int
) -> tuple[bytes | bytearray, int]:
    """A record with the mark that follows it, as they are written at ``offset``, and the record's
    checksum. ``before``: the checksum of the record before."""
    if len(changes.blocks) == 1 and changes.is_plain:
        run = changes.blocks[0]
        if len(run[2]) <= FEW_ENTRIES:
            return _run_slotted(epoch, number, before, salt, run, offset)
    return slotted_plainly(epoch, number, before, salt, changes, offset)


def slotted_plainly(
    epoch: int, number: int, before: int, salt: int, changes: Changes, offset: int
) -> tuple[bytes, int]:
    """The same in the plain way, whatever the commit holds."""
    record, checksum = encode_record(epoch, number, before, changes, salt, SLOT_BYTES)
    if (offset + len(record)) % SECTOR_BYTES == 0:
        longer = len(record) + SLOT_BYTES
        record, checksum = encode_record(epoch, number, before, changes, salt, longer)
    return record + mark(epoch, number + 1, checksum, salt), checksum


def mark(epoch: int, number: int, before: int, salt: int) -> bytes:
    """What stands where record ``number`` will be written."""
    return seal(MARK_MAGIC, epoch, number, before, b"", salt)[0]


MARK_BYTES: Final = len(mark(0, 0, 0, 0))


def _run_slotted(
    epoch: int, number: int, before: int, salt: int, run: Block, offset: int
) -> tuple[bytearray, int]:
    topic_id, first, entries = run
    count = len(entries)
    lengths = pack(f">{count}I", *map(len, entries))
    block_size = blocks.HEADER_BYTES + len(lengths) + sum(map(len, entries))
    block_end = BLOCK_AT + block_size
    used = block_end + NUMBER.size
    size = used + -used % SLOT_BYTES
    if (offset + size) % SECTOR_BYTES == 0:
        size += SLOT_BYTES
    head = RUN_HEAD.pack(
        *(MAGIC, 0, epoch, number, before, size - HEADER_BYTES),
        *(0, 1, 0, 0, 0, 0),
        *(topic_id, block_size),
        *(blocks.BLOCK_FORMAT, 0, 0, 0, first, count, 0),
    )
    data = bytearray().join((head, lengths, *entries, bytes(size - used), NUMBER.pack(number)))
    with memoryview(data) as view:
        pack_into(">I", data, BLOCK_CRC_AT, crc32c(view[BLOCK_CRC_END:block_end], 0, KEEP_GIL))
        checksum = crc32c(view[CRC_END:], salt, KEEP_GIL)
        pack_into(">I", data, CRC_AT, checksum)
    data += mark(epoch, number + 1, checksum, salt)
    return data, checksum
