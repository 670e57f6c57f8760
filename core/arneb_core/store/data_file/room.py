"""Room: the disk space that the data file may still grow into, allocated before it is needed.

LMDB notices a full disk in the middle of a commit, when no space is left for acknowledgements and
deletions either. The rule: the file always has :data:`RESERVE_BYTES` allocated that hold nothing,
after its used part or in its holes; appends are refused before they would use it; everything else
may use it. So on a full disk consumers continue, their acknowledgements stay durable, trimming
frees pages inside the file, and appends find room again, there or on the disk.
"""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from arneb_core.api.errors import StoreFull
from arneb_core.store.format.regular_file import open_regular

RESERVE_BYTES: Final = 8 << 20
"""A cursor row costs a few pages of 4 KiB, which are reused two commits later."""

STEP_BYTES_MIN: Final = 8 << 20
STEP_BYTES_MAX: Final = 256 << 20
"""The file is allocated ahead in steps of a quarter of its used size, within these bounds."""

STAT_BLOCK_BYTES: Final = 512
"""The unit of ``st_blocks``, everywhere."""

NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
CANNOT_ALLOCATE: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


class Room:
    """The allocated size of one file, and its bound.

    ``used`` and ``free`` ask LMDB: bytes of the file up to its last page, and those of them that
    hold nothing. Both cost too much to be asked at every commit.
    """

    def __init__(
        self,
        path: Path,
        bytes_max: int | None,
        used: Callable[[], int],
        free: Callable[[], int],
    ) -> None:
        # Open for good: a process without descriptors left must still be able to grow the file.
        self._fd = open_regular(path, os.O_RDWR)
        self._allocated = os.fstat(self._fd).st_size
        self._bytes_max = bytes_max
        self._reserve = RESERVE_BYTES if bytes_max is None else min(RESERVE_BYTES, bytes_max // 4)
        self._used = used
        self._free = free
        self._used_at_most = used()

    def __repr__(self) -> str:
        return f"<Room {self._allocated} bytes allocated, {self._bytes_max} at most>"

    @property
    def allocated_bytes(self) -> int:
        return self._allocated

    @property
    def on_disk_bytes(self) -> int:
        """Bytes that the file really takes: on some file systems it has holes."""
        found = os.fstat(self._fd)
        return min(found.st_size, found.st_blocks * STAT_BLOCK_BYTES)

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def take(self, need: int) -> None:
        """Set aside ``need`` bytes for a commit that appends, or raise :class:`StoreFull`."""
        self.ensure(need)
        self._used_at_most += need

    def ensure(self, need: int) -> None:
        """Raise :class:`StoreFull` unless a later commit can have ``need`` bytes."""
        wanted = need + self._reserve
        if self._allocated - self._used_at_most < wanted:
            self._used_at_most = self._used()
            if self._allocated - self._used_at_most < wanted:
                self._make(need, wanted)

    def is_at_hand(self, need: int) -> bool:
        """Whether ``need`` bytes are there without making the file larger."""
        wanted = need + self._reserve
        if self._allocated - self._used_at_most < wanted:
            self._used_at_most = self._used()
        return self._allocated - self._used_at_most >= wanted

    def seems_at_hand(self, need: int) -> bool:
        """The same by the last known figures, for another thread than the committing one."""
        return self._allocated - self._used_at_most >= need + self._reserve

    def spend(self, need: int) -> None:
        """Count a commit without appends that may have used ``need`` bytes of the reserve."""
        self._used_at_most += need

    def _make(self, need: int, wanted: int) -> None:
        step = min(max(self._used_at_most // 4, STEP_BYTES_MIN), STEP_BYTES_MAX)
        for size in (self._used_at_most + wanted + step, self._used_at_most + wanted):
            if self._grow(size):
                return
        # The file cannot grow, but it may have holes, with the reserve in them. If they are too
        # small for a block, LMDB meets the end of the file, which is a clean failure.
        left = self._free() + self._allocated - self._used_at_most
        if left < 2 * need + self._reserve:
            where = "disk" if self._bytes_max is None else f"disk or bound of {self._bytes_max}"
            raise StoreFull(f"{where} is full: cannot add {need} bytes to the data file")

    def _grow(self, size: int) -> bool:
        """Try to allocate the file up to ``size``; False when there is no space for that."""
        if self._bytes_max is not None and size > self._bytes_max:
            return False
        try:
            os.posix_fallocate(self._fd, self._allocated, size - self._allocated)
        except OSError as error:
            if error.errno in NO_SPACE:
                self._allocated = os.fstat(self._fd).st_size
                return False
            if error.errno not in CANNOT_ALLOCATE:
                raise
            # This file system cannot allocate ahead: trust, and let LMDB meet the full disk.
        self._allocated = size
        return True
