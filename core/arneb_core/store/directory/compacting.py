"""Compacting: the data file of an unused directory, rewritten without free pages.

The rule: the old file stays whole under its name until the new one is on disk, and then one rename
puts that in its place; any end before that leaves the old one. The journal stays unchanged: the new
file, like the old one, has the state of its takeover.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import lmdb

from arneb_core.api.errors import StoreFailed, StoreLocked, StoreUnusable
from arneb_core.store.data_file.opening import (
    DATA_NAME,
    LMDB_LOCK_NAME,
    copy_environment,
    open_lmdb,
    sync_directory,
    sync_file,
)
from arneb_core.store.directory.directory import Content, DirectoryLock
from arneb_core.store.format.regular_file import open_regular

NEW_NAME: Final = "arneb.compacted"
"""The directory inside the data directory in which the new file is written. What a kill leaves of
it is as large as the store; the next opener removes it."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """Bytes of the data file on disk, before and after."""

    before: int
    after: int


def compact(path: Path) -> Compacted:
    """Compact the store in ``path``.

    Raises :class:`StoreLocked` while a broker or a reader in another process has it open,
    :class:`StoreUnusable` when there is none, and :class:`StoreFailed` when there is no room for
    the new file.
    """
    if not (path / DATA_NAME).exists():
        raise StoreUnusable(f"{path} holds no Arneb store")
    directory = DirectoryLock.take(path)
    try:
        if directory.content is not Content.STORE:
            raise StoreUnusable(f"{path} holds no Arneb store")
        with _without_readers(path):
            return _compact(path)
    except (lmdb.Error, OSError) as error:
        raise StoreFailed(f"cannot compact the store in {path}: {error}") from error
    finally:
        directory.release()


def _compact(path: Path) -> Compacted:
    data, new = path / DATA_NAME, path / NEW_NAME
    before = _on_disk(data)
    shutil.rmtree(new, ignore_errors=True)  # of an earlier, interrupted run
    try:
        new.mkdir(mode=0o750)
        # Without the lock file: its table of readers belongs to the old file.
        env = open_lmdb(path, readonly=True, lock=False)
        try:
            _give_back_room_ahead(env, data)
            copy_environment(env, new, compact=True)
        finally:
            env.close()
        # Perhaps run by root: the broker's user must still own the file.
        owned = data.stat()
        os.chown(new / DATA_NAME, owned.st_uid, owned.st_gid)
        os.chmod(new / DATA_NAME, owned.st_mode & 0o777)
        sync_file(new / DATA_NAME)
        os.replace(new / DATA_NAME, data)
        sync_directory(path)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    # The next opener makes a new one; a process waiting for the old one has the old file.
    (path / LMDB_LOCK_NAME).unlink(missing_ok=True)
    return Compacted(before, _on_disk(data))


def _give_back_room_ahead(env: lmdb.Environment, data: Path) -> None:
    """Cut off what is allocated after the last page ever used: on a full disk the new file may
    need it."""
    used = (env.info()["last_pgno"] + 1) * env.stat()["psize"]
    if data.stat().st_size > used:
        os.truncate(data, used)


@contextmanager
def _without_readers(path: Path) -> Iterator[None]:
    """Hold LMDB's own lock on its lock file, which every process shares that has the store open: a
    reader continuing on the old file would be taken for one of the new."""
    try:
        fd = open_regular(path / LMDB_LOCK_NAME, os.O_RDWR)
    except FileNotFoundError:
        yield
        return
    try:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            raise StoreLocked(f"{path} is being read by another process") from error
        yield
    finally:
        os.close(fd)


def _on_disk(file: Path) -> int:
    return file.stat().st_blocks * 512
