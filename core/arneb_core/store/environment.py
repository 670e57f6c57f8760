"""The store of one data directory: one writer, any number of snapshots.

The rule: a snapshot shows what was committed, wherever that is: in LMDB, or in the journal in front
of it. How it gets there is the business of :mod:`.commit`.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import lmdb

from arneb_core.api.errors import StoreFailed, StoreUnusable
from arneb_core.store.commit.commits import Commits
from arneb_core.store.data_file.creating import create_store
from arneb_core.store.data_file.meta_pages import write_metas_again
from arneb_core.store.data_file.opening import (
    DATA_NAME,
    MAP_BYTES,
    allocate_lock_file,
    open_lmdb,
)
from arneb_core.store.data_file.room import NO_SPACE
from arneb_core.store.directory.compacting import NEW_NAME as COMPACTED_NAME
from arneb_core.store.directory.copying import copy_store
from arneb_core.store.directory.directory import Content, DirectoryLock
from arneb_core.store.directory.replacement import finish_replacement
from arneb_core.store.reading.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    """The data file at one instant, in bytes."""

    size_bytes: int
    """Up to the last page ever used."""
    live_bytes: int
    """Pages that hold something; the others are reused."""
    allocated_bytes: int
    """Bytes of the file on disk, room ahead included."""
    last_transaction: int
    readers: int
    """Reader slots in use, by all processes."""
    trims_left: int


class Store(Commits):
    """An open data directory.

    ``commit`` belongs to one thread at a time; everything else may be called from any.
    """

    def __init__(
        self,
        directory: DirectoryLock,
        env: lmdb.Environment,
        map_bytes: int,
        bytes_max: int | None,
        *,
        follows: bool = False,
    ) -> None:
        self._directory = directory
        super().__init__(directory.path, env, map_bytes, bytes_max, follows=follows)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        map_bytes: int = MAP_BYTES,
        bytes_max: int | None = None,
        follows: bool = False,
    ) -> Self:
        """Open the directory for writing; create the store if it is absent or empty.

        ``bytes_max`` bounds the data file as a full disk would. ``follows``: another node may be
        writing, so what is written ahead of its commit may still count. Raises
        :class:`StoreLocked`, :class:`FormatMismatch`, :class:`ForeignDirectory`,
        :class:`StoreUnusable`, and then nothing was touched.
        """
        directory = DirectoryLock.take(Path(path))
        env = None
        if bytes_max is not None:
            map_bytes = min(map_bytes, bytes_max)
        try:
            if directory.content is Content.NOTHING:
                create_store(directory.path)
            finish_replacement(directory.path)
            shutil.rmtree(directory.path / COMPACTED_NAME, ignore_errors=True)
            allocate_lock_file(directory.path)
            _make_certain(directory.path / DATA_NAME)
            env = open_lmdb(directory.path, readonly=False, map_bytes=map_bytes)
            return cls(directory, env, map_bytes, bytes_max, follows=follows)
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

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Yield the store as of the last commit, for one batch of reading. Raises
        :class:`StoreFailed` when it could not be reopened, or LMDB meets a malformed page."""
        # Taken before LMDB's: what a takeover moves in between is in both, and known by number.
        pending, gaps = self._journal.pending.copy(), self._journal.gaps
        held = self._held.copy()
        txn = self._live.begin_snapshot()
        try:
            yield Snapshot(
                txn, self._live.tables, self._live.page_release, pending, gaps, held=held
            )
        except lmdb.Error as error:
            raise StoreFailed(f"cannot read the store: {error}") from error
        finally:
            self._live.end_snapshot(txn)

    @property
    def size_bytes(self) -> int:
        """Used bytes of the data file; the last known figure while it is not open."""
        return self._live.size_bytes

    @property
    def free_bytes(self) -> int:
        """Bytes that the data file has on disk and does not use: free pages, and room ahead. Begins
        a read transaction. Raises :class:`StoreFailed`."""
        with self.snapshot() as snapshot:
            live = snapshot.live_bytes()
        return max(0, self._room.on_disk_bytes - live)

    def statistics(self) -> StoreStatistics:
        """Return the statistics. Begins a read transaction."""
        with self.snapshot() as snapshot:
            info = self._live.current().info()
            return StoreStatistics(
                size_bytes=self._live.used_bytes,
                live_bytes=snapshot.live_bytes(),
                allocated_bytes=self._room.allocated_bytes,
                last_transaction=info["last_txnid"],
                readers=info["num_readers"],
                trims_left=len(self._trims),
            )

    def reader_check(self) -> int:
        """Free the slots of readers that died; return how many. Call it from time to time: a dead
        reader keeps its pages from being reused."""
        return self._live.reader_check()

    def readers(self) -> str:
        """Return LMDB's table of readers as it prints it."""
        return self._live.readers()

    def copy(self, target: str | os.PathLike[str], *, compact: bool = False) -> None:
        """Write a consistent copy into the empty directory ``target``, while commits continue,
        without held commits (:meth:`.Commits.hold`).

        ``compact`` leaves out free pages, and takes a little longer. Raises :class:`StoreFailed`.
        """
        pending = self._journal.pending.copy()
        if self._journal.gaps:
            raise StoreFailed("a damaged journal has to be taken over before a copy is made")
        with self.snapshot():  # keeps the environment open meanwhile
            copy_store(self._live.current(), target, pending, compact=compact)
            self._live.page_release.forget()

    def close(self) -> None:
        """Close, after waiting a little for open snapshots. Idempotent.

        Commits nothing, and need not: what was committed is on disk.
        """
        if self._live.close():
            self._room.close()
            self._journal.close()
            self._directory.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        live = self._live
        state = "closed" if live.is_closed else "broken" if live.is_broken else "open"
        return f"<Store {self.path} {state}, {live.snapshots} snapshots>"


def _make_certain(data: Path) -> None:
    """Put on disk what an earlier process may have failed to write there. A full disk must not keep
    a broker from starting."""
    try:
        write_metas_again(data)
    except OSError as error:
        if error.errno not in NO_SPACE:
            raise
