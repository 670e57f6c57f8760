"""Snapshots: the whole store as of one commit, for reading, from any thread or process.

The rule: a snapshot never changes and never blocks the writer. But the pages that it sees
cannot be used again while it is open, so hold one for a batch, not for a session.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb

from arneb_core.errors import FormatMismatch, StoreUnusable
from arneb_core.position import AFTER_ALL, Position
from arneb_core.store.block import block_span, decode_block
from arneb_core.store.long_keys import HEAD_BYTES, is_long, shorten, unwrap
from arneb_core.store.records import unpack_number
from arneb_core.store.schema import (
    FORMAT_VERSION,
    META_FORMAT,
    Table,
    TopicId,
    entry_key,
    parse_entry_key,
    topic_prefix,
)

Tables = Mapping[Table, Any]
"""The open handles; ``lmdb._Database`` has no public name."""

MAP_BYTES: Final = 1 << 40
"""Address space reserved for the file, far more than it will need: the map never has to grow,
which LMDB allows only while nobody reads. It costs neither memory nor disk; measured, an open
store with it takes 0.2 MB more than the interpreter alone."""

MAP_BYTES_MIN: Final = 1 << 26
READERS_MAX: Final = 2048
"""64 bytes each; set by whoever creates the lock file, so every opener says the same."""


class Snapshot:
    """One read transaction. Use it from one thread at a time, inside its ``with`` block."""

    __slots__ = ("_tables", "_txn")

    def __init__(self, txn: "lmdb.Transaction[bytes]", tables: Tables) -> None:
        self._txn = txn
        self._tables = tables

    def get(self, table: Table, key: bytes) -> bytes | None:
        """The value of a key, None when there is none."""
        value = self._txn.get(shorten(key), db=self._tables[table])
        return unwrap(value)[1] if value is not None and is_long(key) else value

    def scan(self, table: Table, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Every key that begins with ``prefix``, with its value, in key order (long keys that
        share their first 479 bytes come in no particular order among themselves)."""
        head = prefix[:HEAD_BYTES]
        cursor = self._txn.cursor(self._tables[table])
        more = cursor.set_range(head)
        while more:
            key, value = cursor.item()
            if not key.startswith(head):
                return
            if is_long(key):
                key, value = unwrap(value)
            if key.startswith(prefix):
                yield key, value
            more = cursor.next()

    def read_blocks(
        self, topic_id: TopicId, first: Position, *, bytes_max: int, last: Position | None = None
    ) -> list[tuple[Position, list[bytes]]]:
        """Runs of entries from ``first`` on (or the first entry behind it), to ``last``.

        Stops behind the block with which ``bytes_max`` is reached, so the answer is empty only
        when there is nothing to read. Raises :class:`.BlockCorrupt`.
        """
        runs: list[tuple[Position, list[bytes]]] = []
        bytes_read = 0
        for value in self._block_values(topic_id, first, last):
            place, entries = cut_run(*decode_block(value), first, last)
            if not entries:
                break
            runs.append((place, entries))
            bytes_read += len(value)
            if bytes_read >= bytes_max:
                break
        return runs

    def iter_blocks(
        self, topic_id: TopicId, first: Position = Position(0), last: Position = AFTER_ALL
    ) -> Iterator[tuple[Position, list[bytes]]]:
        """As :meth:`read_blocks`, one by one and without a limit."""
        for value in self._block_values(topic_id, first, last):
            place, entries = cut_run(*decode_block(value), first, last)
            if entries:
                yield place, entries

    def last_position(self, topic_id: TopicId, up_to: Position | None = None) -> Position | None:
        """The topic's last entry, or its last one that is not behind ``up_to``."""
        limit = AFTER_ALL if up_to is None else up_to
        cursor = self._txn.cursor(self._tables[Table.ENTRIES])
        found = cursor.set_range(entry_key(topic_id, limit))
        if found and cursor.key().startswith(topic_prefix(topic_id)):
            if block_span(cursor.value())[0] <= limit:
                return limit
        if not (cursor.prev() if found else cursor.last()):
            return None
        owner, last = parse_entry_key(cursor.key())
        return last if owner == topic_id else None

    def stat(self, table: Table) -> Mapping[str, int]:
        """LMDB's figures of one table: pages and number of rows."""
        return dict(self._txn.stat(self._tables[table]))  # type: ignore[call-overload]

    def _block_values(
        self, topic_id: TopicId, first: Position, last: Position | None
    ) -> Iterator[bytes]:
        """The blocks that hold something of [first, last], and perhaps one more behind it."""
        prefix = topic_prefix(topic_id)
        cursor = self._txn.cursor(self._tables[Table.ENTRIES])
        more = cursor.set_range(entry_key(topic_id, first))
        while more:
            key, value = cursor.item()
            if not key.startswith(prefix):
                return
            yield value
            if last is not None and parse_entry_key(key)[1] >= last:
                return
            more = cursor.next()


def cut_run(
    place: Position, entries: list[bytes], first: Position, last: Position | None
) -> tuple[Position, list[bytes]]:
    """The part of a run that lies in [first, last]."""
    if last is not None and place + len(entries) - 1 > last:
        del entries[max(0, last - place + 1) :]
    if place < first:
        del entries[: first - place]
        place = first
    return place, entries


class SnapshotEnvironment:
    """A store opened for reading only, beside a live writer in another process."""

    def __init__(self, env: lmdb.Environment, tables: Tables) -> None:
        self._env = env
        self._tables = tables

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """The store as of now."""
        with self._env.begin() as txn:
            yield Snapshot(txn, self._tables)

    def copy(self, target: str | os.PathLike[str], *, compact: bool = False) -> None:
        """A hot copy into the empty directory ``target``."""
        self._env.copy(os.fspath(target), compact=compact)

    def close(self) -> None:
        """Give the reader slots back. Idempotent; every snapshot must be closed."""
        self._env.close()

    def __enter__(self) -> "SnapshotEnvironment":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_snapshot_environment(path: str | os.PathLike[str]) -> SnapshotEnvironment:
    """Open a data directory for reading from ANOTHER process than the broker's.

    LMDB takes a file once per process, and not across a fork: open it after forking. Needs
    write permission on ``lock.mdb``, because a reader must tell the writer which pages it
    still needs. Raises :class:`StoreUnusable` and its kinds.
    """
    if not Path(path, "data.mdb").is_file():
        raise StoreUnusable(f"{os.fspath(path)} holds no Arneb store")
    env = None
    try:
        env = open_lmdb(path, readonly=True)
        tables = open_tables(env)
        check_format(env, tables, path)
    except (lmdb.Error, FormatMismatch) as error:
        if env is not None:
            env.close()
        if isinstance(error, FormatMismatch):
            raise
        raise StoreUnusable(f"cannot read the store in {os.fspath(path)}: {error}") from error
    return SnapshotEnvironment(env, tables)


def open_lmdb(
    path: str | os.PathLike[str], *, readonly: bool, lock: bool = True, map_bytes: int = MAP_BYTES
) -> lmdb.Environment:
    """The LMDB environment with the options that the store depends on; raises ``lmdb.Error``."""
    while True:
        try:
            return lmdb.Environment(
                os.fspath(path),
                map_size=map_bytes,
                readonly=readonly,
                create=not readonly,
                lock=lock,
                mode=0o640,
                # fsync before a commit returns, and only through file descriptors, so that an
                # error of the disk is an exception and not a SIGBUS.
                sync=True,
                metasync=True,
                writemap=False,
                # Pages are read in log order by cold readers and at random by nobody.
                readahead=True,
                max_readers=READERS_MAX,
                max_dbs=len(Table) + 2,
                # The engine of LMDB 0.9; files of LMDB 1.0 are another format.
                lib_version=0,
            )
        except lmdb.MemoryError:
            # The process may be limited in address space (RLIMIT_AS).
            if map_bytes // 4 < MAP_BYTES_MIN:
                raise
            map_bytes //= 4


def open_tables(env: lmdb.Environment) -> Tables:
    """Handles of all tables of an existing store; raises ``lmdb.Error`` if one is missing."""
    with env.begin() as txn:
        return {table: env.open_db(table.value, txn=txn, create=False) for table in Table}


def check_format(env: lmdb.Environment, tables: Tables, path: str | os.PathLike[str]) -> None:
    """Raise :class:`FormatMismatch` unless the store is of this version's format."""
    with env.begin() as txn:
        stored = txn.get(META_FORMAT, db=tables[Table.META])
    found = "no" if stored is None else str(unpack_number(stored))
    if found != str(FORMAT_VERSION):
        raise FormatMismatch(
            f"{os.fspath(path)} holds a store of format {found}; "
            f"this version reads format {FORMAT_VERSION} only"
        )
