"""The open data directories of this process.

The rule: LMDB allows a file to be open once in a process, and not across a fork. Spark forks its
Python workers from a daemon that never reads, and reuses them for later tasks; so each process
opens a directory when it first reads it, and keeps it open. A directory that was replaced since is
opened again.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arneb_core.api.errors import StoreUnusable

if TYPE_CHECKING:
    from arneb_core.store.reading.snapshot_environment import SnapshotEnvironment

_Identity = tuple[int, int]
"""Device and inode of the store's data file."""


@dataclass(frozen=True, slots=True)
class _Opened:
    environment: "SnapshotEnvironment"
    identity: _Identity
    pid: int


_open: dict[str, _Opened] = {}


def environment(path: str) -> "SnapshotEnvironment":
    """Return the data directory ``path``, opened for reading.

    Raises :class:`arneb_core.api.errors.StoreUnusable`, whose text is one line for the user.
    """
    # Not at the top: Spark imports this package in every session to find its data sources,
    # and LMDB must not be needed for that.
    from arneb_core.store.reading.snapshot_environment import open_snapshot_environment

    real = os.path.realpath(path)
    identity = _identity(real)
    known = _open.get(real)
    if known is not None:
        if known.pid != os.getpid():
            # Not even closing it is safe here: that frees the parent's reader slots, and the
            # broker would use pages again that the parent still reads.
            raise StoreUnusable(
                f"{path} was opened before this process was forked, and LMDB cannot be used "
                "across a fork: start processes with 'spawn', or read only in one of them"
            )
        if known.identity == identity:
            return known.environment
        known.environment.close()
        del _open[real]
    opened = open_snapshot_environment(real)
    if identity is not None:
        _open[real] = _Opened(opened, identity, os.getpid())
    return opened


def close_environments() -> None:
    """Close this process's environments, for code that opens a directory in another way."""
    while _open:
        _, opened = _open.popitem()
        if opened.pid == os.getpid():
            opened.environment.close()


def _identity(path: str) -> _Identity | None:
    try:
        status = os.stat(os.path.join(path, "data.mdb"))
    except OSError:
        return None  # opening will say what is wrong
    return status.st_dev, status.st_ino
