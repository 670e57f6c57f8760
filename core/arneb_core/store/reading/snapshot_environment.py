"""Snapshot environments: a store that another process writes, opened for reading.

The rule: it is checked before it is read (its file, the pages of its tables), and damage is an
error with a name, never a crash of LMDB.
"""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import lmdb

from arneb_core.api.errors import StoreFailed, StoreUnusable
from arneb_core.store.data_file.meta_pages import check_file
from arneb_core.store.data_file.opening import DATA_NAME, LOCK_NAME, Tables, open_lmdb, open_tables
from arneb_core.store.data_file.page_release import PageRelease
from arneb_core.store.data_file.page_walk import PageFault
from arneb_core.store.data_file.readers import WatchedReading
from arneb_core.store.data_file.store_file import (
    DESCRIBING_TABLES,
    EVERY_TABLE,
    look_at_transaction,
    refuse,
)
from arneb_core.store.directory.copying import copy_store
from arneb_core.store.format.records import JournalState
from arneb_core.store.format.schema import META_JOURNAL, Table
from arneb_core.store.journal.reader import JournalReader
from arneb_core.store.journal.reconciliation import Reconciliation, reconcile
from arneb_core.store.reading.snapshot import Snapshot

LOOK_TRIES: Final = 100
"""A read transaction's meta page is overwritten by the second commit after it."""


class SnapshotEnvironment:
    """A store opened only for reading, beside a live writer in another process."""

    def __init__(self, env: lmdb.Environment, tables: Tables) -> None:
        self._env = env
        self._tables = tables
        self._page_release = PageRelease(Path(env.path(), DATA_NAME))
        self._journal = JournalReader(Path(env.path()), self._meta)

    def __repr__(self) -> str:
        return f"<SnapshotEnvironment, {self._page_release!r}>"

    @contextmanager
    def snapshot(self, *, damaged_too: bool = False) -> Iterator[Snapshot]:
        """Yield the store as of now.

        Raises :class:`.StoreUnusable` when the file was cut off since it was opened or the broker
        wants its pages back, and :class:`.StoreFailed` when LMDB meets a malformed page. A damaged
        journal raises :class:`.StoreUnusable`, too, unless ``damaged_too``: then
        :attr:`Snapshot.faults` describes it, and the snapshot has what is whole.
        """
        check_file(Path(self._env.path(), DATA_NAME))
        try:
            found = self._journal.read() if damaged_too else self._journal.read_whole()
            with self._env.begin() as txn:
                reading = WatchedReading(self._page_release, Path(self._env.path()), txn.id())
                stored = Snapshot(txn, self._tables, reading)
                has = JournalState.unpack(stored.get(Table.META, META_JOURNAL)).number
                records = [each for each in found.records if each.number > has]
                reconciled = (
                    reconcile(stored, records, has) if found.faults else Reconciliation(records)
                )
                yield Snapshot(
                    txn, self._tables, reading, reconciled.records, reconciled.gaps, found.faults
                )
        except lmdb.Error as error:
            raise StoreFailed(f"cannot read the store: {error}") from error

    def copy(self, target: str | os.PathLike[str], *, compact: bool = False) -> None:
        """Copy as :meth:`.Store.copy`. Raises :class:`StoreUnusable` on a damaged journal."""
        found = self._journal.read_whole()
        copy_store(self._env, target, found.records, compact=compact)
        self._page_release.forget()

    def _meta(self, key: bytes) -> bytes | None:
        with self._env.begin() as txn:
            return txn.get(key, db=self._tables[Table.META])

    def close(self) -> None:
        """Free the reader slots. Idempotent; every snapshot must be closed."""
        self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_snapshot_environment(
    path: str | os.PathLike[str], *, looked_at: bool = False
) -> SnapshotEnvironment:
    """Open a data directory for reading from ANOTHER process than the broker's.

    LMDB takes a file once per process, and a file that was open at a fork counts as open in the
    child: open it after forking. Needs write permission on ``lock.mdb``, because a reader must tell
    the writer which pages it still needs. ``looked_at``: :func:`page_faults` has checked its pages.
    Raises :class:`StoreUnusable` and its kinds.
    """
    with _opened(path) as env:
        if not looked_at:
            refuse(Path(path, DATA_NAME), _faults(env, Path(path), DESCRIBING_TABLES))
        return SnapshotEnvironment(env, open_tables(env))


def page_faults(path: str | os.PathLike[str]) -> list[PageFault]:
    """Return what is wrong with the pages of a data directory, as of one commit.

    Raises as :func:`open_snapshot_environment` does when it cannot be opened at all.
    """
    with _opened(path) as env:
        faults = _faults(env, Path(path), EVERY_TABLE)
        env.close()
    return faults


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[lmdb.Environment]:
    """Yield an environment that is closed if an error comes."""
    data = Path(path, DATA_NAME)
    if not data.is_file():
        what = f"{data} is not a regular file" if data.exists() else f"{path} holds no Arneb store"
        raise StoreUnusable(what)
    env = None
    try:
        env = open_lmdb(path, readonly=True)
        yield env
    except (lmdb.Error, OSError, StoreUnusable) as error:
        if env is not None:
            env.close()
        if isinstance(error, StoreUnusable):
            raise
        raise StoreUnusable(f"cannot read the store in {os.fspath(path)}: {error}") from error


def _faults(env: lmdb.Environment, path: Path, tables: Collection[Table]) -> list[PageFault]:
    claimed = (path / LOCK_NAME).exists()
    for _ in range(LOOK_TRIES):
        with env.begin() as txn:
            faults = look_at_transaction(path / DATA_NAME, txn.id(), claimed=claimed, tables=tables)
        if faults is not None:
            return faults
    raise StoreUnusable(f"{path} changed {LOOK_TRIES} times while it was opened")
