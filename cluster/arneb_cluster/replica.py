"""The replica: a directory that takes over records in few synchronous transactions.

The rule: the content of a directory and its position in the log change in one transaction. Commits
are applied in order, as many together as have arrived; the result is the same as one by one. Small
ones are first held in memory, where this process's readers find them: the log has them, and they
are read from it again if this process ends before a transaction has taken them over.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from arneb_cluster.protocol.members import Members
from arneb_cluster.protocol.values import FOUNDATION, NOWHERE, Applied, Link, Place
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitInDoubt, StoreFailed, StoreUnusable
from arneb_core.store.environment import Store
from arneb_core.store.format.changes import Changes, CommitReport, Trim
from arneb_core.store.format.commit_record import merged_blocks
from arneb_core.store.format.records import unpack_trims
from arneb_core.store.format.schema import (
    FRONTEND_PREFIX,
    META_REPLICA,
    META_TRIMS,
    TOPIC_PREFIX,
    Table,
    frontend_key,
)
from arneb_core.store.reading.snapshot_environment import open_snapshot_environment

TOGETHER_BYTES_MAX: Final = 16 << 20
"""Bytes of entries in one transaction: LMDB keeps its pages in memory until it is written."""

UNFLUSHED_HEARTBEATS_MAX: Final = 30
"""Empty records that need no transaction of their own: half a minute of them."""

MEMBERS_ROW: Final = Table.CATALOG, frontend_key("cluster/members")
"""The list of members, written by the leader."""

UNFOUNDED: Final = Applied("", FOUNDATION, NOWHERE, FOUNDATION)
"""The log position of a directory that has nothing of any topic."""


@dataclass(frozen=True, slots=True)
class Step:
    """A commit to be applied."""

    changes: Changes
    """Empty: only a number."""
    applied: Applied
    size: int = 0
    """Bytes, roughly."""


@dataclass(slots=True)
class _Together:
    """Commits of one transaction."""

    steps: list[Step] = field(default_factory=list)
    size: int = 0

    def takes(self, step: Step) -> bool:
        if not self.steps:
            return True
        # Prefix deletions are done last in a transaction; they must not delete what later commits
        # put.
        ends = bool(self.steps[-1].changes.prefixes)
        return not ends and self.size + step.size <= TOGETHER_BYTES_MAX

    def add(self, step: Step) -> None:
        self.steps.append(step)
        self.size += step.size


def together(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Group ``steps`` into transactions."""
    made = _Together()
    for step in steps:
        if not made.takes(step):
            yield made.steps
            made = _Together()
        made.add(step)
    if made.steps:
        yield made.steps


def joined(commits: Sequence[Changes]) -> Changes:
    """Join commits into one with the same result as one after another. Only the last of them may
    delete by prefix."""
    if len(commits) == 1:
        return commits[0]
    first = commits[0]
    # An earlier commit may have put what a later one deletes.
    puts = list(first.puts)
    for each in commits[1:]:
        puts += [(table, key, None) for table, key in each.deletes]
        puts += each.puts
    return Changes(
        blocks=merged_blocks(commits),
        puts=puts,
        deletes=first.deletes,
        prefixes=commits[-1].prefixes,
        trims=[trim for each in commits for trim in each.trims],
        shared=[entry for each in commits for entry in each.shared],
    )


class Replica:
    """One directory. Only one thread at a time may change it."""

    def __init__(self, store: Store) -> None:
        """Raises :class:`ValueError` for an invalid row."""
        self.store = store
        with store.snapshot() as snapshot:
            row = snapshot.get(Table.META, META_REPLICA)
            self._trims: list[Trim] = unpack_trims(snapshot.get(Table.META, META_TRIMS) or b"")
            self.members = Members.unpack(snapshot.get(*MEMBERS_ROW))
        self.applied = UNFOUNDED if row is None else unpack_applied(row)
        self.flushed = self.applied
        """What is on disk; :attr:`applied` is ahead by held commits and by empty records."""
        self._held: list[Applied] = []
        """The log position of each held commit. The loop adds, and the thread that takes over
        removes."""
        self._unflushed = 0
        self.metadata_changes = 0
        """Transactions that changed the frontends' metadata."""
        store.prepare_holding()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the replica in a directory; the caller closes its store. Raises
        :class:`.StoreUnusable`."""
        store = Store.open(path, follows=True)
        try:
            return cls(store)
        except BaseException as error:
            store.close()
            if isinstance(error, ValueError):
                raise StoreUnusable(f"cannot use the store in {path}: {error}") from error
            raise

    def __repr__(self) -> str:
        return f"<Replica {self.store.path} at {self.applied.link.number}>"

    @property
    def has_topics(self) -> bool:
        """Whether the directory has any topic."""
        with self.store.snapshot() as snapshot:
            return next(snapshot.keys(Table.CATALOG, TOPIC_PREFIX), None) is not None

    def metadata(self, prefix: str) -> dict[str, bytes]:
        """Return the frontends' metadata with keys of that prefix. For any thread."""
        first, cut = frontend_key(prefix), len(FRONTEND_PREFIX)
        with self.store.snapshot() as snapshot:
            rows = snapshot.scan(Table.CATALOG, first)
            return {key[cut:].decode(): value for key, value in rows}

    def apply(self, steps: Sequence[Step]) -> list[CommitReport]:
        """Apply steps; return one report for each. Raises :class:`.CommitFailed`: the steps not
        applied are the last ones, and :attr:`applied` says from where on."""
        reports: list[CommitReport] = []
        for each in together(steps):
            report = self._apply(each)
            reports += [report] * len(each)
        return reports

    @property
    def held_bytes(self) -> int:
        """Bytes visible to this process's readers that a transaction must still take over."""
        return self.store.held_bytes

    def hold(self, step: Step) -> bool:
        """Make a commit visible to this process's readers, to be taken over later. For the event
        loop, while nothing but :meth:`take_over` is under way in a thread. False: it must be passed
        to :meth:`apply` before anything else."""
        changes = step.changes
        if not changes:
            if self._unflushed + 1 >= UNFLUSHED_HEARTBEATS_MAX:
                return False
            self._unflushed += 1
        elif MEMBERS_ROW in map(_key_of, changes.puts):
            return False  # those changes rely on what is on disk
        elif self.store.hold(changes, step.size):
            self._held.append(step.applied)
            self._took(changes)
        else:
            return False
        self.applied = step.applied
        return True

    def take_over(self) -> None:
        """Write what is held to disk. Raises :class:`.CommitFailed`."""
        if self._held:
            self._commit_held()

    def tidy_up(self) -> CommitReport:
        """Continue trimming."""
        return self._commit_held()

    def flush(self) -> None:
        """Sync to disk that everything applied is there. Raises :class:`.CommitFailed`."""
        if self.flushed != self.applied:
            self._commit(Changes(puts=[applied_row(self.applied)]), self.applied)

    def _apply(self, steps: list[Step]) -> CommitReport:
        applied = steps[-1].applied
        commits = [each.changes for each in steps if each.changes]
        if not commits:
            self.applied = applied
            self._unflushed += len(steps)
            if self._unflushed >= UNFLUSHED_HEARTBEATS_MAX:
                self.flush()
            return CommitReport(0, 0, len(self._trims))
        changes = joined(commits)
        for topic_id, first, entries in changes.blocks:
            # A ledger's number is reused once its leader has trimmed what was left there.
            while self._is_left_over(topic_id, first, Position(first + len(entries) - 1)):
                self._commit_held()
        self._trims += changes.trims
        report = self._commit(_with_place(changes, applied), applied)
        self.applied = applied
        self._took(changes)
        return report

    def _took(self, changes: Changes) -> None:
        """Update the caches with what readers now find."""
        for table, key, value in changes.puts:
            if (table, key) == MEMBERS_ROW:
                self.members = Members.unpack(value)
        if any(map(_is_metadata, changes.puts)) or any(map(_is_metadata, changes.deletes)):
            self.metadata_changes += 1

    def _commit_held(self) -> CommitReport:
        """Write what is held to disk, and continue to trim."""
        if not (held := self._held.copy()):
            return self._commit(Changes(), self.flushed)
        return self._commit(Changes(puts=[applied_row(held[-1])]), held[-1], len(held))

    def _is_left_over(self, topic_id: int, first: Position, last: Position) -> bool:
        return any(
            topic_id == topic and first <= end and begin <= last
            for topic, begin, end in self._trims
        )

    def _commit(self, changes: Changes, applied: Applied, held: int | None = None) -> CommitReport:
        """Commit with that many held commits, or all; the directory then has the log up to
        ``applied``."""
        held = len(self._held) if held is None else held
        try:
            report = self.store.commit(changes, held=held)
        except CommitInDoubt as doubt:
            # A restart finds out whether it is there; nothing is applied meanwhile.
            raise StoreFailed(f"outcome of a transaction unknown: {doubt}") from doubt
        self.flushed, self._unflushed = applied, 0
        del self._held[:held]
        if not report.trims_left:
            self._trims = []
        return report


def _with_place(changes: Changes, applied: Applied) -> Changes:
    """Return the changes with the directory's log position."""
    return Changes(
        changes.blocks,
        [*changes.puts, applied_row(applied)],
        changes.deletes,
        changes.prefixes,
        changes.trims,
        changes.shared,
    )


def _key_of(put: tuple[Table, bytes, bytes | None]) -> tuple[Table, bytes]:
    return put[:2]


def _is_metadata(row: tuple[Table, bytes] | tuple[Table, bytes, bytes | None]) -> bool:
    return row[0] is Table.CATALOG and row[1].startswith(FRONTEND_PREFIX)


def pack_applied(applied: Applied) -> bytes:
    """Return the row of META."""
    return json.dumps(asdict(applied), sort_keys=True).encode()


def unpack_applied(value: bytes) -> Applied:
    """Decode the row of META. Raises :class:`ValueError`."""
    try:
        found: Any = json.loads(value)
        found["link"], found["base"] = Link(*found["link"]), Link(*found["base"])
        found["place"], found["take_place"] = Place(*found["place"]), Place(*found["take_place"])
        found["addresses"] = tuple((name, address) for name, address in found.get("addresses", ()))
        return Applied(**found)
    except (TypeError, KeyError, ValueError) as error:
        raise ValueError(f"expected where a directory is, got {value[:200]!r}") from error


def applied_in(path: Path) -> Applied | None:
    """Return how much of the log a directory has that no process writes to; None: nothing of any
    topic. Raises :class:`StoreUnusable` and :class:`ValueError`."""
    with open_snapshot_environment(path) as environment, environment.snapshot() as snapshot:
        row = snapshot.get(Table.META, META_REPLICA)
    return None if row is None else unpack_applied(row)


def applied_row(applied: Applied) -> tuple[Table, bytes, bytes]:
    """Return the row with a directory's log position."""
    return Table.META, META_REPLICA, pack_applied(applied)
