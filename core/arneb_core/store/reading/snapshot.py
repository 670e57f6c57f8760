"""Snapshots: the whole store as of one commit, for reading, from any thread or process.

The rule: a snapshot never changes and never blocks the writer. But the pages that it sees
cannot be used again while it is open, so hold one for a batch, not for a session.
"""

import os
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import lmdb

from arneb_core.api.errors import StoreFailed, StoreUnusable
from arneb_core.api.position import AFTER_ALL, Position
from arneb_core.store.data_file.meta_pages import check_file
from arneb_core.store.data_file.opening import DATA_NAME, LOCK_NAME, Tables, open_lmdb, open_tables
from arneb_core.store.data_file.page_release import PageRelease
from arneb_core.store.data_file.page_walk import PageFault
from arneb_core.store.data_file.readers import WatchedReading
from arneb_core.store.data_file.store_file import (
    EVERY_TABLE,
    WHAT_THERE_IS,
    look_at_transaction,
    refuse,
)
from arneb_core.store.directory.copying import copy_store
from arneb_core.store.format.block import (
    BLOCK_FORMAT,
    block_span,
    cut_run,
    decode_block,
    pick_entries,
)
from arneb_core.store.format.bodies import unpack_body
from arneb_core.store.format.commit_record import CommitRecord
from arneb_core.store.format.long_keys import HEAD_BYTES, is_long, shorten, unwrap
from arneb_core.store.format.records import JournalState, unpack_gap
from arneb_core.store.format.schema import (
    META_JOURNAL,
    BodyKey,
    Table,
    TopicId,
    entry_key,
    parse_entry_key,
    topic_prefix,
)
from arneb_core.store.journal.file import Fault
from arneb_core.store.journal.fitting import Fitting, Gap, fit
from arneb_core.store.journal.held import HeldCommit, left_of
from arneb_core.store.journal.overlay import Overlay, laid_over
from arneb_core.store.journal.reader import JournalReader
from arneb_core.store.reading.leftovers import Range, is_left_over, leftovers

BEFORE_EVERYTHING = Position(0)
NOTHING: Final = Overlay()

BLOCKS_READ_MAX: Final = 256
"""In one reading of single entries. The whole of each is checked: together some 30 ms, after which
other readers get their turn."""

LOOK_TRIES: Final = 100
"""A read transaction's meta page is written over by the second commit that comes behind it."""


class Snapshot:
    """One read transaction. Use it from one thread at a time, inside its ``with`` block."""

    __slots__ = (
        "_leftovers",
        "_overlay",
        "_page_release",
        "_tables",
        "_txn",
        "faults",
        "journal_gaps",
    )

    def __init__(
        self,
        txn: "lmdb.Transaction[bytes]",
        tables: Tables,
        page_release: PageRelease,
        pending: Sequence[CommitRecord] = (),
        gaps: Sequence[Gap] = (),
        faults: Sequence[Fault] = (),
        held: Sequence[HeldCommit] = (),
    ) -> None:
        """``pending`` are records of the journal that LMDB may not have taken over yet, ``gaps``
        what is missing between them, and ``faults`` what is wrong with it; ``held`` came later."""
        self._txn = txn
        self._tables = tables
        self._page_release = page_release
        self.journal_gaps = gaps
        self.faults = faults
        self._leftovers: dict[TopicId, list[Range]] | None = None  # looked up when needed
        self._overlay = NOTHING
        has = JournalState.unpack(self.get(Table.META, META_JOURNAL)).number if pending else 0
        late = [each.changes for each in pending if each.number > has]
        self._overlay = Overlay(late + left_of(held, txn.id()))

    def __repr__(self) -> str:
        return f"<Snapshot {self._txn.id()}, with {self._overlay!r}>"

    def get(self, table: Table, key: bytes) -> bytes | None:
        """The value of a key, None when there is none."""
        late = self._overlay.rows(table)
        if key in late:
            return late[key]
        value = self._txn.get(shorten(key), db=self._tables[table])
        self._page_release.read(0 if value is None else len(value))
        return unwrap(value)[1] if value is not None and is_long(key) else value

    def scan(self, table: Table, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Every key that begins with ``prefix``, with its value, in key order (long keys that
        share their first 479 bytes come in no particular order among themselves)."""
        return laid_over(self._scan(table, prefix), self._overlay.rows(table), prefix)

    def _scan(self, table: Table, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        head = prefix[:HEAD_BYTES]
        cursor = self._txn.cursor(self._tables[table])
        more = cursor.set_range(head)
        while more:
            key, value = cursor.item()
            if not key.startswith(head):
                return
            self._page_release.read(len(value))
            if is_long(key):
                key, value = unwrap(value)
            if key.startswith(prefix):
                yield key, value
            more = cursor.next()

    def keys(self, table: Table, prefix: bytes) -> Iterator[bytes]:
        """Every key that begins with ``prefix``, in order, without its value. For tables whose
        keys are short."""
        if not (late := self._overlay.rows(table)):
            return self._keys(table, prefix)
        stored = ((key, b"") for key in self._keys(table, prefix))
        return (key for key, _ in laid_over(stored, late, prefix))

    def _keys(self, table: Table, prefix: bytes) -> Iterator[bytes]:
        cursor = self._txn.cursor(self._tables[table])
        more = cursor.set_range(prefix)
        while more:
            key = cursor.key()
            if not key.startswith(prefix):
                return
            self._page_release.read(0)
            yield key
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
        for _, value in self.block_values(topic_id, first, last):
            place, entries = cut_run(*decode_block(value, self.find_body), first, last)
            if not entries:
                break
            runs.append((place, entries))
            bytes_read += len(value) if value[0] == BLOCK_FORMAT else sum(map(len, entries))
            if bytes_read >= bytes_max:
                break
        return runs

    def read_places(
        self, topic_id: TopicId, places: Sequence[Position], bytes_max: int
    ) -> list[tuple[Position, list[bytes]]]:
        """Single entries at ``places``, which ascend; those that are not there are left out. Stops
        behind the entry with which ``bytes_max`` is reached, or :data:`BLOCKS_READ_MAX` blocks.
        Raises :class:`.BlockCorrupt`."""
        runs: list[tuple[Position, list[bytes]]] = []
        index = bytes_read = 0
        for _ in range(BLOCKS_READ_MAX):
            if index == len(places) or bytes_read >= bytes_max:
                break
            found = self.block_values(topic_id, places[index], places[index])
            _, value = next(found, (None, None))
            first, count = (places[index], 0) if value is None else block_span(value)
            if value is None or not first <= places[index] < first + count:
                index += 1
                continue
            wanted = places[index : bisect_left(places, first + count, index)]
            entries = pick_entries(value, [place - first for place in wanted], self.find_body)
            for place, entry in zip(wanted, entries, strict=True):
                runs.append((place, [entry]))
                bytes_read += len(entry)
                if bytes_read >= bytes_max:
                    break
            index += len(wanted)
        return runs

    def iter_blocks(
        self, topic_id: TopicId, first: Position = BEFORE_EVERYTHING, last: Position = AFTER_ALL
    ) -> Iterator[tuple[Position, list[bytes]]]:
        """As :meth:`read_blocks`, one by one and without a limit."""
        for _, value in self.block_values(topic_id, first, last):
            place, entries = cut_run(*decode_block(value, self.find_body), first, last)
            if entries:
                yield place, entries

    def last_position(self, topic_id: TopicId, up_to: Position | None = None) -> Position | None:
        """The topic's last entry, or its last one that is not behind ``up_to``."""
        limit = AFTER_ALL if up_to is None else up_to
        for first, entries in reversed(self._overlay.runs.get(topic_id, ())):
            if first <= limit:
                return min(limit, Position(first + len(entries) - 1))
        cursor = self._txn.cursor(self._tables[Table.ENTRIES])
        found = cursor.set_range(entry_key(topic_id, limit))
        if (
            found
            and cursor.key().startswith(topic_prefix(topic_id))
            and block_span(cursor.value())[0] <= limit
        ):
            return limit
        if not (cursor.prev() if found else cursor.last()):
            return None
        owner, last = parse_entry_key(cursor.key())
        return last if owner == topic_id else None

    def journaled_blocks(self) -> Iterator[tuple[TopicId, Position, bytes]]:
        """The blocks that are in the journal only, each with its topic and last position: what
        a :meth:`scan` of ENTRIES does not come by."""
        for topic_id in self._overlay.runs:
            for last, value in self._overlay.blocks(topic_id):
                yield topic_id, last, value

    def gaps(self, topic_id: TopicId) -> list[tuple[Position, Position]]:
        """First and last entry of every gap in the topic's log, in order: positions that were
        given out, and what stood there is lost."""
        found = {
            (unpack_gap(value), parse_entry_key(key)[1])
            for key, value in self.scan(Table.GAPS, topic_prefix(topic_id))
        }
        found.update(
            (each.first, each.last) for each in self.journal_gaps if each.topic_id == topic_id
        )
        return sorted(found)

    def decode(self, value: bytes) -> tuple[Position, list[bytes]]:
        """A block of this snapshot; raises :class:`.BlockCorrupt`."""
        return decode_block(value, self.find_body)

    def rows(self, table: Table) -> int:
        """How many rows a table has; of ENTRIES, how many blocks LMDB has."""
        handle = self._tables[table]
        count = self._txn.stat(handle)["entries"]
        for key, value in self._overlay.rows(table).items():
            count += (value is not None) - (self._txn.get(shorten(key), db=handle) is not None)
        return count

    def live_bytes(self) -> int:
        """Bytes of the file's pages that hold something, as against those to be reused."""
        stats = [self._txn.stat(handle) for handle in self._tables.values()]
        return sum(
            stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
            for stat in stats
        )

    def find_body(self, key: BodyKey) -> bytes:
        """An entry that blocks refer to. Raises :class:`.BodyLost`."""
        value = self._txn.get(key, db=self._tables[Table.BODIES])
        entry = unpack_body(key, value)
        self._page_release.read(len(entry))
        return entry

    def block_values(
        self, topic_id: TopicId, first: Position, last: Position | None
    ) -> Iterator[tuple[Position, bytes]]:
        """The blocks that hold something of [first, last], and perhaps one more behind it, as they
        are stored, damaged or not; each with the position of its last entry."""
        if self._leftovers is None:
            self._leftovers = leftovers(lambda key: self.get(Table.META, key))
        left = self._leftovers.get(topic_id, ())
        prefix = topic_prefix(topic_id)
        cursor = self._txn.cursor(self._tables[Table.ENTRIES])
        more = cursor.set_range(entry_key(topic_id, first))
        while more:
            key, value = cursor.item()
            if not key.startswith(prefix):
                break
            self._page_release.read(len(value))
            end = parse_entry_key(key)[1]
            if not (left and is_left_over(left, end, value)):
                yield end, value
                if last is not None and end >= last:
                    return
            elif last is not None and end >= last:
                break  # the log goes on below what is written ahead
            more = cursor.next()
        yield from self._overlay.blocks(topic_id, first, last)


class SnapshotEnvironment:
    """A store opened for reading only, beside a live writer in another process."""

    def __init__(self, env: lmdb.Environment, tables: Tables) -> None:
        self._env = env
        self._tables = tables
        self._page_release = PageRelease(Path(env.path(), DATA_NAME))
        self._journal = JournalReader(Path(env.path()), self._meta)

    def __repr__(self) -> str:
        return f"<SnapshotEnvironment, {self._page_release!r}>"

    @contextmanager
    def snapshot(self, *, damaged_too: bool = False) -> Iterator[Snapshot]:
        """The store as of now.

        Raises :class:`.StoreUnusable` when the file was cut off since it was opened or the broker
        wants its pages back, and :class:`.StoreFailed` when LMDB meets a page that is none. Raises
        :class:`.StoreUnusable` when the journal is damaged, too, unless ``damaged_too``: then
        :attr:`Snapshot.faults` says how, and the snapshot has what is whole.
        """
        check_file(Path(self._env.path(), DATA_NAME))
        try:
            found = self._journal.read() if damaged_too else self._journal.read_whole()
            with self._env.begin() as txn:
                reading = WatchedReading(self._page_release, Path(self._env.path()), txn.id())
                stored = Snapshot(txn, self._tables, reading)
                has = JournalState.unpack(stored.get(Table.META, META_JOURNAL)).number
                records = [each for each in found.records if each.number > has]
                fitting = fit(stored, records, has) if found.faults else Fitting(records)
                yield Snapshot(
                    txn, self._tables, reading, fitting.records, fitting.gaps, found.faults
                )
        except lmdb.Error as error:
            raise StoreFailed(f"cannot read the store: {error}") from error

    def copy(self, target: str | os.PathLike[str], *, compact: bool = False) -> None:
        """As :meth:`.Store.copy`. Raises :class:`StoreUnusable` when the journal is damaged."""
        found = self._journal.read_whole()
        copy_store(self._env, target, found.records, compact=compact)
        self._page_release.forget()

    def _meta(self, key: bytes) -> bytes | None:
        with self._env.begin() as txn:
            return txn.get(key, db=self._tables[Table.META])

    def close(self) -> None:
        """Give the reader slots back. Idempotent; every snapshot must be closed."""
        self._env.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def open_snapshot_environment(
    path: str | os.PathLike[str], *, looked_at: bool = False
) -> SnapshotEnvironment:
    """Open a data directory for reading from ANOTHER process than the broker's.

    LMDB takes a file once per process, and one that was open when the process was forked counts
    as open in the child: open it after forking. Needs write permission on ``lock.mdb``, because
    a reader must tell the writer which pages it still needs. ``looked_at``: its pages were, by
    :func:`page_faults`. Raises :class:`StoreUnusable` and its kinds.
    """
    with _opened(path) as env:
        if not looked_at:
            refuse(Path(path, DATA_NAME), _faults(env, Path(path), WHAT_THERE_IS))
        return SnapshotEnvironment(env, open_tables(env))


def page_faults(path: str | os.PathLike[str]) -> list[PageFault]:
    """What is wrong with the pages of a data directory, as of one commit.

    Raises as :func:`open_snapshot_environment` does when it cannot be opened at all.
    """
    with _opened(path) as env:
        faults = _faults(env, Path(path), EVERY_TABLE)
        env.close()
    return faults


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[lmdb.Environment]:
    """An environment that is closed if something goes wrong."""
    if not Path(path, DATA_NAME).is_file():
        raise StoreUnusable(f"{os.fspath(path)} holds no Arneb store")
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
