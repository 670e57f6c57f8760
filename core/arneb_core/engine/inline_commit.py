"""The short cut: a very small commit that is made by the event loop itself.

The rule: only while one publisher at a time waits for one or a few messages, and only as long
as the disk has answered fast of late, whoever asked it; and it is one write into the journal or
nothing: whatever is more than that is left to the thread. Handing a commit to the writer thread and
being told of its end costs two changes of thread, which is half of what such a commit takes; a
publisher at window 1 waits for nothing else. The price is that a disk that stalls holds the loop up
for the length of one write, once in :data:`PAUSE_COMMITS` commits:
docs/decisions/0010-tiny-commits-go-to-a-journal.md.
"""

import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

from arneb_core.engine.io_threads import CommitResult
from arneb_core.store.changes import Changes, CommitReport

if TYPE_CHECKING:
    from arneb_core.engine.request import Request

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


class ShortCut:
    """Decides whether the event loop makes a commit by itself, and makes it."""

    def __init__(self, commit: Callable[[Changes], CommitReport | None] | None) -> None:
        self._commit = commit
        self._is_tiny = False
        """The commit under way would be one for the loop but for the disk."""
        self._lone = 0
        self._pause = 0

    def __repr__(self) -> str:
        if self._commit is None:
            return "<ShortCut none>"
        state = f"closed for {self._pause} commits" if self._pause else f"{self._lone} lone commits"
        return f"<ShortCut {state}>"

    def suits(self, requests: Sequence["Request"], changes: Changes) -> bool:
        """Whether this commit is one for the loop. Ask once for each commit."""
        self._is_tiny = False
        if self._commit is None or len(requests) != 1:
            self._lone = 0
            return False
        request = requests[0]
        tiny = 0 < request.entries <= ENTRIES_MAX and request.size <= BYTES_MAX
        if not tiny or len(changes.blocks) != 1 or _holds_more(changes):
            self._lone = 0
            return False
        self._is_tiny = True
        if self._pause:
            self._pause -= 1
            return False
        self._lone += 1
        return self._lone > LONE_COMMITS_MIN

    def commit(self, changes: Changes) -> CommitReport | None:
        """Commit here and now; blocks for as long as one write takes. None: it was not to be, and
        is the thread's, before anything else."""
        assert self._commit is not None, "suits() said no"
        self._is_tiny = False
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

    def told(self, result: CommitResult) -> None:
        """How the thread's commit went, of which :meth:`suits` was asked."""
        if not self._is_tiny:
            return
        self._is_tiny = False
        if not isinstance(result, CommitReport) or result.seconds > FLUSHES * FAST_S:
            self._close()

    def _close(self) -> None:
        self._lone = 0
        self._pause = PAUSE_COMMITS


def _holds_more(changes: Changes) -> bool:
    """Something beside entries: a ledger that opens, cursors, trims."""
    return bool(changes.puts or changes.deletes or changes.prefixes or changes.trims)
