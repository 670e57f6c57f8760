"""Inline commits: very small ones, which the event loop makes by itself.

The rule: only while one publisher at a time waits for one or a few messages, and only as long
as the disk has answered fast of late, whoever asked it; and it is one write into the journal or
nothing: whatever is more than that is left to the thread. Handing a commit to the writer thread and
being told of its end costs two changes of thread, which is half of what such a commit takes; a
publisher at window 1 waits for nothing else. The price is that a disk that stalls holds the loop up
for the length of one write, once in :data:`PAUSE_COMMITS` commits:
docs/decisions/0010-tiny-commits-go-to-a-journal.md.
"""

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Final

from arneb_core.store.changes import Changes, CommitReport
from arneb_core.store.commit.commit_log import Ending

logger = logging.getLogger(__name__)

ENTRIES_MAX: Final = 4
BYTES_MAX: Final = 16 * 1024
"""More is no window of one; then there is work to do meanwhile."""

LONE_COMMITS_MIN: Final = 16
"""So many tiny commits in a row, each of one request, before the loop makes the next itself:
publishers that come together are to be committed together, by the thread."""

FAST_S: Final = 0.001
"""A disk that flushes in less may hold the loop up: ten times what the change of threads costs."""

FLUSHES: Final = 2
"""That a commit of LMDB waits for, where the journal waits for one."""

PAUSE_COMMITS: Final = 256
"""Commits left to the thread after one that was not fast, or failed, wherever it was made."""


class InlineCommits:
    """Decides whether the event loop makes a commit by itself, and makes it."""

    def __init__(self, commit: Callable[[Changes], CommitReport | None]) -> None:
        """``commit`` makes a tiny one, if it can; see :meth:`.Store.commit_tiny`."""
        self._commit = commit
        self.is_tiny = False
        """The commit of which :meth:`suits` was asked last would be one for the loop but for the
        disk, or for who committed before."""
        self._lone = 0
        self._pause = 0

    def __repr__(self) -> str:
        state = f"closed for {self._pause} commits" if self._pause else f"{self._lone} lone commits"
        return f"<InlineCommits {state}>"

    def suits(self, requests: int, changes: Changes) -> bool:
        """Whether this commit, of so many requests, is one for the loop. Ask once for each."""
        self.is_tiny = False
        blocks = changes.blocks
        # Entries and nothing else: no ledger that opens, no cursors, no trims.
        if (
            requests != 1
            or len(blocks) != 1
            or not 0 < len(entries := blocks[0][2]) <= ENTRIES_MAX
            or changes.puts
            or changes.deletes
            or changes.prefixes
            or changes.trims
            or sum(map(len, entries)) > BYTES_MAX
        ):
            self._lone = 0
            return False
        self.is_tiny = True
        if self._pause:
            self._pause -= 1
            return False
        self._lone += 1
        return self._lone > LONE_COMMITS_MIN

    def commit(self, changes: Changes) -> CommitReport | None:
        """Commit here and now; blocks for as long as one write takes. None: it was not to be, and
        is the thread's, before anything else."""
        self.is_tiny = False
        start = perf_counter()
        try:
            report = self._commit(changes)
        except OSError as error:
            logger.warning("cannot write to the journal, committing without it: %s", error)
            self._close()
            return None
        if perf_counter() - start > FAST_S:
            self._close()
        return report

    def told(self, ending: Ending) -> None:
        """How the thread's commit ended, of which :meth:`suits` found that it :attr:`is_tiny`."""
        if not isinstance(ending, CommitReport) or ending.seconds > FLUSHES * FAST_S:
            self._close()

    def _close(self) -> None:
        self._lone = 0
        self._pause = PAUSE_COMMITS
