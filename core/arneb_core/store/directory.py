"""The data directory: whose it is, and who may write to it.

The rule: a directory is looked at before it is touched, so that a refusal (foreign, locked,
another format) leaves every file as it was.

``arneb.lock`` carries the lock of the one broker that may write: an ``flock``, which goes
with its process however that ends. The number in the file is for people only.
"""

import errno
import fcntl
import os
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

import lmdb

from arneb_core.errors import ForeignDirectory, FormatMismatch, StoreLocked, StoreUnusable
from arneb_core.store.opening import (
    DATA_NAME,
    LMDB_LOCK_NAME,
    check_format,
    open_lmdb,
    sync_directory,
)

LOCK_NAME: Final = "arneb.lock"
FOREIGN_TOLERATED: Final = frozenset({"lost+found"})
"""What a fresh file system holds, so that a data directory may be its mount point."""


class Content(Enum):
    """What a directory that may be used holds."""

    NOTHING = "nothing"
    STORE = "store"


class DirectoryLock:
    """The right to write to a data directory, held until :meth:`release`."""

    def __init__(self, path: Path, fd: int, content: Content) -> None:
        self.path = path
        self.content = content
        self._fd = fd

    @classmethod
    def take(cls, path: Path) -> "DirectoryLock":
        """Take the directory for this process, making it if it is not there.

        Raises :class:`StoreLocked`, :class:`FormatMismatch`, :class:`ForeignDirectory`, or
        :class:`StoreUnusable` when the system does not let us.
        """
        try:
            content = look_at(path)
            if not path.exists():
                _make(path)
            fd = os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        except OSError as error:
            raise StoreUnusable(f"cannot use {path}: {error.strerror}") from error
        try:
            _flock(fd, path)
            # Another broker may have been at work until now.
            content = look_at(path)
            with suppress(OSError):  # a full disk must not keep a broker from starting
                os.ftruncate(fd, 0)
                os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        except BaseException as error:
            os.close(fd)
            if isinstance(error, OSError):
                raise StoreUnusable(f"cannot lock {path}: {error.strerror}") from error
            raise
        return cls(path, fd, content)

    def release(self) -> None:
        """Let another broker in. Idempotent."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def look_at(path: Path) -> Content:
    """What the directory holds, without changing anything.

    Raises :class:`StoreLocked`, :class:`ForeignDirectory`, :class:`FormatMismatch`.
    """
    if not path.exists():
        return Content.NOTHING
    if not path.is_dir():
        raise ForeignDirectory(f"{path} is not a directory")
    names = set(os.listdir(path)) - FOREIGN_TOLERATED
    if DATA_NAME in names:
        return _look_at_data(path, claimed=LOCK_NAME in names)
    if names - {LOCK_NAME, LMDB_LOCK_NAME}:
        raise ForeignDirectory(f"{path} is not empty and holds no Arneb store")
    return Content.NOTHING


def _look_at_data(path: Path, *, claimed: bool) -> Content:
    """Open the data file without LMDB's lock file, which would be made by opening it."""
    if (path / DATA_NAME).stat().st_size == 0:
        if claimed:
            return Content.NOTHING
        raise ForeignDirectory(f"{path}/{DATA_NAME} is empty and not an Arneb store")
    try:
        env = open_lmdb(path, readonly=True, lock=False)
    except lmdb.VersionMismatchError as error:
        raise FormatMismatch(f"{path}/{DATA_NAME} was written by another LMDB engine") from error
    except (lmdb.InvalidError, lmdb.CorruptedError) as error:
        raise ForeignDirectory(f"{path}/{DATA_NAME} is not a file of LMDB 0.9") from error
    except lmdb.Error as error:
        if "already open" in str(error):
            raise StoreLocked(f"{path} is open in this process") from error
        raise StoreUnusable(f"cannot read {path}/{DATA_NAME}: {error}") from error
    try:
        if claimed and env.info()["last_txnid"] == 0:
            return Content.NOTHING  # a broker was killed before its first commit
        check_format(env, path)
    except lmdb.NotFoundError as error:
        raise ForeignDirectory(f"{path}/{DATA_NAME} is not an Arneb store") from error
    except lmdb.Error as error:
        raise StoreUnusable(f"cannot read {path}/{DATA_NAME}: {error}") from error
    finally:
        env.close()
    return Content.STORE


def _flock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise
        holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
        raise StoreLocked(f"{path} is in use by another broker (process {holder})") from error


def _make(path: Path) -> None:
    path.mkdir(parents=True, mode=0o750)
    sync_directory(path.parent)
