"""The open data directories of this process.

The rule: LMDB takes a file once a process and not across a fork, and Spark forks its Python
workers and uses them again for later tasks. So each process opens a directory when it first
reads it and keeps it open. A directory that was replaced in the meantime is opened anew.
"""

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from arneb_core.store.snapshot import SnapshotEnvironment

_Identity = tuple[int, int]
"""Device and inode of the store's data file."""

_open: dict[str, tuple[_Identity, "SnapshotEnvironment"]] = {}
_owner_pid = os.getpid()
_inherited: Final[list[object]] = []
"""Environments of the process from which this one was forked: never used, never closed."""


def environment(path: str) -> "SnapshotEnvironment":
    """The data directory ``path``, opened for reading.

    Raises :class:`arneb_core.errors.StoreUnusable`, whose text is one line for the user.
    """
    # Not at the top: Spark imports this package in every session to find its data sources,
    # and LMDB must not be needed for that.
    from arneb_core.store.snapshot import open_snapshot_environment

    _forget_inherited()
    real = os.path.realpath(path)
    identity = _identity(real)
    known = _open.get(real)
    if known is not None:
        if known[0] == identity:
            return known[1]
        known[1].close()
        del _open[real]
    opened = open_snapshot_environment(real)
    if identity is not None:
        _open[real] = identity, opened
    return opened


def _identity(path: str) -> _Identity | None:
    try:
        status = os.stat(os.path.join(path, "data.mdb"))
    except OSError:
        return None  # opening will say what is wrong
    return status.st_dev, status.st_ino


def _forget_inherited() -> None:
    global _owner_pid
    if _owner_pid != os.getpid():
        _inherited.extend(opened for _, opened in _open.values())
        _open.clear()
        _owner_pid = os.getpid()
