"""Commits: how changes get into LMDB, or into the journal in front of it.

The rule: :meth:`Commits.commit` either puts all of its :class:`.Changes` on disk before it returns,
or raises :class:`.CommitFailed` and none of them will ever be there. LMDB keeps that promise; this
module keeps LMDB going when the disk fails. If the disk fails so that neither can be said,
:class:`.CommitInDoubt` is raised, and :meth:`Commits.resolve` decides later.
"""

from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import perf_counter
from typing import Final

import lmdb

from arneb_core.api.errors import CommitFailed, CommitInDoubt, StoreFailed, StoreFull
from arneb_core.store.commit.attempt import Attempt
from arneb_core.store.commit.commit_log import Lent
from arneb_core.store.commit.journal import ROWS_MAX, RUNS_MAX
from arneb_core.store.commit.journal_lending import Beside
from arneb_core.store.commit.journal_recovery import recover_journal
from arneb_core.store.commit.transaction import Transaction
from arneb_core.store.data_file.live import LiveEnvironment
from arneb_core.store.data_file.opening import DATA_NAME
from arneb_core.store.data_file.room import NO_SPACE, Room
from arneb_core.store.format.bodies import Encoded, encode_runs
from arneb_core.store.format.changes import Changes, CommitReport, Trim
from arneb_core.store.format.commit_record import merged_blocks
from arneb_core.store.format.records import unpack_trims
from arneb_core.store.format.schema import META_AHEAD, META_TRIMS, Table
from arneb_core.store.journal.held_commits import (
    HELD_BYTES_MAX,
    HELD_ROWS_MAX,
    HELD_RUNS_MAX,
    HeldCommits,
)
from arneb_core.store.journal.writing import JOURNAL_BYTES
from arneb_core.store.reading.snapshot import Snapshot

PAGES_PER_ROW: Final = 5
PAGE_BYTES: Final = 4096
"""For estimates: a row in a table of 10^9 rows is below this many pages, all of them rewritten."""

JOURNAL_ROOM_BYTES: Final = (
    JOURNAL_BYTES + (RUNS_MAX + (ROWS_MAX + 32) * PAGES_PER_ROW) * PAGE_BYTES
)
"""The most that a takeover needs. What was accepted must find room, whatever comes in between."""

HELD_ROOM_BYTES: Final = (
    HELD_BYTES_MAX + (HELD_RUNS_MAX + (HELD_ROWS_MAX + 32) * PAGES_PER_ROW) * PAGE_BYTES
)
"""The same for held commits."""

PREPARE_AGAIN_COMMITS: Final = 256
"""Commits after which preparing the journal, or setting room aside, is tried again once it
failed."""


class Commits:
    """The committing half of an open store. It belongs to one thread at a time."""

    def __init__(
        self,
        path: Path,
        env: lmdb.Environment,
        map_bytes: int,
        bytes_max: int | None,
        *,
        follows: bool = False,
    ) -> None:
        """``follows``: what was written ahead of its commit may still count; the leader says when
        it does not."""
        self._live = LiveEnvironment(
            path, env, map_bytes, reopened=self._reopened, verified=self._verified
        )
        self._trims: list[Trim] = []
        self._committing = Lock()
        self._beside = Beside()
        self._held = HeldCommits()
        self._holds = False
        """Held commits are wanted."""
        self._attempt: Attempt | None = None
        self._asked: Attempt | None = None
        """The last attempt made for a caller. The store may make others for itself after it,
        before the caller has been told of this one."""
        self._prepare_in = 0
        with self._live.reading() as txn:
            stored = Snapshot(txn, self._live.tables, self._live.page_release)
            self._trims = unpack_trims(stored.get(Table.META, META_TRIMS) or b"")
            ahead = None if follows else stored.get(Table.META, META_AHEAD)
            self._trims += unpack_trims(ahead or b"")
            self._forgets_ahead = ahead is not None
            self._journal = recover_journal(path, stored)
        self._room = Room(
            path / DATA_NAME, bytes_max, lambda: self._live.used_bytes, self._free_bytes
        )

    def __repr__(self) -> str:
        return f"<Commits to {self._live!r}, {len(self._trims)} trims>"

    def commit(self, changes: Changes, *, held: int | None = None) -> CommitReport:
        """Make ``changes`` durable, all or nothing; blocks until they are. The first ``held`` held
        commits (:meth:`hold`), or all of them, go first, in the same transaction.

        Raises :class:`StoreFull` or :class:`StoreFailed`; then nothing was changed, and the next
        commit may succeed. Raises :class:`CommitInDoubt` when the outcome is unknown; then
        :meth:`resolve` must be called before anything else is committed.
        """
        self._begin_alone()
        try:
            self._asked = None  # of an earlier commit, whose report nobody wants now
            env = None
            try:
                env = self._live.working()
                return self._commit(env, changes, held)
            except Exception as failure:
                # If LMDB cannot even be asked, only the journal may hold the run.
                if not (self._journal.is_in_doubt if env is None else self.is_in_doubt):
                    raise
                try:
                    report = self._resolve()
                except CommitFailed:
                    raise CommitInDoubt(str(failure)) from failure
                if report is None:
                    raise
                return report
        finally:
            self._committing.release()

    @property
    def is_in_doubt(self) -> bool:
        """Whether a commit that failed may be on disk all the same."""
        return self._live.is_broken or self._journal.is_in_doubt

    def resolve(self) -> CommitReport | None:
        """Determine for good what became of the commit in doubt: return its report if it is on
        disk, None if it is not and never will be.

        Raises :class:`StoreFull` or :class:`StoreFailed` while that cannot be known.
        """
        self._begin_alone()
        try:
            return self._resolve()
        finally:
            self._committing.release()

    def prepare_tiny(self) -> None:
        """Prepare what :meth:`commit_tiny` needs, if there is room for it now."""
        with suppress(OSError, CommitFailed, CommitInDoubt):
            if self._journal.due is not None:
                self.commit(Changes())
            self._journal.prepare()
            if self._journal.due is not None:
                self.commit(Changes())
            self._room.ensure(JOURNAL_ROOM_BYTES)

    @property
    def needs_takeover(self) -> bool:
        """Whether the journal holds what LMDB lacks; commit empty :class:`Changes`."""
        return self._journal.due is not None

    @property
    def journal_is_direct(self) -> bool | None:
        """Whether the journal is written past the page cache. None: it has not been written yet."""
        return self._journal.is_direct

    def commit_tiny(self, changes: Changes) -> CommitReport | None:
        """Commit small runs of entries, with few rows that can be laid over (:mod:`.overlay`), as
        :meth:`commit` but into the journal by one write, in a third of the time. None: not now, and
        nothing of it counts; commit it by :meth:`commit` before anything else.

        The changes count as committed. The report says ``needs_takeover``: have them put into LMDB
        soon, by another commit or an empty one. Raises :class:`OSError` when the write failed; then
        the same holds as for None.
        """
        if self._trims or self._live.is_broken or not self._journal.takes(changes):
            return None
        if not self._room.is_at_hand(JOURNAL_ROOM_BYTES):
            return None
        begun = perf_counter()
        written = self._journal.append(changes)
        return CommitReport(len(changes.blocks), written, 0, perf_counter() - begun, True)

    def commit_beside(self, changes: Changes, lent: Lent) -> CommitReport | None:
        """Commit as :meth:`commit_tiny`, while another thread is in :meth:`commit`, runs for topics
        that its changes do not touch. None: not now; ``lent`` is called in that thread when another
        try is worthwhile. Raises :class:`OSError`: the failed record does not count once the next
        :meth:`commit` has ended."""
        begun = perf_counter()
        written = self._beside.append(changes, lent)
        if written is None:
            return None
        return CommitReport(len(changes.blocks), written, 0, perf_counter() - begun, True)

    def prepare_holding(self) -> None:
        """Prepare what :meth:`hold` needs, now and after each commit, if there is room. If there is
        none, or the disk does not even say so, nothing is held."""
        self._holds = True
        self._make_ready()

    def hold(self, changes: Changes, size: int) -> bool:
        """Hold ``changes``, of ``size`` bytes, which are durable elsewhere: readers in this process
        see them from now on, and the next :meth:`commit` takes them over first. For one thread,
        while another may be in :meth:`commit`. False: not now, and nothing of it is there; commit
        it by :meth:`commit` before anything else is held."""
        if not self._holds or self._trims or self._live.is_broken:
            return False
        if not (self._held.takes(changes, size) and self._room.seems_at_hand(HELD_ROOM_BYTES)):
            return False
        self._held.hold(changes, size)
        return True

    @property
    def held_bytes(self) -> int:
        """Bytes of held commits."""
        return self._held.size

    # Inside

    def _begin_alone(self) -> None:
        if not self._committing.acquire(blocking=False):
            raise RuntimeError("two commits at once: commit() belongs to one thread")

    def _commit(
        self,
        env: lmdb.Environment,
        changes: Changes,
        held_count: int | None,
        *,
        is_asked: bool = True,
    ) -> CommitReport:
        appends = bool(changes.blocks)
        due = self._journal.due
        held = self._held.copy()[:held_count] if self._holds else []
        late = [] if due is None else self._journal.late
        if held:
            late += [each.changes for each in held]
        blocks = merged_blocks(late) + changes.blocks if late else changes.blocks
        encoded = encode_runs(blocks, changes.shared)
        bytes_written = encoded.size
        rows = sum([len(each.puts) + len(each.deletes) for each in (*late, changes)])
        block_count = len(encoded.blocks)
        rows += block_count + 2 * len(encoded.bodies)
        need = bytes_written + PAGES_PER_ROW * PAGE_BYTES * (rows + 16)
        trims = self._trims + [trim for trim in changes.trims if trim not in self._trims]
        if not (changes or trims or due or held):
            return CommitReport(0, 0, 0)
        begun = perf_counter()
        try:
            if appends:
                self._room.take(need)
            else:
                self._room.spend(need)
            if not (trims or changes.prefixes or self._forgets_ahead):
                self._lend()
            try:
                with env.begin(write=True, buffers=True) as txn:
                    transaction = Transaction(txn, self._live.tables)
                    if self._forgets_ahead:
                        transaction.forget_ahead()
                    for each in late:
                        if each.puts or each.deletes:
                            transaction.apply(each, Encoded())
                    transaction.apply(changes, encoded)
                    trims_left = transaction.trim(trims) if trims else []
                    if trims_left != self._trims or self._forgets_ahead:
                        transaction.remember_trims(trims_left)
                    if due is not None:
                        transaction.remember_journal(due)
                    report = CommitReport(block_count, bytes_written, len(trims_left))
                    attempt = self._attempt = Attempt(txn.id(), report, trims_left, due, held)
                    if held:
                        self._held.begin(held, attempt.transaction)
                    if is_asked:
                        self._asked = attempt
            finally:
                self._beside.take_back()
        except (lmdb.Error, OSError) as error:
            raise self._failed(error) from error
        self._attempt = None
        self._landed(attempt)
        self._make_ready()
        report.needs_takeover = bool(self._journal.pending)  # what came beside it
        report.seconds = perf_counter() - begun
        return report

    def _lend(self) -> None:
        """Lend the journal during a transaction that deletes no topic's rows, if there is room for
        what both write."""
        try:
            if self._journal.is_ready and self._room.is_at_hand(JOURNAL_ROOM_BYTES):
                self._beside.lend(self._journal)
        except lmdb.Error:
            pass  # the room is unknown: lend nothing

    def _landed(self, attempt: Attempt) -> None:
        """Take in an attempt that is on disk."""
        self._trims = attempt.trims_left
        self._forgets_ahead = False
        held, attempt.held = attempt.held, []
        if held:
            self._held.took(held)
        if attempt.journal is not None:
            self._journal.taken_over(attempt.journal)
        self._live.page_release.read(0)  # the commit has moved pages

    def _make_ready(self) -> None:
        """Prepare for the next tiny commit in the journal, and for holding more."""
        if self._prepare_in:
            self._prepare_in -= 1
            return
        try:
            if self._journal.is_wanted:
                if not self._journal.is_ready:
                    self._journal.prepare()
                self._have_at_hand(JOURNAL_ROOM_BYTES)
            if self._holds:
                self._have_at_hand(HELD_ROOM_BYTES)
        except (lmdb.Error, OSError, CommitFailed):  # the commit counts, whatever happens here
            self._prepare_in = PREPARE_AGAIN_COMMITS

    def _have_at_hand(self, need: int) -> None:
        """Raises :class:`StoreFull` also if there is room only inside the file: finding that out
        asks the disk in vain, and walks over LMDB's tables."""
        if self._room.is_at_hand(need):
            return
        self._room.ensure(need)
        if not self._room.is_at_hand(need):
            raise StoreFull(f"no {need} bytes can be reserved")

    def _resolve(self) -> CommitReport | None:
        env = self._live.working()
        if self._journal.is_in_doubt:
            try:
                self._journal.erase()
            except OSError:
                self._commit(env, Changes(), 0, is_asked=False)
        asked, self._asked, self._attempt = self._asked, None, None
        if asked is None or not asked.is_there:
            return None
        asked.report.needs_takeover = bool(self._journal.pending)
        return asked.report

    def _failed(self, error: lmdb.Error | OSError) -> CommitFailed:
        """Return the failure in the core's words, and note whether LMDB has given up."""
        if not self._live.notice():
            if self._attempt is not None:
                self._held.failed(self._attempt.held)
            self._attempt = None  # it failed before the write that makes it count
        code = error.code if isinstance(error, lmdb.Error) else error.errno
        if isinstance(error, lmdb.MapFullError) or code in NO_SPACE:
            return StoreFull(f"no space for the commit: {error}")
        return StoreFailed(f"the commit could not be put on disk: {error}")

    def _reopened(self) -> None:
        """Note whether LMDB's file shows the last commit; the next look may no longer find it. Once
        missing, it stays so: a transaction of the same number makes that certain."""
        attempt = self._attempt
        if attempt is not None and attempt.is_there is not False:
            attempt.is_there = self._live.last_transaction >= attempt.transaction

    def _verified(self) -> None:
        """Act on what the reopened file showed, now that it is certain to stay so."""
        if self._attempt is None:
            return
        if self._attempt.is_there:
            self._landed(self._attempt)
        else:
            self._held.failed(self._attempt.held)

    def _free_bytes(self) -> int:
        with self._live.reading() as txn:
            live = Snapshot(txn, self._live.tables, self._live.page_release).live_bytes()
        return self._live.used_bytes - live
