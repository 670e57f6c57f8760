"""Inline commits: small ones that the event loop makes itself.

The rule: only while all commits are small, and only while the loop's writes have been fast on
average of late; and each is one write into the journal or nothing: anything more is left to the
thread. Handing a commit to the writer thread and back takes two thread switches, and the thread
waits for the interpreter's lock while the loop computes; a publisher that waits for its confirms
waits for nothing else. The price is that a slow write holds the loop up. One write in twenty does
on the disks of most virtual machines, for some milliseconds, so one alone says nothing. A slow
average leaves the next :data:`SLOW_PAUSE_COMMITS` commits to the thread, which writes them into the
same journal, and a stall :data:`PAUSE_COMMITS`. Then the loop tries again: only its own writes say
how fast the disk is, since the thread's times include its wait for the lock.
docs/decisions/0010-tiny-commits-go-to-a-journal.md.
"""

import logging
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from arneb_core.store.commit.commit_log import (
    SMALL_BYTES_MAX,
    SMALL_ROWS_MAX,
    SMALL_RUNS_MAX,
    Ending,
    Lent,
    is_for_one_write,
)
from arneb_core.store.commit.journal import RUN_BYTES_MAX
from arneb_core.store.format.changes import Changes, CommitReport
from arneb_core.store.journal.overlay import can_be_laid_over

logger = logging.getLogger(__name__)

SMALL_COMMITS_MIN: Final = 4
"""Small commits in a row before the next goes to the journal: publishers with large windows begin
with small ones, too."""

FAST_S: Final = 0.002
"""Writes that take less on average may hold the loop up. A thread that makes them waits for the
loop, which computes about as long before it releases the lock; and a turn of the loop may last five
times as long."""

TRIED_S: Final = 0.0015
"""The average assumed when the loop tries again: three writes of 5 ms end the try."""

STALL_S: Final = 0.02
"""A longer write is a stall: it alone makes a pass of the loop as long as a whole pass may be
(:data:`.long_turns.PASS_S`)."""

PAUSE_COMMITS: Final = 256
"""Commits left to the thread after a stall in the loop, or after a failure."""

SLOW_PAUSE_COMMITS: Final = 64
"""Commits left to the thread after writes that were slow on average."""

RECENT_COMMITS: Final = 16
"""Number of writes that the average covers, about."""


class InlineCommits:
    """Decides whether the event loop makes a commit itself, and makes it."""

    def __init__(self, commit: Callable[[Changes], CommitReport | None]) -> None:
        """``commit`` makes a tiny commit, if it can; see :meth:`.Store.commit_tiny`."""
        self._commit = commit
        self.for_journal = False
        """The commit last passed to :meth:`suits` is for the journal, whoever writes it."""
        self._small = 0
        self._pause = 0
        self._usual_s = 0.0

    def __repr__(self) -> str:
        state = (
            f"closed for {self._pause} commits" if self._pause else f"{self._small} small commits"
        )
        return f"<InlineCommits {state}, {self._usual_s * 1e6:.0f} us a write>"

    def suits(self, changes: Changes) -> bool:
        """Whether the loop should make this commit. Ask once for each."""
        self.for_journal = False
        blocks = changes.blocks
        if len(blocks) == 1:  # the usual case
            entries = blocks[0][2]
            is_small = is_for_one_write(len(entries), sum(map(len, entries)))
        else:
            is_small = len(blocks) <= SMALL_RUNS_MAX and _are_few([each[2] for each in blocks])
        if not is_small:
            self._small = 0
            return False
        if not changes:
            return False
        # Neither a ledger that opens, nor trims: they come too rarely to matter.
        if not (changes.is_plain or self._has_few_rows(changes)):
            return False
        self._small += 1
        if self._small <= SMALL_COMMITS_MIN:
            return False
        self.for_journal = True
        if self._pause:
            self._pause -= 1
            return False
        return True

    @staticmethod
    def _has_few_rows(changes: Changes) -> bool:
        rows = len(changes.puts) + len(changes.deletes)
        return rows <= SMALL_ROWS_MAX and not changes.shared and can_be_laid_over(changes)

    def commit(self, changes: Changes) -> CommitReport | None:
        """Commit here and now; blocks for one write. None: it was not possible, and the thread must
        commit it by LMDB, before anything else."""
        self.for_journal = False
        try:
            report = self._commit(changes)
        except OSError as error:
            self._failed(error)
            return None
        if report is not None:
            self._took(report.seconds)
        return report

    def thread_committed(self, ending: Ending, failure: OSError | None = None) -> None:
        """Note how a commit of the thread ended that was :attr:`for_journal`. ``failure``: writing
        it to the journal failed, and LMDB committed it."""
        if failure is not None:
            self._failed(failure)
        elif not isinstance(ending, CommitReport):
            self._pause = PAUSE_COMMITS

    def _took(self, seconds: float) -> None:
        """Count a write of the loop into the journal."""
        usual_s = self._usual_s + (seconds - self._usual_s) / RECENT_COMMITS
        if seconds > STALL_S or usual_s > FAST_S:
            self._pause = PAUSE_COMMITS if seconds > STALL_S else SLOW_PAUSE_COMMITS
            usual_s = min(usual_s, TRIED_S)
        self._usual_s = usual_s

    def _failed(self, error: OSError) -> None:
        logger.warning("cannot write to the journal, committing without it: %s", error)
        self._pause = PAUSE_COMMITS


class BesideCommits:
    """Makes small commits in the event loop beside large ones."""

    def __init__(
        self,
        alone: Callable[[Changes], CommitReport | None],
        beside: Callable[[Changes, Lent], CommitReport | None],
    ) -> None:
        """``alone`` and ``beside`` make a commit, if they can; see :meth:`.Store.commit_beside`."""
        self._alone = alone
        self._beside = beside
        self._pause = 0

    def __repr__(self) -> str:
        return f"<BesideCommits {f'closed for {self._pause} commits' if self._pause else 'open'}>"

    def commit(self, changes: Changes, lent: Lent | None) -> CommitReport | None:
        """Commit here and now; blocks for one write. ``lent``: the thread has the store, and calls
        this when another try is worthwhile. None: it was not possible, and may go with any other
        commit."""
        if self._pause:
            self._pause -= 1
            return None
        try:
            return self._alone(changes) if lent is None else self._beside(changes, lent)
        except OSError as error:
            logger.warning("cannot write to the journal, committing without it: %s", error)
            self._pause = PAUSE_COMMITS
            return None


def _are_few(runs: Sequence[Sequence[bytes]]) -> bool:
    return is_for_one_write(sum(map(len, runs)), sum(map(len, chain.from_iterable(runs))))


assert SMALL_BYTES_MAX <= RUN_BYTES_MAX, "a small commit is one record"
