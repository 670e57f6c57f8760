"""The store of one data directory: one writer, any number of snapshots.

The rule: :meth:`Store.commit` either puts all of its :class:`.Changes` on disk before it
returns, or raises :class:`.CommitFailed` and none of them will ever be there. LMDB keeps that
promise; this module keeps LMDB going when the disk does not.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Condition, Lock
from typing import Final, Self

import lmdb

from arneb_core.errors import CommitFailed, StoreFailed, StoreFull, StoreUnusable
from arneb_core.store.bodies import encode_runs
from arneb_core.store.changes import Changes, CommitReport, Trim
from arneb_core.store.creating import create_store
from arneb_core.store.directory import Content, DirectoryLock
from arneb_core.store.journal import Journal, merged_blocks, write_journal
from arneb_core.store.meta_pages import check_file
from arneb_core.store.opening import (
    DATA_NAME,
    MAP_BYTES,
    Tables,
    allocate_lock_file,
    copy_environment,
    open_lmdb,
    open_tables,
)
from arneb_core.store.reader_slots import ReaderSlots
from arneb_core.store.records import pack_number, unpack_trims
from arneb_core.store.resident import Resident
from arneb_core.store.room import NO_SPACE, Room
from arneb_core.store.schema import (
    FORMAT_VERSION,
    META_FORMAT,
    META_JOURNAL,
    META_TRIMS,
    Table,
)
from arneb_core.store.snapshot import Snapshot, journal_number
from arneb_core.store.transaction import Transaction

SNAPSHOTS_WAIT_S: Final = 5.0
"""How long closing waits for snapshots of this process; they are held for a batch each."""

PAGES_PER_ROW: Final = 5
PAGE_BYTES: Final = 4096
"""For estimates: a row in a table of 10^9 rows lies under so many pages, all rewritten."""


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """The data file at one instant, in bytes."""

    size_bytes: int
    """Up to the last page ever used."""
    live_bytes: int
    """Pages that hold something; the others are reused."""
    allocated_bytes: int
    """What the file takes on disk, room ahead included."""
    last_transaction: int
    readers: int
    """Reader slots in use, of all processes."""
    trims_left: int


class Store:
    """An open data directory.

    ``commit`` belongs to one thread at a time; everything else may be called from any.
    """

    def __init__(
        self, directory: DirectoryLock, env: lmdb.Environment, map_bytes: int, bytes_max: int | None
    ) -> None:
        self._directory = directory
        self._map_bytes = map_bytes
        self._env: lmdb.Environment | None = env
        self._tables: Tables = {}
        self._trims: list[Trim] = []
        self._committing = Lock()
        # Guards the environment itself: it may be closed, or opened again, only while no
        # snapshot of this process is open.
        self._gate = Condition()
        self._snapshots = 0
        self._broken = False
        self._closed = False
        self._size_bytes = 0
        self._journal = Journal(self.path, self._load(env))
        self._room = Room(self.path / DATA_NAME, bytes_max, self._used_bytes, self._free_bytes)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        map_bytes: int = MAP_BYTES,
        bytes_max: int | None = None,
    ) -> Self:
        """Open the directory for writing; make the store if it is absent or empty.

        ``bytes_max`` bounds the data file as a full disk would. Raises :class:`StoreLocked`,
        :class:`FormatMismatch`, :class:`ForeignDirectory`, :class:`StoreUnusable`, and then
        nothing was touched.
        """
        directory = DirectoryLock.take(Path(path))
        env = None
        if bytes_max is not None:
            map_bytes = min(map_bytes, bytes_max)
        try:
            if directory.content is Content.NOTHING:
                create_store(directory.path)
            allocate_lock_file(directory.path)
            env = open_lmdb(directory.path, readonly=False, map_bytes=map_bytes)
            store = cls(directory, env, map_bytes, bytes_max)
            if store._journal.must_be_taken_over:
                with suppress(CommitFailed):  # on a full disk they stay where they are, and count
                    store.commit(Changes())
            return store
        except BaseException as error:
            if env is not None:
                env.close()
            directory.release()
            if isinstance(error, lmdb.Error | OSError | ValueError):
                raise StoreUnusable(f"cannot open the store in {path}: {error}") from error
            raise

    @property
    def path(self) -> Path:
        return self._directory.path

    def commit(self, changes: Changes) -> CommitReport:
        """Make ``changes`` durable, all or nothing; blocks until they are.

        Raises :class:`StoreFull` or :class:`StoreFailed`; then nothing was changed, and the
        next commit may succeed.
        """
        if not self._committing.acquire(blocking=False):
            raise RuntimeError("two commits at once: commit() belongs to one thread")
        try:
            return self._commit(changes)
        finally:
            self._committing.release()

    def prepare_tiny(self) -> None:
        """Make ready what :meth:`commit_tiny` needs, if there is room for it now."""
        with suppress(OSError):
            self._journal.prepare()

    def commit_tiny(self, changes: Changes) -> CommitReport:
        """As :meth:`commit`, for changes that are one small run of entries and nothing else: in
        a third of the time, into the journal, if that has room.

        The run counts as committed. When the report is ``unsettled``, have it put into LMDB
        soon, with another commit or an empty one.
        """
        ((topic_id, first, entries),) = changes.blocks
        size = sum(map(len, entries))
        if self._trims or self._broken or not self._journal.takes(size):
            return self.commit(changes)
        rows = len(self._journal.pending) + 1
        try:
            # What is accepted here must find room there, whatever comes in between.
            self._room.ensure(rows * (size + PAGE_BYTES) + PAGES_PER_ROW * PAGE_BYTES * 32)
            written = self._journal.append(topic_id, first, entries)
        except OSError:
            return self.commit(changes)
        return CommitReport(1, written, 0, 0, unsettled=True)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The store as of the last commit, for one batch of reading. Raises :class:`StoreFailed`
        when it had to be opened again and could not, or LMDB meets a page that is none."""
        # Looked at before LMDB: what is taken over in between is in both, and known by number.
        pending = self._journal.pending.copy()
        txn = self._begin_snapshot()
        try:
            yield Snapshot(txn, self._tables, self._resident, pending)
        except lmdb.Error as error:
            raise StoreFailed(f"cannot read the store: {error}") from error
        finally:
            with self._gate:
                self._slots.end(txn)
                self._snapshots -= 1
                self._gate.notify_all()

    @property
    def size_bytes(self) -> int:
        """The used part of the data file; the last known one while that is not open."""
        with self._gate:
            if self._env is not None and not self._closed:
                self._size_bytes = self._used_bytes()
            return self._size_bytes

    @property
    def free_bytes(self) -> int:
        """What the data file has on disk and does not use: free pages, and room ahead. Costs a
        read transaction. Raises :class:`StoreFailed`."""
        with self.snapshot() as snapshot:
            live = snapshot.live_bytes()
        return max(0, self._room.on_disk_bytes - live)

    def statistics(self) -> StoreStatistics:
        """Costs a read transaction."""
        with self.snapshot() as snapshot:
            info = self._live_env().info()
            return StoreStatistics(
                size_bytes=self._used_bytes(),
                live_bytes=snapshot.live_bytes(),
                allocated_bytes=self._room.allocated_bytes,
                last_transaction=info["last_txnid"],
                readers=info["num_readers"],
                trims_left=len(self._trims),
            )

    def reader_check(self) -> int:
        """Free the slots of readers that died, and say how many; call it now and then, for a
        dead reader keeps its pages from being reused."""
        with self._gate:
            return 0 if self._env is None or self._closed else self._env.reader_check()

    def readers(self) -> str:
        """LMDB's table of readers, as it prints it."""
        with self._gate:
            return "" if self._env is None or self._closed else self._env.readers()

    def copy(self, target: str | os.PathLike[str], *, compact: bool = False) -> None:
        """A consistent copy into the empty directory ``target``, while commits go on.

        ``compact`` leaves out what is free, and takes a little longer. Raises
        :class:`StoreFailed`.
        """
        pending = self._journal.pending.copy()
        with self.snapshot():  # keeps the environment open meanwhile
            if pending:
                write_journal(Path(target), pending)
            copy_environment(self._live_env(), target, compact=compact)
            self._resident.forget()

    def close(self) -> None:
        """Close, after waiting a little for open snapshots. Idempotent.

        Needs no commit and makes none: what was committed is on disk.
        """
        with self._gate:
            if self._closed:
                return
            if not self._gate.wait_for(lambda: not self._snapshots, SNAPSHOTS_WAIT_S):
                raise RuntimeError(f"{self._snapshots} snapshots are still open")
            self._closed = True
            if self._env is not None:
                self._env.close()
        self._room.close()
        self._journal.close()
        self._directory.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "broken" if self._broken else "open"
        return f"<Store {self.path} {state}, {self._snapshots} snapshots>"

    # Writing

    def _commit(self, changes: Changes) -> CommitReport:
        appends = bool(changes.blocks)
        takeover = self._journal.must_be_taken_over
        late = merged_blocks(self._journal.pending) if takeover else []
        encoded = encode_runs(late + changes.blocks, changes.shared)
        bytes_written = encoded.size
        rows = len(changes.puts) + len(changes.deletes) + len(encoded.blocks)
        rows += 2 * len(encoded.bodies)
        need = bytes_written + PAGES_PER_ROW * PAGE_BYTES * (rows + 16)
        trims = self._trims + [trim for trim in changes.trims if trim not in self._trims]
        if not (changes or trims or takeover or self._broken):
            return CommitReport(0, 0, 0, 0)
        env = self._working_env()
        try:
            if appends:
                self._room.take(need)
            else:
                self._room.spend(need)
            with env.begin(write=True, buffers=True) as txn:
                transaction = Transaction(txn, self._tables)
                transaction.apply(changes, encoded)
                trimmed, trims_left = transaction.trim(trims) if trims else (0, [])
                if trims_left != self._trims:
                    transaction.remember_trims(trims_left)
                if takeover:
                    transaction.remember_journal(self._journal.number)
        except (lmdb.Error, OSError) as error:
            raise self._failed(env, error) from error
        self._trims = trims_left
        if takeover:
            self._journal.taken_over()
        self._resident.read(0)  # its pages stand elsewhere now
        return CommitReport(len(encoded.blocks), bytes_written, trimmed, len(trims_left))

    # Keeping LMDB going

    def _failed(self, env: lmdb.Environment, error: lmdb.Error | OSError) -> CommitFailed:
        """The failure in the core's words; also find out whether LMDB has given up."""
        try:
            with self._gate, self._slots.reading():
                pass
        except lmdb.Error:
            self._broken = True
        code = error.code if isinstance(error, lmdb.Error) else error.errno
        if isinstance(error, lmdb.MapFullError) or code in NO_SPACE:
            return StoreFull(f"no space for the commit: {error}")
        return StoreFailed(f"the commit could not be put on disk: {error}")

    def _begin_snapshot(self) -> "lmdb.Transaction[bytes]":
        with self._gate:
            try:
                self._open_again_if_broken()
                txn = self._slots.begin()
            except lmdb.Error as error:
                raise StoreFailed(f"cannot read the store: {error}") from error
            self._snapshots += 1
            return txn

    def _working_env(self) -> lmdb.Environment:
        with self._gate:
            return self._open_again_if_broken()

    def _open_again_if_broken(self) -> lmdb.Environment:
        """The environment; opened anew if the last commit left it unusable. Holds the gate.

        LMDB gives up (``MDB_PANIC``) when it could not write its meta page, for then it does
        not know what is on disk. Opened again, it takes the newest meta page that is whole.
        """
        if self._closed:
            raise RuntimeError(f"the store in {self.path} is closed")
        if not self._broken:
            env = self._live_env()
            self._expect_whole(env)
            return env
        if not self._gate.wait_for(lambda: not self._snapshots, SNAPSHOTS_WAIT_S):
            raise StoreFailed(f"waiting for {self._snapshots} snapshots to open the store again")
        try:
            if self._env is not None:
                self._env.close()
                self._env = None
            env = open_lmdb(self.path, readonly=False, map_bytes=self._map_bytes)
            self._env = env
            self._journal.drop_through(self._load(env))
            # The failed transaction's meta page may be on the disk although not in memory: a
            # new transaction takes its place, before anybody builds on its absence.
            with env.begin(write=True) as txn:
                txn.put(META_FORMAT, pack_number(FORMAT_VERSION), db=self._tables[Table.META])
        except (lmdb.Error, OSError, StoreUnusable) as error:
            raise StoreFailed(f"cannot open the store again: {error}") from error
        self._broken = False
        return env

    def _expect_whole(self, env: lmdb.Environment) -> None:
        """Raise :class:`StoreFailed` when somebody cut the file off: LMDB reads and writes through
        a map of it, and would end the process."""
        data = self.path / DATA_NAME
        try:
            if os.stat(data).st_size < (env.info()["last_pgno"] + 1) * self._page_bytes:
                check_file(data)  # which knows of pages that were never written
        except (OSError, StoreUnusable) as error:
            raise StoreFailed(f"cannot use the store: {error}") from error

    def _load(self, env: lmdb.Environment) -> int:
        """Read what the store keeps about itself; the last journal record that LMDB has."""
        self._page_bytes = env.stat()["psize"]
        self._slots = ReaderSlots(env)
        self._tables = open_tables(env)
        self._resident = Resident(self.path / DATA_NAME)
        with self._slots.reading() as txn:
            meta = self._tables[Table.META]
            self._trims = unpack_trims(txn.get(META_TRIMS, b"", db=meta))
            return journal_number(txn.get(META_JOURNAL, db=meta))

    def _live_env(self) -> lmdb.Environment:
        if self._env is None:
            raise StoreFailed(f"the store in {self.path} could not be opened again")
        return self._env

    def _used_bytes(self) -> int:
        env = self._live_env()
        return (env.info()["last_pgno"] + 1) * env.stat()["psize"]

    def _free_bytes(self) -> int:
        with self._gate, self._slots.reading() as txn:
            live = Snapshot(txn, self._tables, self._resident).live_bytes()
        return self._used_bytes() - live
