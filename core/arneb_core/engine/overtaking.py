"""Overtaking: small runs that are stored beside a large commit, and do not wait for it.

The rule: a run goes past the commits under way, and past what waits before it, only if none of
these has to do with its topic: so every topic has its entries in the order in which they came. So
do runs with rows of a frontend's (:attr:`.Request.is_entries_and_rows`), if nothing before them has
rows. What is more than that (a declaration, a deletion, a unit that acknowledges) overtakes nothing
and is overtaken by nothing. Whoever may not overtake stays where it is and comes with the next
commit, so nobody starves; and what overtakes is little, so all that it costs those who wait is the
loop's time for one write.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from time import perf_counter
from typing import Final

from arneb_core.engine.planned_commit import PlannedCommit
from arneb_core.engine.request import Request
from arneb_core.engine.topic import LogTopic
from arneb_core.store.commit.commit_log import (
    SMALL_BYTES_MAX,
    SMALL_ENTRIES_MAX,
    SMALL_RUNS_MAX,
    CommitLog,
)
from arneb_core.store.format.changes import CommitReport
from arneb_core.store.journal.overlay import can_be_laid_over

CROWD: Final = 128
"""So many requests that wait are a crowd: each is one of many then, and one commit for all of them
is what serves them best. Fewer are looked at one by one, each once for each commit."""

BESIDE_BYTES_MAX: Final = 128 * 1024
"""What one write beside others has at most: less than a small commit that is alone may have, for
everybody waits for it."""

REST: Final = 3
"""So many times as long as a write took the loop rests from such writes: whatever the disk does,
they have a quarter of its time at the most. A fast one takes 50 us."""

CREDIT_S: Final = 0.004
"""So much of that rest it may have had before: who sends one message after the other, 500 a second,
comes too soon behind the one before as often as not, and would wait for a pass of the others."""

LITTLE_BYTES_MAX: Final = 16 * 1024
"""What is stored at the end of the turn that brings it, or by itself between two large commits: the
bytes of no more cost less than the flush. Where many send more than that, what they send in a pass
is better off together, as is the small rest that the publisher of the large commits sends."""

logger = logging.getLogger(__name__)


class Rest:
    """The rest from writes. Invariant: over any time, those that were made took no more than one
    part of it and of ``CREDIT_S`` for ``REST`` others, but for the last of them."""

    def __init__(self, seconds: Callable[[], float] = perf_counter) -> None:
        self._seconds = seconds
        self._until = 0.0

    def __repr__(self) -> str:
        return f"<Rest until {self._until:.4f}>"

    @property
    def lasts(self) -> bool:
        return self._seconds() < self._until

    def follows(self, write_s: float) -> None:
        """A write took so long."""
        owed_until = max(self._until + write_s, self._seconds() - CREDIT_S)
        self._until = owed_until + REST * write_s


class Overtaking:
    """Chooses who overtakes, and has it stored.

    Invariant: the first ``_seen`` of what waits may not overtake what is under way, and ``_taken``
    are the topics of both; unless it is not ``_is_known`` what is under way.
    """

    def __init__(
        self,
        log: CommitLog,
        now_ms: Callable[[], int],
        seconds: Callable[[], float] = perf_counter,
    ) -> None:
        self._log = log
        self._rest = Rest(seconds)
        self._now_ms = now_ms
        self._was_large = False
        """The last commit that began had more than a small one has."""
        self._is_known = False
        self._is_barred = False
        """Nothing overtakes."""
        self._taken: set[object] = set()
        self._seen = 0

    def __repr__(self) -> str:
        state = "barred" if self._is_barred else f"{len(self._taken)} topics taken"
        return f"<Overtaking, {state}, {self._seen} seen>"

    def is_due(
        self,
        waiting: deque[Request],
        under_way: Collection[PlannedCommit],
        waiting_bytes: int,
        in_step: bool,
    ) -> bool:
        """Whether what is little need not wait: for what is under way, for what waits with it, or,
        where large commits are made, for the next; nor that for one of so little. Not ``in_step``,
        so at the end of the turn that has brought the last request, only if that is little."""
        if not waiting or not (in_step or waiting[-1].size <= LITTLE_BYTES_MAX):
            return False
        if under_way or waiting_bytes > SMALL_BYTES_MAX:
            return True
        return self._was_large and waiting_bytes <= LITTLE_BYTES_MAX

    def begun(self, size: int) -> None:
        """A commit of so many bytes is under way now."""
        self._was_large = size > SMALL_BYTES_MAX
        self._is_known = False

    def again(self) -> None:
        """Other commits are under way than before, or other requests wait; or what could not be
        stored may be now."""
        self._is_known = False

    def commit(
        self,
        waiting: deque[Request],
        under_way: Collection[PlannedCommit],
        possible: Callable[[], None],
    ) -> tuple[PlannedCommit, CommitReport] | None:
        """Take out of ``waiting`` what need not wait for the rest, and have it stored, beside the
        commits ``under_way``. None: there is nothing of the kind, or not now; ``possible`` is
        called when it is worth another try, if that is not with the next commit."""
        if self._rest.lasts:
            return None
        chosen = self.choose(waiting, under_way)
        if not chosen:
            return None
        commit = PlannedCommit(None)
        commit.requests = chosen
        commit.size = sum([request.size for request in chosen])
        report = None
        try:
            commit.plan_appends(self._now_ms())
            for request in chosen:
                if request.puts:
                    commit.plan_more(request)
            if can_be_laid_over(commit.changes):  # no ledger begins
                report = self._log.submit_beside(commit.changes, possible)
        except Exception:
            logger.exception("unexpected error while preparing a commit beside others")
        if report is None:
            commit.take_back()
            waiting.extendleft(reversed(chosen))
            self._is_known = self._is_barred = True
            return None
        self._rest.follows(report.seconds)
        return commit, report

    def choose(
        self, waiting: deque[Request], under_way: Collection[PlannedCommit]
    ) -> list[Request]:
        """Take out of ``waiting`` what is small and depends on nothing before it."""
        if not self._is_known:
            self._look_at(under_way)
        if self._is_barred or len(waiting) > CROWD:
            return []
        taken = self._taken
        chosen: list[Request] = []
        topics: set[object] = set()
        entries = size = 0
        for request in islice(waiting, self._seen, None):
            has_rows = not request.is_appends
            if has_rows and not request.is_entries_and_rows:
                self._is_barred = True
                break
            if (
                (has_rows or request.is_run)
                and request.entries <= SMALL_ENTRIES_MAX
                and request.size <= BESIDE_BYTES_MAX
            ):
                own = request.topics if has_rows else [request.appends[0][0]]
                if not any(topic in taken or topic.fenced for topic in own):
                    entries += request.entries
                    size += request.size
                    topics.update(own)
                    if (
                        entries > SMALL_ENTRIES_MAX
                        or size > BESIDE_BYTES_MAX
                        or len(topics) > SMALL_RUNS_MAX
                    ):
                        if not under_way:
                            # Before a large commit, whose beginning that would be.
                            chosen = _apart(chosen, own)
                            self._is_known = False
                        break  # for the next, which begins with it
                    chosen.append(request)
                    continue
            if has_rows:  # what comes behind may have the same rows
                self._is_barred = True
                break
            self._seen += 1
            taken.update([topic for topic, _, _ in request.appends])
        if chosen:
            out = set(map(id, chosen))
            kept = [request for request in waiting if id(request) not in out]
            waiting.clear()
            waiting.extend(kept)
        return chosen

    def _look_at(self, under_way: Collection[PlannedCommit]) -> None:
        self._is_known, self._is_barred, self._seen = True, False, 0
        self._taken = set()
        for commit in under_way:
            if not all(request.is_appends for request in commit.requests):
                self._is_barred = True
            self._taken.update(commit.runs)
            # Cursors that are written, and nothing goes or ends with that: those do not matter.
            self._taken.update([topic for topic, _ in commit.trims])


def _apart(chosen: Sequence[Request], topics: Collection[LogTopic]) -> list[Request]:
    """Those that have to do with none of these topics, up to one with rows that has: it stays, and
    what comes behind it may have its rows or its other topics."""
    apart: list[Request] = []
    for request in chosen:
        if not any(topic in topics for topic in request.topics):
            apart.append(request)
        elif request.puts:
            break
    return apart
