"""The local commit log: LMDB's own commit, or the journal file in front of it.

The rule: a thread commits what is submitted, in order, and touches only the store. While the
outcome of a commit is in doubt nothing is reported, and nothing else is committed: nothing could be
until the disk works again, and if the process ends before, nobody was told anything untrue.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread
from typing import Final, Protocol, TypeVarTuple

from arneb_core.api.errors import CommitFailed, CommitInDoubt, StoreFailed
from arneb_core.store.commit.commit_log import Ended, Ending, Lent
from arneb_core.store.commit.disk_interrupts import DiskInterrupts
from arneb_core.store.commit.inline_commits import BesideCommits, InlineCommits
from arneb_core.store.format.changes import Changes, CommitReport

logger = logging.getLogger(__name__)

Args = TypeVarTuple("Args")

DOUBT_WAIT_S: Final = 0.05
DOUBT_WAIT_S_MAX: Final = 1.0
"""Between two looks at a disk that does not show the outcome of a commit; it doubles up to this."""


class CommittingStore(Protocol):
    """What a local commit log needs of a store; the test kit's faulty store is one too."""

    def commit(self, changes: Changes) -> CommitReport: ...

    def commit_tiny(self, changes: Changes) -> CommitReport | None: ...

    def commit_beside(self, changes: Changes, lent: Lent) -> CommitReport | None: ...

    def prepare_tiny(self) -> None: ...

    def resolve(self) -> CommitReport | None: ...

    @property
    def needs_takeover(self) -> bool: ...

    @property
    def path(self) -> Path: ...


class InLoop(Protocol):
    """Calls a function in the event loop, soon and in order; never once the loop has ended, when
    nobody wants to know any more."""

    def __call__(self, function: Callable[[*Args], object], *args: *Args) -> None: ...


class _Submitted:
    """A commit on its way through the thread."""

    __slots__ = ("changes", "ended", "era", "failure", "for_journal")

    def __init__(self, changes: Changes, ended: Ended, era: int, for_journal: bool) -> None:
        self.changes = changes
        self.ended = ended
        self.era = era
        """How many commits had been refused when it was submitted."""
        self.for_journal = for_journal
        self.failure: OSError | None = None
        """The failed write into the journal, if any."""


class LocalCommitLog:
    """The :class:`.CommitLog` of one machine with no other writer: leadership is never lost."""

    def __init__(self, store: CommittingStore, in_loop: InLoop, depth: int = 1) -> None:
        """More than one commit under way gains nothing with one disk: what came during a flush is
        committed together, after it."""
        assert depth >= 1, f"expected one commit under way at least, got {depth}"
        self.depth = depth
        self.beside_bytes_min = 0
        self._store = store
        self._in_loop = in_loop
        self._inline = InlineCommits(store.commit_tiny)
        self._interrupts = DiskInterrupts.of(store.path)
        self._beside = BesideCommits(store.commit_tiny, store.commit_beside)
        self._under_way = 0
        """Work for the thread; while there is none, the loop may use the store."""
        self._era = 0
        self._refused_era = -1
        """The thread's: the era of the last refused commit. Commits of that era do not count."""
        self._queue: SimpleQueue[_Submitted | Callable[[], None] | None] = SimpleQueue()
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="arneb-writer", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<LocalCommitLog {self._under_way} of {self.depth} under way, {self._inline!r}>"

    @property
    def needs_takeover(self) -> bool:
        """The journal has what LMDB lacks."""
        return self._store.needs_takeover

    def prepare(self) -> None:
        """Prepare the journal, in the thread."""
        self._under_way += 1
        self._queue.put(self._store.prepare_tiny)

    def submit(
        self, changes: Changes, ended: Ended, *, take_over: bool = False
    ) -> CommitReport | None:
        """See :meth:`.CommitLog.submit`. A commit that the loop can make by one write is stored
        when this returns; all others go through the thread."""
        inline = self._inline
        for_journal = False
        if not take_over:
            suits = inline.suits(changes)
            if suits and not self._under_way:
                report = inline.commit(changes)
                if report is not None:
                    self._interrupts.written()
                    return report
            for_journal = inline.for_journal
        self._under_way += 1
        self._queue.put(_Submitted(changes, ended, self._era, for_journal))
        return None

    def submit_beside(self, changes: Changes, possible: Callable[[], None]) -> CommitReport | None:
        """See :meth:`.CommitLog.submit_beside`: one write into the journal, while the thread is
        busy with LMDB or idle."""
        if not self._under_way:
            return self._beside.commit(changes, None)
        return self._beside.commit(changes, lambda: self._in_loop(possible))

    def close(self) -> None:
        """Finish what was submitted and end the thread; blocks meanwhile."""
        self._stopping.set()
        self._queue.put(None)
        self._thread.join()

    # In the loop

    def _ended(self, commit: _Submitted, ending: Ending) -> None:
        if isinstance(ending, CommitReport):
            self._under_way -= 1
        else:
            # All after it end with it; commits submitted from now on are of a new era.
            self._under_way = 0
            self._era += 1
        if commit.for_journal:
            self._inline.thread_committed(ending, commit.failure)
        commit.ended(ending)

    def _prepared(self) -> None:
        self._under_way -= 1

    # In the thread

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            if not isinstance(work, _Submitted):
                work()
                self._in_loop(self._prepared)
            elif not self._commit(work):
                return
            del work  # or the commit would stay in memory until the next one

    def _commit(self, commit: _Submitted) -> bool:
        """Commit and report; False when this process can commit nothing more."""
        if commit.era == self._refused_era:
            return True
        ending = self._ending(commit)
        if isinstance(ending, CommitFailed):
            self._refused_era = commit.era
        if ending is not None:
            self._in_loop(self._ended, commit, ending)
        return ending is not None

    def _ending(self, commit: _Submitted) -> Ending | None:
        """Return the commit's ending; None if this process will never know it."""
        try:
            report = self._in_journal(commit) if commit.for_journal else None
            return report or self._store.commit(commit.changes)
        except CommitFailed as error:
            return error
        except CommitInDoubt as doubt:
            return self._resolved(doubt)
        except Exception as error:
            # A bug, not a full disk: the publishers still must not wait for ever.
            logger.exception("unexpected error in a commit")
            return StoreFailed(f"unexpected {type(error).__name__} while committing: {error}")

    def _in_journal(self, commit: _Submitted) -> CommitReport | None:
        """Commit by one write, without two flushes and the file system's work. None: not now."""
        try:
            return self._store.commit_tiny(commit.changes)
        except OSError as error:
            commit.failure = error
            return None

    def _resolved(self, doubt: CommitInDoubt) -> Ending | None:
        logger.error("outcome of a commit unknown; commits are paused until the disk can be read")
        wait_s = DOUBT_WAIT_S
        while not self._stopping.wait(wait_s):
            try:
                report = self._store.resolve()
            except CommitFailed:
                wait_s = min(2 * wait_s, DOUBT_WAIT_S_MAX)
                continue
            state = "not on disk" if report is None else "on disk"
            logger.warning("outcome of the commit in doubt: %s", state)
            return report or StoreFailed(f"the commit could not be put on disk: {doubt}")
        return None
