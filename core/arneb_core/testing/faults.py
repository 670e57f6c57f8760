"""Faults: a store that fails, stalls or dies on command, and a disk that does.

The rule: a fault is exact and repeatable. :class:`FaultyStore` fails in place of the store, for
tests of what is above it; :func:`broken_disk` fails below LMDB, for tests of the store itself.
"""

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from pathlib import Path
from typing import Final
from unittest.mock import patch

from arneb_core.api.errors import CommitFailed, StoreFailed
from arneb_core.store.commit.commit_log import Lent
from arneb_core.store.data_file.opening import DATA_NAME
from arneb_core.store.environment import Store, StoreStatistics
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.journal import writing as journal_writing
from arneb_core.store.reading.snapshot import Snapshot

HELD_MAX_S: Final = 15.0
"""A test that fails while commits are held must still end: engines wait for their commits."""


class Died(SystemExit):
    """The process is gone. Ends the writer's thread silently, so that nobody is told how the commit
    went, as after a SIGKILL. (Pytest reports even this exit of a thread, as
    ``PytestUnhandledThreadExceptionWarning``, which such a test may ignore.)"""


class Death(Enum):
    """When a store dies."""

    BEFORE_COMMIT = "nothing of the commit is on disk"
    AFTER_COMMIT = "the commit is on disk, but nobody was told"


class FaultyStore:
    """A store with the methods of :class:`Store`, whose commits can be told to misbehave.

    Thread-safe: tests give orders in one thread while the writer commits in another.
    """

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.commits_total = 0
        """Commits begun, whatever became of them."""
        self._failures: list[CommitFailed] = []
        self._failing: CommitFailed | None = None
        self._death: Death | None = None
        self._dead = False
        self._open = threading.Event()
        self._open.set()
        self._one_by_one = self._is_waiting = False
        self._arrived = threading.Semaphore(0)

    def __repr__(self) -> str:
        state = "dead" if self._dead else "slow" if not self._open.is_set() else "in order"
        return f"<FaultyStore {state} {self.inner!r}>"

    # Orders

    def fail_next(self, count: int = 1, error: CommitFailed | None = None) -> None:
        """Fail the next ``count`` commits; nothing of them reaches the disk."""
        self._failures += [error or StoreFailed("told to fail")] * count

    def fail_until_healed(self, error: CommitFailed | None = None) -> None:
        """Fail every commit from now on."""
        self._failing = error or StoreFailed("told to fail")

    def heal(self) -> None:
        """Stop failing."""
        self._failures.clear()
        self._failing = None

    def hold(self) -> None:
        """Hold commits before they begin, until :meth:`release`, or for :data:`HELD_MAX_S`."""
        self._open.clear()

    def hold_each(self) -> None:
        """Hold as :meth:`hold`; each :meth:`release` lets one commit pass, until
        :meth:`stop_holding`."""
        self._one_by_one, self._is_waiting = True, False
        self.hold()

    def release(self) -> None:
        """Let the waiting commit and all later ones pass."""
        self._is_waiting = False
        self._open.set()

    def stop_holding(self) -> None:
        """Hold no more commits."""
        self._one_by_one = False
        self.release()

    @property
    def holds_one(self) -> bool:
        """Whether a commit is waiting for :meth:`release`."""
        return self._is_waiting

    def wait_for_commit(self, timeout_s: float = 10.0) -> None:
        """Block until one more commit has begun (been held, if so ordered)."""
        if not self._arrived.acquire(timeout=timeout_s):
            raise TimeoutError(f"no commit within {timeout_s} s")

    def die(self, when: Death) -> None:
        """Die in the next commit. To continue, close :attr:`inner` and open the directory again."""
        self._death = when

    # The store

    def commit(self, changes: Changes) -> CommitReport:
        """Commit as :meth:`Store.commit`, unless told otherwise."""
        self.commits_total += 1
        self._arrived.release()
        self._is_waiting = True
        self._open.wait(HELD_MAX_S)
        if self._one_by_one:
            self._open.clear()
        if self._dead or self._death is Death.BEFORE_COMMIT:
            self._dead = True
            raise Died
        if self._failures:
            raise self._failures.pop(0)
        if self._failing is not None:
            raise self._failing
        report = self.inner.commit(changes)
        if self._death is Death.AFTER_COMMIT:
            self._dead = True
            raise Died
        return report

    def commit_tiny(self, changes: Changes) -> CommitReport | None:
        """Return None: a held commit must not block the loop that is to release it."""
        return None

    def commit_beside(self, changes: Changes, lent: Lent) -> CommitReport | None:
        """Return None likewise."""
        return None

    def prepare_tiny(self) -> None:
        """Do nothing."""

    @property
    def needs_takeover(self) -> bool:
        return self.inner.needs_takeover

    def resolve(self) -> CommitReport | None:
        """Do as :meth:`Store.resolve`."""
        return self.inner.resolve()

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        return self.inner.snapshot()

    @property
    def path(self) -> Path:
        return self.inner.path

    @property
    def size_bytes(self) -> int:
        return self.inner.size_bytes

    def statistics(self) -> StoreStatistics:
        return self.inner.statistics()

    def reader_check(self) -> int:
        return self.inner.reader_check()

    def readers(self) -> str:
        return self.inner.readers()

    def copy(self, target: str | os.PathLike[str], *, compact: bool = False) -> None:
        self.inner.copy(target, compact=compact)

    def close(self) -> None:
        self.inner.close()


class DiskFault(Enum):
    """A failure below LMDB: the device that replaces the data file, and for which of LMDB's two
    descriptors."""

    FULL = ("/dev/full", False)
    """Writing pages gives ENOSPC."""
    FLUSH = ("/dev/null", False)
    """Pages are accepted and lost, and the flush then fails."""
    META = ("/dev/full", True)
    """Pages are on disk, but the meta page, which makes them count, is not; LMDB gives up."""


@contextmanager
def broken_disk(directory: str | os.PathLike[str], fault: DiskFault) -> Iterator[None]:
    """Let the open store in ``directory`` meet ``fault`` in this process; healed at the end.

    Replaces LMDB's open descriptors by those of a device that behaves so: real system calls fail,
    and the file itself is untouched. A store that reopens its file meanwhile is healed by that.
    """
    device, meta = fault.value
    saved: list[tuple[int, int]] = []
    for fd in _descriptors(Path(directory, DATA_NAME)):
        synchronous = bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DSYNC)
        if synchronous is meta:
            saved.append((fd, os.dup(fd)))
            _replace(fd, os.open(device, os.O_RDWR | os.O_CLOEXEC))
    assert saved, f"the store in {directory} is not open in this process"
    try:
        yield
    finally:
        for fd, original in saved:
            if _is_device(fd):
                _replace(fd, original)
            else:  # LMDB closed it, and the number is somebody else's now
                os.close(original)


@contextmanager
def broken_journal(*, lands: bool = False, count: int = 1 << 30) -> Iterator[None]:
    """Let the next ``count`` writes into journals fail; ``lands``: the first of them is on disk all
    the same."""
    write, left, landed = journal_writing.write_at, count, not lands

    def failing(fd: int, data: memoryview, at: int) -> None:
        nonlocal left, landed
        if left <= 0:
            write(fd, data, at)
            return
        left -= 1
        if not landed:
            landed = True
            write(fd, data, at)
        raise OSError(errno.EIO, "told to fail")

    with patch.object(journal_writing, "write_at", failing):
        yield


def _descriptors(file: Path) -> list[int]:
    """Return the descriptors of this process that are open on ``file``."""
    wanted = file.stat()
    found = []
    for name in os.listdir("/dev/fd"):
        try:
            open_file = os.fstat(int(name))
        except OSError:
            continue  # the one that listed the directory
        same = (open_file.st_dev, open_file.st_ino) == (wanted.st_dev, wanted.st_ino)
        if same and stat.S_ISREG(open_file.st_mode):
            found.append(int(name))
    return found


def _is_device(fd: int) -> bool:
    try:
        return stat.S_ISCHR(os.fstat(fd).st_mode)
    except OSError:
        return False


def _replace(fd: int, by: int) -> None:
    os.dup2(by, fd, inheritable=False)
    os.close(by)
