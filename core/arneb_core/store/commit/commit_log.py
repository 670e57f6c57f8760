"""The commit log: what decides whether a commit counts.

The rule: one value goes in, the :class:`.Changes` of one commit, and it ends in one of three ways:

* *stored*: all of it is durable, and a start or another reader finds it (:class:`.CommitReport`);
* *refused* before it got a number: nothing of it is durable, nor will be, and the next commit may
  be stored (:class:`.StoreFull`, :class:`.StoreFailed`);
* *leadership lost*: another node writes this log now, so nothing is stored any more
  (:class:`.LeadershipLost`).

An outcome that is not known yet is no ending: nothing is reported until it is. Commits are
numbered in the order in which they are submitted, and end in that order. Each is planned as if all
before it were stored; so one that is not stored ends all after it, which are not reported. Only
changes that are independent of those under way may be stored beside them, at once or not at all.
"""

from collections.abc import Callable
from typing import Final, Protocol

from arneb_core.api.errors import CommitFailed
from arneb_core.store.format.changes import Changes, CommitReport

SMALL_ENTRIES_MAX: Final = 640
SMALL_RUNS_MAX: Final = 8
SMALL_ROWS_MAX: Final = 32
SMALL_BYTES_MAX: Final = 448 * 1024
"""Bounds of a small commit: all that a publisher with a window of 500 messages of a few hundred
bytes has under way. A write of that size takes .38 ms, one of 4 KiB .2 ms, and LMDB's commit 2 to 5
ms, with the way to the thread and back. Publishers at full rate exceed it. More entries
are better left to LMDB: the next are read meanwhile, and nothing waits in memory for a takeover."""

LARGE_ENTRY_BYTES: Final = 2 * 1024
LARGE_BYTES_MAX: Final = 128 * 1024
"""Bound for entries of that size on average. Within the bytes allowed to others these would be few
entries, and writing them twice would cost more than the flushes saved."""

Ending = CommitReport | CommitFailed
"""How a commit ended."""

Lent = Callable[[], None]
"""Called once in the committing thread, when a lending asked for in vain has become possible."""

Ended = Callable[[Ending], None]
"""Called with the ending, in the event loop."""


class CommitLog(Protocol):
    """Makes commits durable, or says that they are not."""

    @property
    def depth(self) -> int:
        """How many commits may be under way at once."""
        ...

    @property
    def beside_bytes_min(self) -> int:
        """The least bytes of a commit that is begun beside others; a smaller one waits for those
        under way, and for company."""
        ...

    @property
    def needs_takeover(self) -> bool:
        """Whether the log holds what the store lacks: commit empty :class:`.Changes` soon."""
        ...

    def prepare(self) -> None:
        """Prepare, in the background, what makes small commits fast."""
        ...

    def submit(
        self, changes: Changes, ended: Ended, *, take_over: bool = False
    ) -> CommitReport | None:
        """Store ``changes`` after everything submitted before.

        Return the report if that is done already; else None, and ``ended`` is called once, later,
        unless an earlier commit ends otherwise than *stored*. ``take_over``: at the end the store
        must hold all of the log.
        """
        ...

    def submit_beside(self, changes: Changes, possible: Callable[[], None]) -> CommitReport | None:
        """Store small runs on the spot, whatever is under way, of topics that the commits under way
        do not touch. Return the report; no failure of a commit under way revokes it. None: not now;
        ``possible`` may be called in the event loop when another try is worthwhile."""
        ...

    def close(self) -> None:
        """Finish what was submitted and end; blocks meanwhile."""
        ...


def is_for_one_write(entries: int, size: int) -> bool:
    """Whether that many entries, of ``size`` bytes together, are small enough for one write."""
    if size > LARGE_BYTES_MAX and size > entries * LARGE_ENTRY_BYTES:
        return False
    return entries <= SMALL_ENTRIES_MAX and size <= SMALL_BYTES_MAX
