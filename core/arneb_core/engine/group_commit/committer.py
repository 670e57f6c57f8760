"""The committer: group commit, seen from the event loop.

The rule: as many commits are under way as the commit log takes at once, which is one where a disk
makes them durable. Requests that arrive meanwhile form the next commit; no timer delays them. Each
commit is planned on top of those under way, and they end in order. A commit that fails ends all
after it, and their requests are planned again, so a failed commit leaves neither a gap nor a trace.
An error of ours on the way is a :mod:`.breakage`.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from time import monotonic_ns
from typing import Final

import trio

from arneb_core.api.errors import CommitFailed, LeadershipLost, StoreFailed, StoreFull
from arneb_core.api.process.callbacks import Done, call
from arneb_core.engine.group_commit.breakage import Breakage
from arneb_core.engine.group_commit.gathering import gather, is_little, waits
from arneb_core.engine.group_commit.overtaking import Overtaking
from arneb_core.engine.group_commit.planned_commit import PlannedCommit
from arneb_core.engine.group_commit.recording import Recorder
from arneb_core.engine.group_commit.request import Request, part
from arneb_core.engine.measurements import MEASURED, CommitMeasurements
from arneb_core.engine.subscriptions.subscription import LogSubscription, SubscribedTopic
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.store.commit.commit_log import CommitLog, Ending
from arneb_core.store.format.changes import CommitReport

COMMIT_CURSORS_MAX: Final = 128
"""Changed cursors in one commit: those of 128 subscriptions take some 4 ms."""

WAITING_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes that may wait for a commit before publishers are paused: four full commits."""

logger = logging.getLogger(__name__)


class Committer:
    """Invariants: ``waiting_bytes`` is the size of the requests that wait or are in a commit under
    way; a cursor that differs from the disk is in ``_dirty`` or in a commit under way."""

    def __init__(
        self, log: CommitLog, now_ms: Callable[[], int], leadership_lost: Callable[[], None]
    ) -> None:
        """``leadership_lost`` is called when the log has another leader."""
        self._log = log
        self._now_ms = now_ms
        self._leadership_lost = leadership_lost
        self._waiting: deque[Request] = deque()
        self.waiting_bytes = 0
        self._under_way: deque[PlannedCommit] = deque()
        self._overtaking = Overtaking(log, now_ms)
        self._dirty: dict[LogSubscription, None] = {}
        self._histories: dict[Recorder, None] = {}
        """Recorders with history to write, together with the next cursors."""
        self._trim_due: dict[SubscribedTopic, bool] = {}
        self._must_trim = False
        """The store has trims to continue."""
        self.needs_takeover = False
        """The commit log holds changes that the store does not."""
        self._takeover_due = False
        self._stood_back = False
        """Work that nobody waits for has once let a small write go first."""
        self._takeover_needed = trio.Event()
        self._stopping = False
        self._receipts: list[tuple[LogSubscription, Done]] = []
        self._flush_cursors = False
        self._cursors_left = False
        """More cursors are due than the last commit took."""
        self._cursors_first = False
        """The last commit failed: cursors go first and alone."""
        self._one_by_one = False  # since a commit failed, none was stored: only one is under way
        self.breakage = Breakage()
        self._room = trio.lowlevel.ParkingLot()
        self._idle = trio.lowlevel.ParkingLot()
        self.commits_total = 0
        self.entries_total = 0
        self.failures_total = 0
        self.measurements = CommitMeasurements()
        self.full = False
        """The last commit failed because the store is full."""

    def __repr__(self) -> str:
        under_way = f"{len(self._under_way)} under way" if self._under_way else "idle"
        state = "broken" if self.breakage.error else under_way
        return f"<Committer {state}, {len(self._waiting)} waiting, {len(self._dirty)} dirty>"

    def add(self, request: Request) -> None:
        """Queue ``request`` for the next commit that starts."""
        self._waiting.append(request)
        self.waiting_bytes += request.size
        for topic in request.in_memory:
            topic.appends_held_up += 1

    def has_appends(self, topic: LogTopic) -> bool:
        """Whether appends to ``topic`` wait or are under way. Scans them all: not for hot paths."""
        if topic.appends_held_up or any(each.has_appends(topic) for each in self._under_way):
            return True
        return any(topic is each for request in self._waiting for each in request.topics)

    def cursor_changed(self, subscription: LogSubscription, done: Done | None) -> None:
        """Mark a cursor as different from disk. ``done`` is called once it is durable."""
        self._dirty[subscription] = None
        if done is not None:
            self._receipts.append((subscription, done))

    def trim_due(self, topic: SubscribedTopic, *, at_once: bool = False) -> None:
        """Have the next commit trim ``topic``; ``at_once`` (room is short): its last ledger too."""
        self._trim_due[topic] = at_once or self._trim_due.get(topic, False)
        self._flush_cursors = True

    def forget_cursor(self, subscription: LogSubscription) -> None:
        """Drop the cursor of a removed subscription: it must not be written any more."""
        self._dirty.pop(subscription, None)

    async def until_takeover_needed(self) -> None:
        """Wait until :attr:`needs_takeover`."""
        if not self.needs_takeover:
            await self._takeover_needed.wait()

    def take_over(self) -> None:
        """Have the next commit put into the store what only the log holds."""
        self._takeover_due = self.needs_takeover

    def history_due(self, recorder: Recorder) -> None:
        """Have the history of ``recorder`` written with the next cursors."""
        self._histories[recorder] = None

    def flush_cursors(self) -> bool:
        """Put all changed cursors and histories into the next commit; False if there are none."""
        self._flush_cursors = self._flush_cursors or bool(self._dirty or self._histories)
        return self._flush_cursors

    @property
    def has_dirty(self) -> bool:
        """Some cursor differs from disk."""
        return bool(self._dirty) or any(each.cursors for each in self._under_way)

    @property
    def crowded(self) -> bool:
        """More bytes wait than :data:`WAITING_BYTES_MAX`."""
        return self.waiting_bytes > WAITING_BYTES_MAX

    async def room(self) -> None:
        """Wait until not :attr:`crowded`."""
        while self.crowded:
            await self._room.park()

    async def idle(self) -> None:
        """Wait until nothing waits and nothing is under way."""
        while not self.is_idle:
            await self._idle.park()

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is under way, or nothing will ever come of it."""
        if self.breakage.error is not None:
            return True
        left = self._under_way or self._waiting or self._cursors_left
        return not (left or self._must_trim or self._takeover_due)

    def stop(self) -> None:
        """Begin nothing that can wait for the next start of the broker."""
        self._stopping, self._must_trim = True, False

    def start(self, *, commits: bool = True) -> None:
        """Start the commits that may start; without ``commits``, only small ones that overtake."""
        under_way = self._under_way
        try:
            while self.breakage.error is None:
                waiting, size = self._waiting, self.waiting_bytes
                if waiting and self._overtaking.is_due(waiting, under_way, size, commits):
                    self._overtake()
                if not commits:
                    break
                size = self.waiting_bytes
                if under_way and (self._one_by_one or waits(self._log, under_way, size)):
                    break
                is_lazy = self._cursors_left or self._flush_cursors
                take_cursors = is_lazy or bool(self._receipts)
                # What the store has to continue needs no commit of its own if one is under way.
                is_left = (self._must_trim or self._takeover_due) and not under_way
                if not (waiting or take_cursors or is_left):
                    break
                # Cursors that nobody waits for go into the store, together with what it lacks.
                take_over = is_lazy or self._takeover_due
                if take_over and self._stand_back():
                    take_cursors = take_over = False
                if (report := self._start(take_cursors, take_over=take_over)) is not None:
                    self._stored(report)
        except Exception as error:
            self.breakage.happened(error)
        if self.breakage.error is not None:
            self._refuse_waiting()

    def _stand_back(self) -> bool:
        """Whether work that nobody waits for lets a small write go first: not twice in a row."""
        goes_now = self._stood_back or self._receipts or self._cursors_first
        self._stood_back = not goes_now and self.needs_takeover and is_little(self._waiting)
        return self._stood_back

    def _start(self, take_cursors: bool, *, take_over: bool) -> CommitReport | None:
        """Start a commit; return the report if it is stored on the spot."""
        # After a failure the cursors go first and alone: on a full disk, acknowledgements and the
        # trims that they allow make room, and they must not fail with the appends.
        alone = self.has_dirty if self._cursors_first else False
        self._cursors_first = False
        before = self._under_way[-1] if self._under_way else None
        commit = PlannedCommit(before)
        if self.commits_total % MEASURED == 0:
            commit.begun_ns = monotonic_ns()
        commit.goes_alone = alone
        waiting = deque[Request]() if alone else self._waiting
        if self._histories and self._are_due(take_cursors, alone=alone):
            waiting.extendleft(self._due_histories())
        self._take_requests(commit, waiting)
        if alone:
            self._waiting.extendleft(reversed(waiting))
        try:
            commit.plan_appends(self._now_ms())
        except Exception as error:
            logger.exception("unexpected error while preparing a commit")
            failed = StoreFailed(f"unexpected {type(error).__name__} while planning: {error}")
            self._take_back([commit])
            self._tell(commit, failed)
            return None
        for request in commit.requests:
            rows = request.puts or request.prefixes or request.trims
            if request.acks or rows or request.shared or request.rolls is not None:
                commit.plan_more(request)
            for subscription in request.leaving:
                if subscription in self._dirty:  # written only if the removal fails
                    del self._dirty[subscription]
                    commit.unwritten.append(subscription)
        if alone or take_cursors or commit.taken:
            self._plan_cursors(commit)
        if take_over:
            self._takeover_due = False
        self._under_way.append(commit)
        self._overtaking.begun(commit.size)
        return self._log.submit(commit.changes, self._ended, take_over=take_over)

    def _overtake(self) -> None:
        """Commit small requests that need not wait for those under way."""
        overtaken = (self._waiting, self._under_way, self._may_overtake)
        while (stored := self._overtaking.commit(*overtaken)) is not None:
            self._add_up(*stored)

    def _may_overtake(self) -> None:
        """Try again: the log can now store beside what is under way."""
        self._overtaking.invalidate()
        self.start()

    def _are_due(self, take_cursors: bool, *, alone: bool) -> bool:
        """Whether histories go with the next commit: if cursors do, which units take along too. On
        a full disk there is room for the cursors alone."""
        return not self.full if alone else take_cursors or any(r.acks for r in self._waiting)

    def _due_histories(self) -> list[Request]:
        """Return the requests of histories, which go before all that wait."""
        histories, self._histories = self._histories, {}
        found = [each for each in (recorder.request() for recorder in histories) if each]
        self.waiting_bytes += sum([each.size for each in found])
        return found

    def _take_requests(self, commit: PlannedCommit, waiting: deque[Request]) -> None:
        """Move as many of the ``waiting`` requests into ``commit`` as fit."""
        gathered = gather(waiting)
        commit.requests, commit.size = gathered.requests, gathered.size
        if gathered.may_be_barred:
            self.waiting_bytes -= commit.bar()
        if gathered.removes:
            for request in commit.requests:
                commit.removes(request)

    def _plan_cursors(self, commit: PlannedCommit) -> None:
        """Put changed cursors into ``commit``, beginning with those that somebody waits for, and
        the ledgers that may go. The rest is left for the next commit."""
        dirty: dict[LogSubscription, None] = self._dirty
        rest: dict[LogSubscription, None] = {}
        if len(dirty) > COMMIT_CURSORS_MAX:
            waited_for = {each: None for each, _ in self._receipts if each in dirty}
            first = dict(islice((waited_for | dirty).items(), COMMIT_CURSORS_MAX))
            rest = {each: None for each in dirty if each not in first}
            dirty = first
        unwritten: dict[LogSubscription, None] = {}
        trim_due, self._trim_due = self._trim_due, {}
        if commit.leaving or commit.going:
            # Cursors of what is being removed are written only if the removal fails.
            unwritten = {each: None for each in dirty if each in commit.leaving}
            dirty = {each: None for each in dirty if each not in commit.leaving}
            self._trim_due = {
                topic: now for topic, now in trim_due.items() if topic in commit.going
            }
            trim_due = {topic: now for topic, now in trim_due.items() if topic not in commit.going}
        self._dirty = unwritten | rest
        receipts, self._receipts = self._receipts, []
        for receipt in receipts:
            (self._receipts if receipt[0] in rest else commit.receipts).append(receipt)
        self._flush_cursors, self._cursors_left = False, bool(rest)
        commit.plan_cursors(dirty, trim_due, self._now_ms())

    def _ended(self, ending: Ending) -> None:
        """Take the ending of the oldest commit under way; the log calls this in the event loop."""
        if self.breakage.error is not None:
            return  # after a breakage no callback is called
        try:
            if isinstance(ending, CommitReport):
                self._stored(ending)
            else:
                self._not_stored(ending)
        except Exception as error:
            self.breakage.happened(error)
        self.start()

    def _stored(self, report: CommitReport) -> None:
        commit = self._under_way.popleft()
        self._overtaking.invalidate()
        # The store removes large topics step by step, one step per commit.
        self._must_trim = bool(report.trims_left) and not self._stopping
        self.full = self._one_by_one = False
        self._add_up(commit, report)

    def _add_up(self, commit: PlannedCommit, report: CommitReport) -> None:
        """Tell the requests of a stored commit, and update the totals."""
        self.waiting_bytes -= commit.size
        if report.needs_takeover and not self.needs_takeover:
            self._takeover_needed.set()
            self._takeover_needed = trio.Event()
        self.needs_takeover = report.needs_takeover
        self.commits_total += 1
        entries = commit.stored()
        self.entries_total += entries
        if commit.begun_ns:
            self.measurements.stored(entries, commit.begun_ns)
        if self._room or self._idle:
            self._wake_waiters()

    def _not_stored(self, error: CommitFailed) -> None:
        """Take back the commits under way: the oldest failed, so none of them is durable."""
        self.full = isinstance(error, StoreFull)
        commits = list(self._under_way)
        self._under_way.clear()
        self._take_back(commits)
        if isinstance(error, LeadershipLost):
            self.breakage.fenced(error)
            self._leadership_lost()
        self._tell(commits[0], error)

    def _take_back(self, commits: Sequence[PlannedCommit]) -> None:
        """Undo ``commits``, the last ones planned, of which none is durable. Requests in all but
        the first were planned on the failed one: they wait again, before all others."""
        self._overtaking.invalidate()
        self._must_trim = False  # the next stored commit says so again
        self._cursors_left = False  # not retried for ever
        # Not after cursors alone: failing again, they would keep requests waiting for ever.
        self._cursors_first = bool(commits[0].requests) and not commits[0].goes_alone
        self._one_by_one = True
        for commit in reversed(commits):
            commit.take_back()
            self._dirty.update(dict.fromkeys(commit.unwritten))
            for topic, at_once in commit.trim_due.items():
                self._trim_due[topic] = at_once or self._trim_due.get(topic, False)
        for commit in reversed(commits[1:]):
            self._waiting.extendleft(reversed(commit.requests))
            self._receipts[:0] = commit.receipts

    def _tell(self, commit: PlannedCommit, error: CommitFailed) -> None:
        """Fail the requests of ``commit`` and those that have to follow them."""
        self.failures_total += 1
        self.waiting_bytes -= commit.size
        behind, self._waiting = part(self._waiting, commit.requests)
        commit.tell(error)
        for request in behind:
            self.waiting_bytes -= request.size
            request.fail(error)
        self._wake_waiters()

    def _refuse_waiting(self) -> None:
        """Fail all that waits: none of it is durable, nor will be."""
        error = self.breakage.refusal
        waiting, self._waiting = self._waiting, deque()
        receipts, self._receipts = self._receipts, []
        for request in waiting:
            self.waiting_bytes -= request.size
            request.fail(error)
        for _, done in receipts:
            call(done, error)
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        """Wake those that wait for room or for :meth:`idle`."""
        if self._room and not self.crowded:
            self._room.unpark_all()
        if self._idle and self.is_idle:
            self._idle.unpark_all()
