"""The commit log: what decides whether a commit counts.

The rule: one value goes in, the :class:`.Changes` of one commit, and it ends in one of three ways:

* *stored*: all of it is durable, and a start or another reader finds it (:class:`.CommitReport`);
* *refused* before it got a number: nothing of it is durable, nor will be, and the next commit may
  be stored (:class:`.StoreFull`, :class:`.StoreFailed`);
* *leadership lost*: somebody else writes this log now, so nothing is stored any more
  (:class:`.LeadershipLost`).

An outcome that is not known yet is no ending: nobody is told anything until it is. Commits are
numbered in the order in which they are submitted, and they end in that order. Each is planned as if
all before it were stored; so one that is not stored ends all behind it, of which nothing more is
said. Only what has nothing to do with those under way may be stored beside them, at once or not at
all.
"""

from collections.abc import Callable
from typing import Final, Protocol

from arneb_core.api.errors import CommitFailed
from arneb_core.store.format.changes import Changes, CommitReport

SMALL_ENTRIES_MAX: Final = 1024
SMALL_RUNS_MAX: Final = 8
SMALL_ROWS_MAX: Final = 32
SMALL_BYTES_MAX: Final = 448 * 1024
"""What a small commit has at most: all that a publisher with a window of 500 messages of a few
hundred bytes has under way. One write of so much takes .38 ms where one of 4 KiB takes .2 and
LMDB's commit 2 to 5, with the way to the thread and back. What comes of those who send all they can
is more."""

LARGE_ENTRY_BYTES: Final = 2 * 1024
LARGE_BYTES_MAX: Final = 128 * 1024
"""So many bytes of entries that are so large on average: with as many bytes as others may have
these would be few, and what is written twice would cost more than the flushes that are saved."""

Ending = CommitReport | CommitFailed
"""How a commit ended."""

Lent = Callable[[], None]
"""Called in the thread that commits, once: what was asked for in vain may be tried again now."""

Ended = Callable[[Ending], None]
"""Is told so, in the event loop."""


class CommitLog(Protocol):
    """Makes commits durable, or says that they are not."""

    @property
    def depth(self) -> int:
        """How many commits may be under way at once."""
        ...

    @property
    def beside_bytes_min(self) -> int:
        """A commit is begun beside others only with so many bytes; with less it waits for what is
        under way, and for company."""
        ...

    @property
    def is_unsettled(self) -> bool:
        """The log has what the store lacks: have empty :class:`.Changes` committed soon."""
        ...

    def prepare(self) -> None:
        """Make ready, in the background, what makes small commits fast."""
        ...

    def submit(
        self, changes: Changes, ended: Ended, *, settle: bool = False
    ) -> CommitReport | None:
        """Have ``changes`` stored behind everything that was submitted before.

        The report if that is so already; else None, and ``ended`` is called later, once, unless one
        before it ends otherwise than *stored*. ``settle``: the store is to have all of the log when
        this ends.
        """
        ...

    def submit_beside(self, changes: Changes, possible: Callable[[], None]) -> CommitReport | None:
        """Have small runs stored on the spot, whatever is under way: of topics for which that has
        nothing. The report, and then no commit under way that fails ends them; or None: not now.
        ``possible`` may be called then, in the event loop, when it is worth another try."""
        ...

    def close(self) -> None:
        """Finish what was submitted, and end; blocks meanwhile."""
        ...


def is_for_one_write(entries: int, size: int) -> bool:
    """Whether so many entries, of so many bytes together, are for one write."""
    if size > LARGE_BYTES_MAX and size > entries * LARGE_ENTRY_BYTES:
        return False
    return entries <= SMALL_ENTRIES_MAX and size <= SMALL_BYTES_MAX
