"""The data directory: whose it is, and who may write to it.

The rule: a directory is inspected before it is touched, so that a refusal (foreign, locked, another
format) leaves every file as it was.

``arneb.lock`` carries the lock of the one broker that may write: an ``flock``, which ends with its
process, however that ends. The number in the file is only for people.
"""

import errno
import fcntl
import os
import shutil
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Final

from arneb_core.api.errors import ForeignDirectory, StoreDamaged, StoreLocked, StoreUnusable
from arneb_core.store.data_file.creating import NEW_NAME
from arneb_core.store.data_file.meta_pages import check_opened
from arneb_core.store.data_file.opening import DATA_NAME, LMDB_LOCK_NAME, LOCK_NAME, sync_directory
from arneb_core.store.data_file.pages import PageFile
from arneb_core.store.data_file.store_file import EVERY_TABLE, look_through, refuse
from arneb_core.store.directory.replacement import COPY_NAME, GIVEN_NAME
from arneb_core.store.format.regular_file import open_regular
from arneb_core.store.format.schema import Table
from arneb_core.store.journal.writing import JOURNAL_NAME

CONTROL_NAME: Final = "arneb.sock"
"""The socket through which a broker takes commands."""

FOREIGN_TOLERATED: Final = frozenset({"lost+found", CONTROL_NAME})
"""What a fresh file system holds, so that a data directory may be its mount point; and the socket
that a broker opens before the store."""

LEFT_BY_A_STORE: Final = frozenset({LMDB_LOCK_NAME, JOURNAL_NAME})
"""Files made once the data file exists: without it they are the remains of a store."""


MADE_BY_US: Final = frozenset({LOCK_NAME, NEW_NAME, COPY_NAME, GIVEN_NAME})
"""What a directory of ours may hold without a store: stores being made, and copies."""


class Content(Enum):
    """What a usable directory holds."""

    NOTHING = "nothing"
    STORE = "store"


class DirectoryLock:
    """The right to write to a data directory, held until :meth:`release`."""

    def __init__(self, path: Path, fd: int, content: Content) -> None:
        self.path = path
        self.content = content
        self._fd = fd

    def __repr__(self) -> str:
        return f"<DirectoryLock {self.path}, {self.content.name}>"

    @classmethod
    def take(cls, path: Path) -> "DirectoryLock":
        """Take the directory for this process, creating it if needed.

        Raises :class:`StoreLocked`, :class:`FormatMismatch`, :class:`ForeignDirectory`, or
        :class:`StoreUnusable` when the system does not allow it.
        """
        try:
            content = look_at(path)
            was_claimed = (path / LOCK_NAME).exists()
            make_directory(path)
            fd = open_regular(path / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o640)
        except OSError as error:
            raise StoreUnusable(f"cannot use {path}: {error.strerror}") from error
        try:
            _flock(fd, path)
            # Another broker may have been at work until now.
            content = look_at(path, locked=True)
            if content is Content.NOTHING:
                sync_names(path)
            with suppress(OSError):  # a full disk must not keep a broker from starting
                os.ftruncate(fd, 0)
                os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        except BaseException as error:
            os.close(fd)
            if not was_claimed and not isinstance(error, StoreLocked):
                (path / LOCK_NAME).unlink(missing_ok=True)  # we made it just now
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


def look_at(path: Path, *, locked: bool = False) -> Content:
    """Return what the directory holds, without changing anything. Every page is checked if it is
    ``locked``; before that a broker may be at work in it.

    Raises :class:`StoreDamaged`, :class:`ForeignDirectory`, :class:`FormatMismatch`.
    """
    if not path.exists():
        return Content.NOTHING
    if not path.is_dir():
        raise ForeignDirectory(f"{path} is not a directory")
    names = set(os.listdir(path)) - FOREIGN_TOLERATED
    claimed = LOCK_NAME in names
    if DATA_NAME in names:
        return _look_at_data(path, claimed=claimed, locked=locked)
    if left := names & LEFT_BY_A_STORE:
        raise StoreDamaged(f"{path} has no {DATA_NAME}, though {min(left)} is there")
    if names - (MADE_BY_US if claimed else set()):
        raise ForeignDirectory(f"{path} is not empty and holds no Arneb store")
    return Content.NOTHING


def _look_at_data(path: Path, *, claimed: bool, locked: bool) -> Content:
    """Inspect the file without LMDB, which would make a lock file and trust what it reads."""
    try:
        with PageFile(path / DATA_NAME) as file:
            meta = check_opened(file)
            if claimed and meta.transaction == 0:
                return Content.NOTHING  # a broker was killed before its first commit
            if locked or not claimed:
                tables = EVERY_TABLE if locked else frozenset[Table]()
                refuse(file.path, look_through(file, meta, claimed=claimed, tables=tables))
    except OSError as error:
        raise StoreUnusable(f"cannot read {path}/{DATA_NAME}: {error.strerror}") from error
    return Content.STORE


def _flock(fd: int, path: Path) -> None:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise
        raise in_use(path, holder_of(path)) from error


def holder_of(path: Path) -> str:
    """Return the process that has the store open, by its lock file; empty if none."""
    with (
        suppress(OSError, ValueError),
        open(open_regular(path / LOCK_NAME, os.O_RDONLY), encoding="ascii") as file,
    ):
        return file.read().strip()
    return ""


def is_held(path: Path) -> bool:
    """Return whether some process has the store open. The number in the lock file does not tell:
    another process may have it by now, as in a container, where each broker has the same."""
    with suppress(OSError):
        fd = open_regular(path / LOCK_NAME, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
    return False


def in_use(path: Path, holder: str) -> StoreLocked:
    """Return the error for a directory that another process has."""
    return StoreLocked(f"{path} is in use by another broker (process {holder or 'unknown'})")


def erase(path: Path) -> None:
    """Remove the store in a directory that no broker has open. A kill in between leaves a part of
    it.

    Raises as :meth:`DirectoryLock.take`, and :class:`OSError`.
    """
    lock = DirectoryLock.take(path)
    try:
        for name in (*sorted(LEFT_BY_A_STORE), DATA_NAME):
            (path / name).unlink(missing_ok=True)
        for name in (COPY_NAME, GIVEN_NAME):
            shutil.rmtree(path / name, ignore_errors=True)
        sync_directory(path)
    finally:
        lock.release()


def make_directory(path: Path) -> None:
    """Make a data directory and its parents, unless they exist."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o750 if each == path else 0o777, exist_ok=True)


def sync_names(path: Path) -> None:
    """Flush the directory entries that lead to a new store, which a power cut would take with any
    of its parents. Whether this start made them is unknown: an earlier one may have been killed."""
    path = path.absolute()
    for each in (path, *path.parents):
        if os.path.ismount(each):
            return
        with suppress(PermissionError):  # what we may not even read we have not made
            sync_directory(each.parent)
