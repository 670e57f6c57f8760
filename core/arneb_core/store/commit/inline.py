"""Inline commits: small ones, which the event loop makes by itself.

The rule: only while all that comes is little, and only as long as the loop's writes have been fast
on average of late; and it is one write into the journal or nothing: whatever is more than that is
left to the thread. Handing a commit to the writer thread and being told of its end costs two
changes of thread, and the thread waits for the interpreter's lock while the loop computes; a
publisher that waits for its confirms waits for nothing else. The price is that a write which takes
longer holds the loop up. One in twenty does on the disks of most virtual machines, for some
milliseconds, so one alone says nothing. A slow average leaves the next :data:`SLOW_PAUSE_COMMITS`
commits to the thread, which writes them into the same journal, and a stall :data:`PAUSE_COMMITS`.
Then the loop tries again: only its own writes say how fast the disk is, since the time of a
thread's includes its wait for the lock.
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
"""So many small commits in a row before the next is for the journal: what publishers with large
windows begin with is small, too."""

FAST_S: Final = 0.002
"""A disk whose writes take less on average may hold the loop up. A thread that makes them has to
wait for the loop, which computes about as long before it lets the lock go; and a turn of the loop
may last five times as long."""

TRIED_S: Final = 0.0015
"""What the average is taken for when the loop tries again: three writes of 5 ms end the try."""

STALL_S: Final = 0.02
"""One write that takes longer is a stall: with it alone a pass of the loop takes as long as a whole
one may (:data:`.long_turns.PASS_S`)."""

PAUSE_COMMITS: Final = 256
"""Commits left to the thread after a stall of the loop's, or after a failure."""

SLOW_PAUSE_COMMITS: Final = 64
"""The same after writes that were slow on average."""

RECENT_COMMITS: Final = 16
"""The average is over about so many writes."""


class InlineCommits:
    """Decides whether the event loop makes a commit by itself, and makes it."""

    def __init__(self, commit: Callable[[Changes], CommitReport | None]) -> None:
        """``commit`` makes a tiny one, if it can; see :meth:`.Store.commit_tiny`."""
        self._commit = commit
        self.for_journal = False
        """The commit of which :meth:`suits` was asked last is one for the journal, whoever writes
        it."""
        self._small = 0
        self._pause = 0
        self._usual_s = 0.0

    def __repr__(self) -> str:
        state = (
            f"closed for {self._pause} commits" if self._pause else f"{self._small} small commits"
        )
        return f"<InlineCommits {state}, {self._usual_s * 1e6:.0f} us a write>"

    def suits(self, changes: Changes) -> bool:
        """Whether this commit is one for the loop. Ask once for each."""
        self.for_journal = False
        blocks = changes.blocks
        if len(blocks) == 1:  # as most are
            entries = blocks[0][2]
            is_small = is_for_one_write(len(entries), sum(map(len, entries)))
        else:
            is_small = len(blocks) <= SMALL_RUNS_MAX and _are_few([each[2] for each in blocks])
        if not is_small:
            self._small = 0
            return False
        if not changes:
            return False
        # Not a ledger that opens, nor trims: for how often these come it does not matter.
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
        """Commit here and now; blocks for as long as one write takes. None: it was not to be, and
        is the thread's, before anything else, by LMDB."""
        self.for_journal = False
        try:
            report = self._commit(changes)
        except OSError as error:
            self._failed(error)
            return None
        if report is not None:
            self._took(report.seconds)
        return report

    def told(self, ending: Ending, failure: OSError | None = None) -> None:
        """How a commit of the thread's ended that was :attr:`for_journal`; ``failure``: of the
        write into the journal, so that it was LMDB's."""
        if failure is not None:
            self._failed(failure)
        elif not isinstance(ending, CommitReport):
            self._pause = PAUSE_COMMITS

    def _took(self, seconds: float) -> None:
        """A write of the loop's into the journal."""
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
        """``alone`` and ``beside`` make one, if they can; see :meth:`.Store.commit_beside`."""
        self._alone = alone
        self._beside = beside
        self._pause = 0

    def __repr__(self) -> str:
        return f"<BesideCommits {f'closed for {self._pause} commits' if self._pause else 'open'}>"

    def commit(self, changes: Changes, lent: Lent | None) -> CommitReport | None:
        """Commit here and now; blocks for as long as one write takes. ``lent``: the thread has the
        store, and calls that when it is worth another try. None: it was not to be, and may come
        with any other commit."""
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
