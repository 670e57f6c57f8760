"""The bytes of a journal's file, read past the page cache.

The rule: read what the disk has. Linux drops cached data of a block that is written past the cache,
but not while somebody is copying it from there: that reader would see the time before the last
record until LMDB has it, and the writer would get an error. What the disk cannot read becomes
zeros, and so is found to be damaged.
"""

import errno
import mmap
import os
from pathlib import Path
from typing import Final

from arneb_core.store.format.regular_file import open_regular
from arneb_core.store.journal.record import BLOCK_BYTES, end_of_block
from arneb_core.store.journal.writing import NOT_DIRECTLY

READ_BYTES: Final = 4096
"""Bytes read at a time from a disk that cannot read all of the file."""


def bytes_of(path: Path, early: bytes = b"", up_to: int | None = None) -> bytes:
    """Return the file; or its first ``up_to`` bytes, which end at a block boundary, followed by the
    bytes read ``early``. Raises :class:`OSError` when it cannot be opened."""
    try:
        return _read(path, getattr(os, "O_DIRECT", 0), early, up_to)
    except OSError as error:
        if error.errno not in NOT_DIRECTLY:
            raise
    return _read(path, 0, early, up_to)


def _read(path: Path, flags: int, early: bytes, up_to: int | None) -> bytes:
    fd = open_regular(path, os.O_RDONLY | flags)
    try:
        size = os.fstat(fd).st_size
        asked = size if up_to is None else min(size, up_to)
        # The buffer begins at a page boundary, as direct reads require.
        with (
            mmap.mmap(-1, end_of_block(asked) or BLOCK_BYTES) as buffer,
            memoryview(buffer) as view,
        ):
            try:
                _read_into(view, fd)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                for at in range(0, asked, READ_BYTES):
                    with view[at : at + READ_BYTES] as piece:
                        _read_piece(piece, fd, at)
            return bytes(view[:asked]) + early[asked:size]
    finally:
        os.close(fd)


def _read_into(view: memoryview, fd: int) -> None:
    at = 0
    while at < len(view):
        with view[at:] as rest:
            read = os.preadv(fd, [rest], at)
        if not read or read % BLOCK_BYTES:  # the end
            return
        at += read


def _read_piece(piece: memoryview, fd: int, at: int) -> None:
    try:
        os.preadv(fd, [piece], at)
    except OSError as error:
        if error.errno in NOT_DIRECTLY:
            raise  # the disk's own blocks are larger, so this says nothing about the contents
        piece[:] = bytes(len(piece))
