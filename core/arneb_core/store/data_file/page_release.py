"""Page release: keeps what was read from the data file out of the process's memory figure.

LMDB reads through a memory map, also in order to write, and every page touched counts as resident
until the kernel reclaims it: draining a backlog of 300 MB would make a broker of 50 MB look like
one of 350, to people and to memory limits, and so would 30,000 commits. The rule: after a certain
number of bytes read, tell the kernel that this process no longer needs the pages mapped. They stay
in the page cache, and touching one only maps it again.
"""

import ctypes
import os
from pathlib import Path
from typing import Final

FORGET_BYTES: Final = 16 << 20
"""Bytes that may become resident; mapping them again costs about 0.1 us per 4 KiB."""

AROUND_BYTES: Final = 64 << 10
"""What the kernel maps around a touched page: sixteen pages, if it has them cached."""

MADV_DONTNEED: Final = 4
MAPS: Final = Path("/proc/self/maps")


class PageRelease:
    """The mapping of one data file, as far as this system shows it."""

    def __init__(self, data_file: Path) -> None:
        self._range = _mapping(data_file)
        self._bytes = 0

    def __repr__(self) -> str:
        return f"<PageRelease after {self._bytes} bytes>"

    def read(self, size: int) -> None:
        """Count ``size`` bytes read in one place. May be called from any thread: a lost count is
        harmless."""
        self._bytes += size + AROUND_BYTES
        if self._bytes >= FORGET_BYTES:
            self.forget()

    def forget(self) -> None:
        """Unmap what is resident; safe while others read: their pages are mapped again."""
        self._bytes = 0
        if self._range is not None:
            address, size = self._range
            _LIBC.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), MADV_DONTNEED)


_LIBC: Final = ctypes.CDLL(None)


def _mapping(data_file: Path) -> tuple[int, int] | None:
    """Return the address range of the mapped file; None without ``/proc``."""
    try:
        found = data_file.stat()
        device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
        for line in MAPS.read_text().splitlines():
            span, _mode, _offset, where, inode = line.split(maxsplit=5)[:5]
            if int(inode) == found.st_ino and where == device:
                start, end = (int(part, 16) for part in span.split("-"))
                return start, end - start
    except (OSError, ValueError):
        pass
    return None
