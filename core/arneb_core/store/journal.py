"""The journal: tiny runs that are on disk already and in LMDB a moment later.

The rule: a run counts as committed once its record is on disk here, and it stays in memory and
in this file until a commit of LMDB has taken it over. An LMDB commit flushes twice (its pages,
then the page that makes them count); a record of the journal is one synchronous write into a
file that has all its blocks already, a third of the time. Why that is worth a second file:
docs/decisions/0010-tiny-commits-go-to-a-journal.md.

Records follow each other from the start of the file; after a takeover the next one is written
at the start again. LMDB keeps the number of the last record that it has taken over, so older
records behind the newest are told apart by their numbers, and half a record by its checksum.

====== ====== ===================================================================
offset type   field of a record
====== ====== ===================================================================
0      u32    CRC-32C of everything behind this field
4      u32    bytes of the block
8      u64    number: one more than that of the record before
16     u32    topic id
20     u32    zero
24            a block, see :mod:`.block`
====== ====== ===================================================================
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from struct import Struct, pack_into
from typing import Final, NamedTuple

from crc32c import crc32c

from arneb_core.position import ENTRY_MASK, Position, entry_of
from arneb_core.store.block import BlockCorrupt, decode_block, encode_block
from arneb_core.store.changes import Block
from arneb_core.store.opening import sync_directory
from arneb_core.store.schema import TopicId

JOURNAL_NAME: Final = "arneb.journal"

JOURNAL_BYTES: Final = 1 << 20
"""Small enough to be filled with zeros at the first use, so that no write allocates."""

RECORDS_MAX: Final = 256
"""Taken over together then. More would make the takeover longer, and a reader's overlay."""

RUN_BYTES_MAX: Final = 16 * 1024
"""A larger run gains nothing: its bytes take longer than the flush that is saved."""

RECORD: Final = Struct(">IIQII")
CRC_END: Final = 4
KEEP_GIL: Final = 0


class Record(NamedTuple):
    """A run that LMDB may not have yet."""

    number: int
    topic_id: TopicId
    first: Position
    entries: list[bytes]


class Journal:
    """The journal of one open store. It belongs to the thread that commits; only
    :attr:`pending` may be copied by others."""

    def __init__(self, directory: Path, taken_over: int) -> None:
        """``taken_over``: the last record that LMDB has."""
        self._directory = directory
        self.pending = read_journal(directory, taken_over)
        """What LMDB does not have, oldest first."""
        self._number = self.pending[-1].number if self.pending else taken_over
        self._offset = 0
        self._fd = -1
        # What was found is taken over before anything is written over it.
        self._usable = not self.pending

    def __repr__(self) -> str:
        return f"<Journal {len(self.pending)} pending, last {self._number}>"

    @property
    def number(self) -> int:
        """Of the last record, be it only begun: a takeover covers all up to it."""
        return self._number

    @property
    def must_be_taken_over(self) -> bool:
        """LMDB has not got everything, or a write has failed."""
        return bool(self.pending) or not self._usable

    def takes(self, size: int) -> bool:
        """Whether a run of ``size`` bytes can go here now."""
        return (
            self._usable
            and size <= RUN_BYTES_MAX
            and len(self.pending) < RECORDS_MAX
            and self._offset + 2 * RUN_BYTES_MAX <= JOURNAL_BYTES
        )

    def prepare(self) -> None:
        """Make the file now, so that the first :meth:`append` need not. Raises :class:`OSError`."""
        if self._fd < 0:
            self._fd = _open(self._directory)

    def append(self, topic_id: TopicId, first: Position, entries: list[bytes]) -> int:
        """Put a run on disk; how many bytes that were. Blocks until it is there.

        Raises :class:`OSError`; then nothing more is taken until the next takeover, which also
        makes sure that a record which got there all the same does not count.
        """
        self.prepare()
        self._number += 1
        block = encode_block(first, entries)
        record = bytearray(RECORD.size) + block
        RECORD.pack_into(record, 0, 0, len(block), self._number, topic_id, 0)
        with memoryview(record) as view:
            pack_into(">I", record, 0, crc32c(view[CRC_END:], 0, KEEP_GIL))
        self._usable = False
        written = os.pwrite(self._fd, record, self._offset)
        if written != len(record):
            raise OSError(f"expected to write {len(record)} bytes of the journal, got {written}")
        self._usable = True
        self._offset += written
        self.pending.append(Record(self._number, topic_id, first, entries))
        return written

    def taken_over(self) -> None:
        """LMDB has everything up to :attr:`number`, durably."""
        # A new list: whoever copies the old one meanwhile has a whole one.
        self.pending = []
        self._offset = 0
        self._usable = True

    def drop_through(self, number: int) -> None:
        """LMDB turns out to have the records up to ``number``."""
        self.pending = [each for each in self.pending if each.number > number]
        self._number = max(self._number, number)

    def close(self) -> None:
        """Give the file back. What is pending is found again by the next one who opens it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._usable = False


def read_journal(directory: Path, taken_over: int) -> list[Record]:
    """The records behind number ``taken_over``, oldest first.

    Raises :class:`OSError` when the file is there and cannot be read.
    """
    found: list[Record] = []
    try:
        data = (directory / JOURNAL_NAME).read_bytes()
    except FileNotFoundError:
        return found
    offset = 0
    while (record := _parse(data, offset, taken_over + len(found) + 1)) is not None:
        found.append(record)
        offset += RECORD.size + RECORD.unpack_from(data, offset)[1]
    return found


def write_journal(directory: Path, records: Iterable[Record]) -> None:
    """Write a journal file that holds ``records``, durably, for a copy of a store."""
    data = bytearray()
    for number, topic_id, first, entries in records:
        block = encode_block(first, entries)
        tail = RECORD.pack(0, len(block), number, topic_id, 0)[CRC_END:] + block
        data += crc32c(tail).to_bytes(4, "big") + tail
    with (directory / JOURNAL_NAME).open("xb") as file:
        file.write(data.ljust(JOURNAL_BYTES, b"\0"))
        file.flush()
        os.fsync(file.fileno())


def runs_by_topic(records: Iterable[Record]) -> dict[TopicId, list[tuple[Position, list[bytes]]]]:
    """The runs of each topic in log order, those that continue each other made one."""
    topics: dict[TopicId, list[tuple[Position, list[bytes]]]] = {}
    for _, topic_id, first, entries in records:
        runs = topics.setdefault(topic_id, [])
        if runs and runs[-1][0] + len(runs[-1][1]) == first:
            runs[-1][1].extend(entries)
        else:
            runs.append((first, list(entries)))
    return topics


def merged_blocks(records: Iterable[Record]) -> list[Block]:
    """The runs as a commit wants them."""
    topics = runs_by_topic(records)
    return [(topic, first, entries) for topic, runs in topics.items() for first, entries in runs]


def _parse(data: bytes, offset: int, number: int) -> Record | None:
    """The record at ``offset`` if it is whole and has that number."""
    if offset + RECORD.size > len(data):
        return None
    crc, length, found, topic_id, zero = RECORD.unpack_from(data, offset)
    end = offset + RECORD.size + length
    if found != number or zero or end > len(data):
        return None
    with memoryview(data) as view:
        if crc32c(view[offset + CRC_END : end]) != crc:
            return None
    try:
        first, entries = decode_block(data[offset + RECORD.size : end])
    except BlockCorrupt:
        return None
    if not entries or entry_of(first) + len(entries) - 1 > ENTRY_MASK:
        return None
    return Record(found, TopicId(topic_id), first, entries)


def _open(directory: Path) -> int:
    """The file, made full size if it is not; every write is on disk when it returns."""
    path = directory / JOURNAL_NAME
    flags = os.O_RDWR | os.O_CLOEXEC
    with suppress(FileNotFoundError):
        if path.stat().st_size == JOURNAL_BYTES:
            return os.open(path, flags | os.O_DSYNC)
    fd = os.open(path, flags | os.O_CREAT | os.O_TRUNC, 0o640)
    try:
        written = os.pwrite(fd, bytes(JOURNAL_BYTES), 0)
        if written != JOURNAL_BYTES:
            raise OSError(f"expected to write {JOURNAL_BYTES} bytes of the journal, got {written}")
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_directory(directory)
    return os.open(path, flags | os.O_DSYNC)
