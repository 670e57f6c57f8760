"""The short cut: a very small commit that is made by the event loop itself.

The rule: only while one publisher at a time waits for one or a few messages, and only as long
as the disk answers fast. Handing a commit to the writer thread and being told of its end costs
two changes of thread, which is half of what such a commit takes; a publisher at window 1 waits
for nothing else. The price is that a disk that stalls holds the loop up for the length of one
write, once in :data:`PAUSE_COMMITS` commits: docs/decisions/0010-tiny-commits-go-to-a-journal.md.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Final

from arneb_core.store.changes import Changes
from arneb_core.threads import CommitResult

if TYPE_CHECKING:
    from arneb_core.request import Request

ENTRIES_MAX: Final = 4
BYTES_MAX: Final = 16 * 1024
"""More is no window of one; then there is work to do meanwhile."""

LONE_COMMITS_MIN: Final = 16
"""So many tiny commits in a row, each of one request, before the loop makes the next itself:
publishers that come together are to be committed together, by the thread."""

FAST_S: Final = 0.001
"""A disk that flushes in less may hold the loop up: ten times what the change of threads costs."""

PAUSE_COMMITS: Final = 256
"""Commits left to the thread after one that was not fast."""


class ShortCut:
    """Decides whether the event loop makes a commit by itself, and makes it."""

    def __init__(self, commit: Callable[[Changes], CommitResult] | None) -> None:
        self._commit = commit
        self._lone = 0
        self._pause = 0

    def __repr__(self) -> str:
        if self._commit is None:
            return "<ShortCut none>"
        state = f"closed for {self._pause} commits" if self._pause else f"{self._lone} lone commits"
        return f"<ShortCut {state}>"

    def suits(self, requests: Sequence["Request"], changes: Changes) -> bool:
        """Whether this commit is one for the loop. Ask once for each commit."""
        if self._commit is None or len(requests) != 1:
            self._lone = 0
            return False
        request = requests[0]
        tiny = 0 < request.entries <= ENTRIES_MAX and request.size <= BYTES_MAX
        if not tiny or len(changes.blocks) != 1 or _holds_more(changes):
            self._lone = 0
            return False
        if self._pause:
            self._pause -= 1
            return False
        self._lone += 1
        return self._lone > LONE_COMMITS_MIN

    def commit(self, changes: Changes) -> CommitResult:
        """Commit here and now; blocks for as long as the disk takes."""
        assert self._commit is not None, "suits() said no"
        start = perf_counter()
        result = self._commit(changes)
        if perf_counter() - start > FAST_S:
            self._lone = 0
            self._pause = PAUSE_COMMITS
        return result


def _holds_more(changes: Changes) -> bool:
    """Something beside entries: a ledger that opens, cursors, trims."""
    return bool(changes.puts or changes.deletes or changes.prefixes or changes.trims)
