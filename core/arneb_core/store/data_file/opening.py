"""Opening LMDB: the file, its options, its tables and its format version.

The rule: every environment of the project is opened here, so that the options on which durability
and readers depend are set in one place.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import lmdb

from arneb_core.api.errors import StoreFailed
from arneb_core.store.data_file.meta_pages import check_file
from arneb_core.store.format.regular_file import open_regular
from arneb_core.store.format.schema import Table

DATA_NAME: Final = "data.mdb"
LMDB_LOCK_NAME: Final = "lock.mdb"
"""LMDB's names for its two files."""
LOCK_NAME: Final = "arneb.lock"
"""Marks a directory as ours, and locks it for one writer; see :mod:`.directory`."""

Tables = Mapping[Table, Any]
"""The open table handles; ``lmdb._Database`` has no public name."""

MAP_BYTES: Final = 1 << 40
"""Address space reserved for the file, far more than it will need: the map never has to grow, which
LMDB allows only while nobody reads. It costs neither memory nor disk: an open store measured 0.2 MB
more than the interpreter alone."""

MAP_BYTES_MIN: Final = 1 << 26
FILE_MODE: Final = 0o640
READERS_MAX: Final = 2048
"""Set by the creator of the lock file, so every opener passes the same."""

LMDB_LOCK_BYTES: Final = 128 + 64 * READERS_MAX
"""The header, then 64 bytes per reader."""


def open_lmdb(
    path: str | os.PathLike[str],
    *,
    readonly: bool,
    new: bool = False,
    lock: bool = True,
    map_bytes: int = MAP_BYTES,
) -> lmdb.Environment:
    """Open LMDB with the options that the store depends on. Unless it is ``new``, the file is
    checked against its own meta pages before LMDB maps it. Without ``lock``, the caller ensures
    that nobody writes.

    Raises ``lmdb.Error``, :class:`OSError`, :class:`.StoreUnusable` and its kinds.
    """
    if not new:
        check_file(Path(path, DATA_NAME))
    while True:
        try:
            return lmdb.Environment(
                os.fspath(path),
                map_size=map_bytes,
                readonly=readonly,
                create=new,
                lock=lock,
                mode=FILE_MODE,
                # fsync before a commit returns, and write only through descriptors, so that a disk
                # error is an exception and not a SIGBUS.
                sync=True,
                metasync=True,
                writemap=False,
                # Cold readers read pages in log order, and nobody reads at random.
                readahead=True,
                max_readers=READERS_MAX,
                max_dbs=len(Table) + 2,
                # The engine of LMDB 0.9; files of LMDB 1.0 are another format.
                lib_version=0,
            )
        except lmdb.MemoryError:
            # The process may have limited address space (RLIMIT_AS).
            if map_bytes // 4 < MAP_BYTES_MIN:
                raise
            map_bytes //= 4


def allocate_lock_file(path: str | os.PathLike[str]) -> None:
    """Give LMDB's lock file its disk space, before LMDB opens it.

    LMDB makes it sparse and writes to it through memory, so on a full disk a new reader would kill
    the process with SIGBUS. Do not call this while this process has the environment open: closing
    the file here would drop LMDB's locks on it.
    """
    fd = open_regular(os.path.join(path, LMDB_LOCK_NAME), os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        size = os.fstat(fd).st_size or LMDB_LOCK_BYTES
        with suppress(OSError):  # not every file system can; a copy may be opened on a full disk
            os.posix_fallocate(fd, 0, size)
    finally:
        os.close(fd)


def open_tables(env: lmdb.Environment) -> Tables:
    """Open all tables of an existing store; raises ``lmdb.Error`` if one is missing."""
    return {table: env.open_db(table.value, create=False) for table in Table}


def copy_environment(
    env: lmdb.Environment, target: str | os.PathLike[str], *, compact: bool
) -> None:
    """Write a consistent copy of the file, durably, into an empty directory."""
    try:
        env.copy(os.fspath(target), compact=compact)
        data = os.path.join(target, DATA_NAME)
        os.chmod(data, FILE_MODE)  # LMDB makes it readable for everybody
        sync_file(data)
        sync_directory(target)
    except (lmdb.Error, OSError) as error:
        raise StoreFailed(f"cannot copy the store to {os.fspath(target)}: {error}") from error


def sync_directory(path: str | os.PathLike[str]) -> None:
    """Flush the names in a directory; without that a new file may vanish in a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: str | os.PathLike[str]) -> None:
    """Flush a file that was written elsewhere."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
