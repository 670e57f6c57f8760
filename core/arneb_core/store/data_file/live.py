"""The live environment: LMDB's environment of an open store, reopened after LMDB has given up.

The rule: the environment is closed or reopened only while no snapshot of this process is open; and
once reopened it is not used before one new transaction is durable.

LMDB gives up (``MDB_PANIC``) when it could not write its meta page, because it then does not know
what is on disk. Reopened, it takes the newest meta page that is whole.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition, RLock
from typing import Final

import lmdb

from arneb_core.api.errors import StoreFailed, StoreUnusable
from arneb_core.store.data_file.meta_pages import check_file, write_metas_again
from arneb_core.store.data_file.opening import DATA_NAME, Tables, open_lmdb, open_tables
from arneb_core.store.data_file.page_release import PageRelease
from arneb_core.store.data_file.reader_slots import ReaderSlots
from arneb_core.store.format.records import pack_number
from arneb_core.store.format.regular_file import open_regular
from arneb_core.store.format.schema import FORMAT_VERSION, META_FORMAT, Table

SNAPSHOTS_WAIT_S: Final = 5.0
"""How long closing waits for snapshots of this process; each is held for one batch."""


class LiveEnvironment:
    """The environment of one store. Thread-safe."""

    tables: Tables
    page_release: PageRelease

    def __init__(
        self,
        path: Path,
        env: lmdb.Environment,
        map_bytes: int,
        *,
        reopened: Callable[[], None],
        verified: Callable[[], None],
    ) -> None:
        """``reopened`` is called after a reopening, ``verified`` when what that showed is certain;
        both before anybody uses the environment."""
        self._path = path
        self._data = os.fspath(path / DATA_NAME)
        self._map_bytes = map_bytes
        self._env: lmdb.Environment | None = env
        self._reopened = reopened
        self._verified = verified
        # Used directly, since it is C's; the condition is only for threads that wait.
        self._lock = RLock()
        self._gate = Condition(self._lock)
        self.snapshots = 0
        """Open ones."""
        self.is_broken = False
        """LMDB has given up."""
        self.is_closed = False
        self._size_bytes = 0
        self._data_fd = -1
        self._whole_bytes = -1
        """The size of the data file when it was last seen to hold all pages."""
        self._look(env)

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "broken" if self.is_broken else "open"
        return f"<LiveEnvironment {state}, {self.snapshots} snapshots>"

    def working(self) -> lmdb.Environment:
        """Return the environment for writing. Raises :class:`StoreFailed` while there is none."""
        with self._lock:
            return self._open_again_if_broken()

    def current(self) -> lmdb.Environment:
        """Return the environment as it is. Raises :class:`StoreFailed` when there is none."""
        if self._env is None:
            raise StoreFailed(f"the store in {self._path} could not be opened again")
        return self._env

    def begin_snapshot(self) -> "lmdb.Transaction[bytes]":
        """Begin a read transaction, for :meth:`end_snapshot`. Raises :class:`StoreFailed`."""
        with self._lock:
            try:
                self._open_again_if_broken()
                txn = self._slots.begin()
            except lmdb.Error as error:
                raise StoreFailed(f"cannot read the store: {error}") from error
            self.snapshots += 1
            return txn

    def end_snapshot(self, txn: "lmdb.Transaction[bytes]") -> None:
        """End a read transaction."""
        with self._lock:
            self._slots.end(txn)
            self.snapshots -= 1
            self._gate.notify_all()

    @contextmanager
    def reading(self) -> Iterator["lmdb.Transaction[bytes]"]:
        """Yield a short read transaction of the environment as it is."""
        with self._lock, self._slots.reading() as txn:
            yield txn

    def readers(self) -> str:
        """Return LMDB's table of readers as it prints it."""
        with self._lock:
            return "" if self._env is None or self.is_closed else self._env.readers()

    def notice(self) -> bool:
        """Find out, after a failed transaction, whether LMDB has given up."""
        try:
            with self.reading():
                pass
        except lmdb.Error:
            self.is_broken = True
        return self.is_broken

    @property
    def last_transaction(self) -> int:
        """The number of the last transaction that counts."""
        return int(self.current().info()["last_txnid"])

    @property
    def used_bytes(self) -> int:
        """Bytes of the data file up to its last page."""
        env = self.current()
        return int((env.info()["last_pgno"] + 1) * env.stat()["psize"])

    @property
    def size_bytes(self) -> int:
        """The same; the last known figure while the file is not open."""
        with self._lock:
            if self._env is not None and not self.is_closed:
                self._size_bytes = self.used_bytes
            return self._size_bytes

    def reader_check(self) -> int:
        """Free the slots of readers that died; return how many."""
        with self._lock:
            return 0 if self._env is None or self.is_closed else self._env.reader_check()

    def close(self) -> bool:
        """Close, after waiting a little for open snapshots; False if it was closed already."""
        with self._lock:
            if self.is_closed:
                return False
            if not self._gate.wait_for(lambda: not self.snapshots, SNAPSHOTS_WAIT_S):
                raise RuntimeError(f"{self.snapshots} snapshots are still open")
            self.is_closed = True
            if self._env is not None:
                self._env.close()
            os.close(self._data_fd)
            return True

    def _open_again_if_broken(self) -> lmdb.Environment:
        """Return the environment, reopened if the last commit left it unusable. Holds the gate."""
        if self.is_closed:
            raise RuntimeError(f"the store in {self._path} is closed")
        if not self.is_broken:
            env = self.current()
            self._expect_whole(env)
            return env
        if not self._gate.wait_for(lambda: not self.snapshots, SNAPSHOTS_WAIT_S):
            raise StoreFailed(f"waiting for {self.snapshots} snapshots to open the store again")
        try:
            if self._env is not None:
                self._env.close()
                self._env = None
            write_metas_again(Path(self._data))
            env = open_lmdb(self._path, readonly=False, map_bytes=self._map_bytes)
            self._env = env
            self._look(env)
            self._reopened()
            # The file as seen now may differ from what a power cut would leave: a new transaction
            # makes it certain before anybody builds on it or is told.
            with env.begin(write=True) as txn:
                txn.put(META_FORMAT, pack_number(FORMAT_VERSION), db=self.tables[Table.META])
        except (lmdb.Error, OSError, StoreUnusable) as error:
            raise StoreFailed(f"cannot open the store again: {error}") from error
        self.is_broken = False
        self._verified()
        return env

    def _expect_whole(self, env: lmdb.Environment) -> None:
        """Raise :class:`StoreFailed` if the file was cut off: LMDB reads and writes through a map
        of it, and would end the process.

        A transaction that adds pages makes the file larger, so while its size is unchanged LMDB
        need not be asked for the last page.
        """
        try:
            size = os.lseek(self._data_fd, 0, os.SEEK_END)
            if size == self._whole_bytes:
                return
            if size < (env.info()["last_pgno"] + 1) * self._page_bytes:
                check_file(Path(self._data))  # which allows for pages that were never written
                return
            self._whole_bytes = size
        except (OSError, StoreUnusable) as error:
            raise StoreFailed(f"cannot use the store: {error}") from error

    def _look(self, env: lmdb.Environment) -> None:
        self._page_bytes = int(env.stat()["psize"])
        self._slots = ReaderSlots(env)
        self.tables = open_tables(env)
        self.page_release = PageRelease(self._path / DATA_NAME)
        if self._data_fd >= 0:
            os.close(self._data_fd)
        # Not LMDB's own descriptor, whose offset a transaction under way relies on.
        self._data_fd = open_regular(self._data, os.O_RDONLY)
        self._whole_bytes = -1
