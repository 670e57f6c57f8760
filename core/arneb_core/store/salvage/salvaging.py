"""Salvaging: reads a damaged data directory, and writes a new one.

The rule: the damaged directory is only read, and not while a broker has it open; the new one gets
its name when it is complete.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import lmdb

from arneb_core.api.errors import ForeignDirectory, StoreLocked, StoreUnusable
from arneb_core.store.commit.transaction import Transaction
from arneb_core.store.data_file.creating import create_store
from arneb_core.store.data_file.opening import (
    DATA_NAME,
    LOCK_NAME,
    Tables,
    open_lmdb,
    open_tables,
    sync_directory,
)
from arneb_core.store.data_file.pages import PageFile
from arneb_core.store.directory.atomic_directory import atomic_directory
from arneb_core.store.format.bodies import Body, Encoded
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.regular_file import open_regular
from arneb_core.store.salvage.salvage import Salvage
from arneb_core.store.salvage.scan import scan

MAKING_SUFFIX: Final = ".salvaging"
"""Suffix of the name of a directory that is not complete yet."""

ROWS_AT_ONCE: Final = 1_000
"""Rows in one transaction: at most 256 MiB of blocks."""


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """What was saved, and what is missing."""

    topics: int
    entries: int
    lost_entries: int
    missing: tuple[str, ...]


def salvage(directory: Path, target: Path) -> SalvageReport:
    """Write what is intact in ``directory`` into the new data directory ``target``.

    Raises :class:`.StoreUnusable` and its kinds: ``target`` exists already, ``directory`` is in use
    or holds nothing of a store.
    """
    try:
        with (
            _not_in_use(directory),
            PageFile(directory / DATA_NAME) as file,
            atomic_directory(target, MAKING_SUFFIX) as making,
        ):
            found = Salvage(scan(file), directory)
            if not (found.topics or found.has_rows):
                raise ForeignDirectory(f"{file.path} holds nothing of an Arneb store")
            _write(found, making)
    except (OSError, lmdb.Error) as error:
        raise StoreUnusable(f"cannot salvage {directory}: {error}") from error
    logs = found.logs.values()
    return SalvageReport(
        len(found.topics),
        sum(log.entries for log in logs),
        sum(log.lost_entries for log in logs),
        tuple(found.missing),
    )


def _write(found: Salvage, making: Path) -> None:
    create_store(making)
    env = open_lmdb(making, readonly=False)
    try:
        tables = open_tables(env)
        rows = found.rows()
        while some := list(islice(rows, ROWS_AT_ONCE)):
            _commit(env, Changes(puts=[*some]), Encoded(), tables)
        blocks = found.blocks()
        while parts := list(islice(blocks, ROWS_AT_ONCE)):
            encoded = Encoded([(key, bytearray(value)) for key, value in parts])
            _commit(env, Changes(), encoded, tables)
        # Counted while the blocks were written.
        counts = iter(found.references.items())
        while keys := list(islice(counts, ROWS_AT_ONCE)):
            bodies = {key: Body(found.stored.body(key), count) for key, count in keys}
            _commit(env, Changes(), Encoded(bodies=bodies), tables)
        env.sync(True)
    finally:
        env.close()
    sync_directory(making)


def _commit(env: lmdb.Environment, changes: Changes, encoded: Encoded, tables: Tables) -> None:
    with env.begin(write=True, buffers=True) as txn:
        Transaction(txn, tables).apply(changes, encoded)


@contextmanager
def _not_in_use(directory: Path) -> Iterator[None]:
    """Keep brokers from opening the directory during the block; none may have it open already."""
    try:
        fd = open_regular(directory / LOCK_NAME, os.O_RDWR)
    except FileNotFoundError:  # the directory is a copy
        yield
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreLocked(f"{directory} is in use by a broker: stop it first") from error
        yield
    finally:
        os.close(fd)
