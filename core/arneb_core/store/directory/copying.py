"""Copying: a whole store into an empty directory, while commits continue.

The rule: a copy is what a broker killed now would leave, so the journal goes with LMDB's file: the
records that the copied LMDB lacks, in a file that it knows.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import lmdb

from arneb_core.api.errors import StoreFailed
from arneb_core.store.data_file.opening import copy_environment, open_lmdb
from arneb_core.store.format.commit_record import CommitRecord
from arneb_core.store.format.records import JournalState
from arneb_core.store.format.schema import META_JOURNAL, Table
from arneb_core.store.journal.writing import write_file


def copy_store(
    env: lmdb.Environment,
    target: str | os.PathLike[str],
    pending: Iterable[CommitRecord],
    *,
    compact: bool,
) -> None:
    """Write a consistent copy into ``target``, durably. ``pending``: records that LMDB lacked a
    moment ago. Raises :class:`StoreFailed`."""
    copy_environment(env, target, compact=compact)
    try:
        # LMDB may have taken over some of them before it was copied, but never lost any.
        state = _state_of(target)
        if state.in_use:
            late = [each for each in pending if each.number > state.number]
            write_file(Path(target), state, late)
    except (lmdb.Error, OSError) as error:
        raise StoreFailed(f"cannot copy the journal to {os.fspath(target)}: {error}") from error


def _state_of(path: str | os.PathLike[str]) -> JournalState:
    env = open_lmdb(path, readonly=True, lock=False)
    try:
        meta = env.open_db(Table.META.value, create=False)
        with env.begin() as txn:
            return JournalState.unpack(txn.get(META_JOURNAL, db=meta))
    finally:
        env.close()
