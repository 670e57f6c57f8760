"""Writing the journal: a whole new file, or block by block past the page cache.

The rule: what :meth:`OpenJournal.write` has written is on disk when it returns. It goes from a
buffer of its own to the disk (``O_DIRECT``), in a call that also makes the disk flush its cache
(``O_DSYNC``): the page cache has no part in it, and readers of the file bypass it too
(:mod:`.journal.file`). On file systems that cannot do that it is written through the cache,
which takes longer and is no less safe.
"""

import errno
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from arneb_core.store.data_file.opening import sync_directory
from arneb_core.store.format.commit_record import STAMP_BYTES, CommitRecord
from arneb_core.store.format.records import JournalLayout, JournalState
from arneb_core.store.format.regular_file import open_regular
from arneb_core.store.journal.record import (
    BLOCK_BYTES,
    blank,
    end_of_block,
    in_blocks_plainly,
    mark,
    stamps_of,
)
from arneb_core.store.journal.slots import in_slots

JOURNAL_NAME: Final = "arneb.journal"

JOURNAL_BYTES: Final = 1 << 22
"""What a busy publisher sends between two takeovers, and small enough to be filled with zeros at
the first use, so that no write allocates."""

STAMP_SHIFT: Final = (BLOCK_BYTES // STAMP_BYTES).bit_length() - 1
"""An offset in the file, shifted right by this, is that of its block's stamp in the stamps."""

NOT_DIRECTLY: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP})
"""Errors of file systems that cannot write past the page cache, or not in such blocks."""


class OpenJournal:
    """The journal's file, open for writing whole blocks, and the first bytes of each block."""

    def __init__(
        self, directory: Path, stamps: bytes, bytes_max: int, *, directly: bool = True
    ) -> None:
        """``stamps``: of its blocks; ``bytes_max``: of one write; ``directly``: past the page
        cache, where possible. Raises :class:`OSError`."""
        self._path = directory / JOURNAL_NAME
        self._stamps = bytearray(stamps)
        # Begins at a page boundary, as the disk wants it, and is used for nothing else.
        self._buffer = mmap.mmap(-1, end_of_block(bytes_max))
        self._view = memoryview(self._buffer)
        self._fd, self.is_direct = _opened(self._path, self._view, directly)
        self.is_refused = False
        """Writing past the page cache failed, although opening the file did not."""

    def __repr__(self) -> str:
        way = "past" if self.is_direct else "through"
        return f"<OpenJournal {self._path}, {way} the page cache>"

    def stamp_at(self, offset: int) -> bytearray:
        """Return the first bytes of the block that begins at ``offset``."""
        at = offset >> STAMP_SHIFT
        return self._stamps[at : at + STAMP_BYTES]

    def write(self, data: bytes | bytearray, offset: int) -> None:
        """Write ``data`` to disk in blocks of its own at ``offset``, a block boundary; blocks until
        it is there. Raises :class:`OSError` unless all of it is."""
        size = len(data)
        self._buffer[:size] = data
        blocks = self._view[: size + -size % BLOCK_BYTES]
        try:
            write_at(self._fd, blocks, offset)
        except OSError as error:
            self.is_refused = self.is_direct and error.errno in NOT_DIRECTLY
            raise
        at = offset >> STAMP_SHIFT
        if size <= BLOCK_BYTES:  # the usual case
            self._stamps[at : at + STAMP_BYTES] = self._buffer[:STAMP_BYTES]
        else:
            stamps = stamps_of(blocks)
            self._stamps[at : at + len(stamps)] = stamps

    def close(self) -> None:
        os.close(self._fd)  # not the buffer: an error's traceback may refer to a part of it


def _opened(path: Path, buffer: memoryview, directly: bool) -> tuple[int, bool]:
    """Open the file for synchronous writes; return whether they go past the page cache."""
    flags = os.O_RDWR | os.O_DSYNC
    if directly and hasattr(os, "O_DIRECT"):
        try:
            fd = open_regular(path, flags | os.O_DIRECT)
            try:
                os.preadv(fd, [buffer[:BLOCK_BYTES]], 0)  # some refuse only now
            except OSError:
                os.close(fd)
                raise
        except OSError as error:
            if error.errno not in NOT_DIRECTLY:
                raise
        else:
            return fd, True
    return open_regular(path, flags), False


def write_file(directory: Path, state: JournalState, records: Iterable[CommitRecord] = ()) -> bytes:
    """Write a whole journal file, durably: ``records``, which follow ``state``, and their end.
    Return the stamps of its blocks."""
    data = whole_file(state, records)
    # Not truncated first: on a full disk its blocks might not be had again.
    fd = open_regular(directory / JOURNAL_NAME, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        # Linux keeps the data of one write as one piece of its cache (a large folio), up to the
        # whole file. Where records are written through the cache, each would dirty the whole piece:
        # a fifth more processor time per commit, and 4 MiB in every count of bytes written.
        for begin in range(0, len(data), BLOCK_BYTES):
            write_at(fd, memoryview(data)[begin : begin + BLOCK_BYTES], begin)
        os.ftruncate(fd, JOURNAL_BYTES)
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_directory(directory)
    return stamps_of(data)


def whole_file(state: JournalState, records: Iterable[CommitRecord] = ()) -> bytearray:
    """Return the bytes that :func:`write_file` writes."""
    if state.layout is JournalLayout.SLOTS:
        return _whole_in_slots(state, records)
    data = bytearray(JOURNAL_BYTES)
    for at in range(0, JOURNAL_BYTES, BLOCK_BYTES):
        data[at : at + STAMP_BYTES] = blank(state.epoch, at)
    first = mark(state.epoch, state.number + 1, state.checksum, state.salt)
    data[: len(first)] = first
    offset, checksum = 0, state.checksum
    for record in records:
        made, checksum = in_blocks_plainly(
            state.epoch,
            record.number,
            checksum,
            state.salt,
            record.changes,
            offset,
            lambda at: data[at : at + STAMP_BYTES],
        )
        data[offset : offset + len(made)] = made
        offset = end_of_block(offset + len(made))
    assert len(data) == JOURNAL_BYTES, "expected records that fit into the file, got more"
    return data


def _whole_in_slots(state: JournalState, records: Iterable[CommitRecord]) -> bytearray:
    data = bytearray(JOURNAL_BYTES)
    end = mark(state.epoch, state.number + 1, state.checksum, state.salt)
    data[: len(end)] = end
    offset, checksum = 0, state.checksum
    for record in records:
        made, checksum = in_slots(
            state.epoch, record.number, checksum, state.salt, record.changes, offset
        )
        data[offset : offset + len(made)] = made
        offset += len(made) - len(end)
    return data


def write_at(fd: int, data: memoryview, at: int) -> None:
    """Write to a journal with one call; raises :class:`OSError` unless all of it is written."""
    written = os.pwrite(fd, data, at)
    if written != len(data):
        raise OSError(f"expected to write {len(data)} bytes of the journal, got {written}")
