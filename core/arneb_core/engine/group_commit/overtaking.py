"""Overtaking: small runs that are stored beside a large commit and do not wait for it.

The rule: a run overtakes the commits under way, and the requests waiting before it, only if none of
them concerns its topic: so each topic keeps its entries in arrival order. Runs with rows of a
frontend (:attr:`.Request.is_entries_and_rows`) overtake too, if nothing before them has rows.
Anything more (a declaration, a deletion, a unit that acknowledges) overtakes nothing and is
overtaken by nothing. A request that may not overtake keeps its place and goes with the next commit,
so none starves; and what overtakes is small, so it costs the others only the loop's time for one
write.
"""

import logging
from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from time import perf_counter
from typing import Final

from arneb_core.engine.group_commit.planned_commit import PlannedCommit
from arneb_core.engine.group_commit.request import Request
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.store.commit.commit_log import (
    SMALL_BYTES_MAX,
    SMALL_ENTRIES_MAX,
    SMALL_RUNS_MAX,
    CommitLog,
)
from arneb_core.store.format.changes import CommitReport
from arneb_core.store.journal.overlay import can_be_laid_over

LOOKED_AT_MAX: Final = 128
"""With more waiting requests than this, one commit for all of them serves them best. Fewer are
looked at one by one, each once per commit."""

BESIDE_BYTES_MAX: Final = 128 * 1024
"""Bytes of one write beside others: less than a small commit alone may have, for everybody waits
for it."""

REST_FACTOR: Final = 3
"""After a write beside others there is no further one for three times as long as it took: however
slow the disk, such writes take a quarter of the loop's time at most. A fast disk takes 50 us."""

CREDIT_S: Final = 0.004
"""Rest that may have been saved up before a write: a publisher of 500 single messages a second
often comes too soon after its last one, and would wait for a pass of the others."""

LITTLE_BYTES_MAX: Final = 16 * 1024
"""Bytes that are stored at the end of the turn that brings them, or by themselves between two large
commits: writing them takes less time than the flush. Larger amounts from many publishers are better
committed together, as is the small rest that a publisher of large commits sends."""

logger = logging.getLogger(__name__)


class Rest:
    """The rest from writes. Invariant: over any time, writes took at most one part in
    ``1 + REST_FACTOR`` of it and of ``CREDIT_S``, not counting the last write."""

    def __init__(self, seconds: Callable[[], float] = perf_counter) -> None:
        self._seconds = seconds
        self._until = 0.0

    def __repr__(self) -> str:
        return f"<Rest until {self._until:.4f}>"

    @property
    def lasts(self) -> bool:
        """Whether it is too soon for another write."""
        return self._seconds() < self._until

    def follows(self, write_s: float) -> None:
        """Rest after a write that took ``write_s``."""
        owed_until = max(self._until + write_s, self._seconds() - CREDIT_S)
        self._until = owed_until + REST_FACTOR * write_s


class Overtaking:
    """Chooses the requests that overtake, and has them stored.

    Invariant: while ``_is_known``, the first ``_seen`` waiting requests may not overtake what is
    under way, and ``_taken`` holds the topics of both.
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
        """The last commit that began was larger than a small one."""
        self._is_known = False
        self._is_barred = False
        """Nothing may overtake."""
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
        """Whether small requests should not wait: neither for what is under way or waits with them
        nor, while large commits are being made, for the next of those. Without ``in_step``, at the
        end of a turn that has brought the last request, only if that request is small."""
        if not waiting or not (in_step or waiting[-1].size <= LITTLE_BYTES_MAX):
            return False
        if under_way or waiting_bytes > SMALL_BYTES_MAX:
            return True
        return self._was_large and waiting_bytes <= LITTLE_BYTES_MAX

    def begun(self, size: int) -> None:
        """Note that a commit of ``size`` bytes is under way now."""
        self._was_large = size > SMALL_BYTES_MAX
        self._is_known = False

    def invalidate(self) -> None:
        """Look again before the next choice: the commits under way or the waiting requests have
        changed, or the log can store again."""
        self._is_known = False

    def commit(
        self,
        waiting: deque[Request],
        under_way: Collection[PlannedCommit],
        possible: Callable[[], None],
    ) -> tuple[PlannedCommit, CommitReport] | None:
        """Take out of ``waiting`` what need not wait for the rest, and store it beside the commits
        ``under_way``. None if there is nothing, or not now; ``possible`` is called when another try
        is worthwhile before the next commit."""
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
        if self._is_barred or len(waiting) > LOOKED_AT_MAX:
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
                            # It begins the next, large commit: take only what is apart from it.
                            chosen = _apart(chosen, own)
                            self._is_known = False
                        break  # left for the next write, which begins with it
                    chosen.append(request)
                    continue
            if has_rows:  # a request after it may have the same rows
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
            # Cursors that are written do not matter; topics whose ledgers go or end do.
            self._taken.update([topic for topic, _ in commit.trims])


def _apart(chosen: Sequence[Request], topics: Collection[LogTopic]) -> list[Request]:
    """Return the requests that concern none of ``topics``, up to the first one with rows that does:
    requests after that one may have its rows or its other topics."""
    apart: list[Request] = []
    for request in chosen:
        if not any(topic in topics for topic in request.topics):
            apart.append(request)
        elif request.puts:
            break
    return apart
