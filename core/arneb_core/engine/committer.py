"""The committer: group commit, seen from the event loop.

The rule: one commit is under way at a time; what arrives meanwhile is the next one.
No timer makes anybody wait: the batch is what came during the last flush. Positions
are given out when a commit starts and become visible when it is on disk, so a failed
commit leaves neither a gap nor a trace. An error of ours on the way is a :mod:`.breakage`.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio

from arneb_core.api.callbacks import Done, call
from arneb_core.api.errors import CommitFailed, StoreFailed, StoreFull, TopicFenced
from arneb_core.api.position import Position
from arneb_core.engine.breakage import Breakage
from arneb_core.engine.inline_commit import ShortCut
from arneb_core.engine.io_threads import CommitResult, Submit
from arneb_core.engine.request import Request
from arneb_core.log.log import DurableLog, PlannedRun
from arneb_core.log.stamps import keep_order
from arneb_core.store.changes import Changes, CommitReport

if TYPE_CHECKING:
    from arneb_core.cursor.cursor import CursorChanges
    from arneb_core.engine.topic import LogTopic, PlannedTrim
    from arneb_core.subscription.acknowledgements import Taken
    from arneb_core.subscription.consumer import LogConsumer
    from arneb_core.subscription.subscription import LogSubscription

COMMIT_ENTRIES_MAX: Final = 4_000
"""Past this a larger commit is no cheaper per entry, it only makes everybody wait longer."""

COMMIT_BYTES_MAX: Final = 4 * 1024 * 1024

WAITING_BYTES_MAX: Final = 16 * 1024 * 1024
"""What may wait for a commit before publishers are paused: four full commits."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Flight:
    """The commit that is under way."""

    requests: list[Request]
    runs: dict["LogTopic", PlannedRun]
    offsets: list[list[tuple["LogTopic", int]]]
    cursors: list[tuple["LogSubscription", "CursorChanges"]]
    taken: list[tuple["LogConsumer", "Taken"]]
    receipts: list[Done]
    trims: list[tuple["LogTopic", "PlannedTrim"]]
    trim_due: dict["LogTopic", bool]
    size: int


class Committer:
    """Gathers requests and commits them in groups."""

    def __init__(self, submit: Submit, short_cut: ShortCut, now_ms: Callable[[], int]) -> None:
        self._submit = submit
        self._short_cut = short_cut
        self._now_ms = now_ms
        self._waiting: deque[Request] = deque()
        self.waiting_bytes = 0
        """Bytes that wait for a commit or are in the one under way."""
        self._flight: _Flight | None = None
        self._dirty: dict[LogSubscription, None] = {}
        self._trim_due: dict[LogTopic, bool] = {}
        self._trims_left = False
        self.unsettled = False
        """Entries are in the store's journal only."""
        self._settle_due = False
        self._journaled = trio.Event()
        self._stopping = False
        self._receipts: list[Done] = []
        self._flush_cursors = False
        self._failed: CommitFailed | None = None
        self.breakage = Breakage()
        self._room = trio.lowlevel.ParkingLot()
        self._idle = trio.lowlevel.ParkingLot()
        self.commits_total = 0
        self.entries_total = 0
        self.failures_total = 0
        self.full = False
        """The last commit failed for want of room."""

    def __repr__(self) -> str:
        state = "broken" if self.breakage.error else "committing" if self._flight else "idle"
        return f"<Committer {state}, {len(self._waiting)} waiting, {len(self._dirty)} dirty>"

    def add(self, request: Request) -> None:
        """Have ``request`` committed with the next group that starts."""
        self._waiting.append(request)
        self.waiting_bytes += request.size
        for topic in request.in_memory:
            topic.appends_held_up += 1

    def has_appends(self, topic: "LogTopic") -> bool:
        """Something is on its way into ``topic``. Looks at all that waits: not for hot paths."""
        if topic.appends_held_up or (self._flight is not None and topic in self._flight.runs):
            return True
        return any(topic is each for request in self._waiting for each, _, _ in request.appends)

    def cursor_changed(self, subscription: "LogSubscription", done: Done | None) -> None:
        """A cursor differs from what is on disk. With ``done`` somebody waits for it."""
        self._dirty[subscription] = None
        if done is not None:
            self._receipts.append(done)

    def trim_due(self, topic: "LogTopic", *, at_once: bool = False) -> None:
        """Ledgers of ``topic`` may be ready to go, though no cursor moved. ``at_once``: room is
        short, so the last one goes whatever its size."""
        self._trim_due[topic] = at_once or self._trim_due.get(topic, False)
        self._flush_cursors = True

    def forget_cursor(self, subscription: "LogSubscription") -> None:
        """The subscription was removed; nothing of it is to be written any more."""
        self._dirty.pop(subscription, None)

    async def journaled(self) -> None:
        """Wait until :attr:`unsettled`."""
        if not self.unsettled:
            await self._journaled.wait()

    def settle(self) -> None:
        """Have the next commit empty the store's journal."""
        self._settle_due = self.unsettled

    def flush_cursors(self) -> bool:
        """Put all changed cursors into the next commit; False when there are none."""
        self._flush_cursors = self._flush_cursors or bool(self._dirty)
        return self._flush_cursors

    @property
    def has_dirty(self) -> bool:
        """Some cursor differs from what is on disk."""
        return bool(self._dirty or (self._flight is not None and self._flight.cursors))

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
        """Nothing waits and nothing is under way."""
        return self._flight is None and not (self._waiting or self._must_trim or self._settle_due)

    def stop(self) -> None:
        """Begin nothing that can wait for the next start."""
        self._stopping = True

    def start(self) -> None:
        """Start a commit if none is under way and there is something to commit."""
        try:
            while self._flight is None and self.breakage.error is None:
                take_cursors = bool(self._receipts) or self._flush_cursors
                if not (self._waiting or take_cursors or self._must_trim or self._settle_due):
                    break
                result = self._start(take_cursors)
                if result is None:
                    break
                self._finish(result)
        except Exception as error:
            self.breakage.happened(error)
        if self.breakage.error is not None:
            self._refuse_waiting()

    def _start(self, take_cursors: bool) -> CommitResult | None:
        """Start a commit; its result if it was made on the spot."""
        # After a failure the cursors go first and alone: when the disk is full it is acks
        # and the trims they allow that make room, and they must not fail with the appends.
        alone = self.has_dirty if self._failed is not None else False
        requests, size = ([], 0) if alone else self._take_requests()
        changes = Changes()
        flight = _Flight(requests, {}, [], [], [], [], [], {}, size)
        try:
            self._plan_appends(flight, changes)
        except Exception as error:
            logger.exception("unexpected error while preparing a commit")
            self._flight = flight
            return StoreFailed(f"unexpected {type(error).__name__} while planning: {error}")
        for request in requests:
            if request.acks or request.puts or request.prefixes or request.trims or request.shared:
                self._plan_more(request, flight, changes)
            for subscription in request.leaving:
                self._dirty.pop(subscription, None)
        if alone or take_cursors or flight.taken:
            self._plan_cursors(flight, changes)
        self._failed = None
        must_settle, self._settle_due = self._settle_due, False
        self._flight = flight
        in_thread = must_settle or self._trims_left
        if not in_thread and self._short_cut.suits(requests, changes):
            report = self._short_cut.commit(changes)
            if report is not None:
                return report
        self._submit(changes, self._finished)
        return None

    def _take_requests(self) -> tuple[list[Request], int]:
        """What goes into the next commit, and its bytes."""
        waiting = self._waiting
        taken: list[Request] = []
        entries = size = 0
        may_be_barred = False
        while waiting and entries < COMMIT_ENTRIES_MAX and size < COMMIT_BYTES_MAX:
            request = waiting.popleft()
            entries += request.entries
            size += request.size
            if not request.passes_over_gone or request.deletes_topic is not None:
                may_be_barred = True
            taken.append(request)
        if may_be_barred:
            taken = self._without_fenced(taken)
            size = sum(request.size for request in taken)
        return taken, size

    def _without_fenced(self, requests: list[Request]) -> list[Request]:
        """Those that do not append where nothing comes any more; the others are told so."""
        going = {each.deletes_topic for each in requests if each.deletes_topic is not None}
        takes_along = all(each.takes_along for each in going)
        kept: list[Request] = []
        for request in requests:
            if not (takes_along and request.passes_over_gone):
                topic = request.barred_from(going)
                if topic is not None:
                    self.waiting_bytes -= request.size
                    request.fail(TopicFenced(f"{topic!r} is being deleted, or has gone"))
                    continue
            kept.append(request)
        return kept

    def _plan_more(self, request: Request, flight: _Flight, changes: Changes) -> None:
        """Put into the commit what ``request`` has beside appends."""
        for consumer, positions, masks in request.acks:
            flight.taken.append((consumer, consumer.take_for_unit(positions, masks)))
        changes.puts.extend(request.puts)
        changes.prefixes.extend(request.prefixes)
        changes.trims.extend(request.trims)
        changes.shared.extend(request.shared)

    def _plan_appends(self, flight: _Flight, changes: Changes) -> None:
        """Join the appends of all requests to one run a topic, and place those runs."""
        joined: dict[LogTopic, list[bytes]] = {}
        messages: dict[LogTopic, int | None] = {}
        shared: set[LogTopic] = set()
        deleted = {each.deletes_topic for each in flight.requests}
        keep_order(flight.requests)
        for request in flight.requests:
            offsets: list[tuple[LogTopic, int]] = []
            for topic, entries, count in request.appends:
                if topic.gone or topic in deleted:
                    # The topic goes with this commit or has gone: what was published to it
                    # is gone with it, which is a success (RabbitMQ confirms it too). Who does
                    # not want that was told before.
                    offsets.append((topic, 0))
                    continue
                run = joined.get(topic)
                if run is None:
                    offsets.append((topic, 0))
                    joined[topic], messages[topic] = entries, count
                    shared.add(topic)
                    continue
                if topic in shared:  # still the list of the first request: do not change that
                    run = joined[topic] = run.copy()
                    shared.discard(topic)
                offsets.append((topic, len(run)))
                run += entries
                total = messages[topic]
                messages[topic] = None if total is None or count is None else total + count
            flight.offsets.append(offsets)
        now_ms = self._now_ms()
        for topic, entries in joined.items():
            log = topic.log
            assert isinstance(log, DurableLog), f"{topic!r} keeps nothing on disk"
            planned = log.plan(entries, messages[topic], now_ms)
            flight.runs[topic] = planned
            changes.blocks.append((log.topic_id, planned.first, entries))
            changes.puts.extend(log.ledger_puts(planned))

    def _plan_cursors(self, flight: _Flight, changes: Changes) -> None:
        """Put every changed cursor into the commit, and the ledgers that this lets go."""
        topics, self._trim_due = self._trim_due, {}
        flight.trim_due = topics
        for subscription in self._dirty:
            cursor = subscription.take_changes()
            flight.cursors.append((subscription, cursor))
            changes.puts.extend(cursor.puts)
            changes.deletes.extend(cursor.deletes)
            topics.setdefault(subscription.topic, False)
        self._dirty.clear()
        self._flush_cursors = False
        flight.receipts, self._receipts = self._receipts, []
        now_ms = self._now_ms()
        for topic, at_once in topics.items():
            appends = topic in flight.runs
            plan = topic.plan_trim(changes, now_ms, appends=appends, at_once=at_once)
            if plan is not None:
                flight.trims.append((topic, plan))

    def _finished(self, result: CommitResult) -> None:
        """The writer brings the result of the commit under way, in the event loop."""
        try:
            self._short_cut.told(result)
            self._finish(result)
        except Exception as error:
            self.breakage.happened(error)
        self.start()

    def _finish(self, result: CommitResult) -> None:
        flight, self._flight = self._flight, None
        assert flight is not None, "the writer answers once for each commit"
        self.waiting_bytes -= flight.size
        if isinstance(result, CommitReport):
            # The store removes large topics step by step, one step a commit.
            self._trims_left = bool(result.trims_left)
            if result.unsettled and not self.unsettled:
                self._journaled.set()
                self._journaled = trio.Event()
            self.unsettled = result.unsettled
            self._succeeded(flight)
        else:
            self._trims_left = False  # the next commit that succeeds says so again
            self._undo(flight, result)
        if self._room and not self.crowded:
            self._room.unpark_all()
        if self._idle and self.is_idle:
            self._idle.unpark_all()

    def _succeeded(self, flight: _Flight) -> None:
        self.commits_total += 1
        self.full = False
        runs = flight.runs
        for topic, placed in runs.items():
            self.entries_total += len(placed.entries)
            topic.confirm(placed)
        for topic, plan in flight.trims:
            topic.trim(plan)
        for request, offsets in zip(flight.requests, flight.offsets, strict=True):
            # A topic that went with the commit has no run.
            request.succeed([Position(runs[t].first + at if t in runs else 0) for t, at in offsets])
        for done in flight.receipts:
            call(done, None)

    def _undo(self, flight: _Flight, error: CommitFailed) -> None:
        self.failures_total += 1
        self.full = isinstance(error, StoreFull)
        # Only a commit with requests sends the cursors ahead, so that a cursor commit which
        # fails as well cannot keep the requests waiting for ever.
        self._failed = error if flight.requests else None
        for subscription, cursor in flight.cursors:
            subscription.changes_failed(cursor)
            self._dirty[subscription] = None
        for topic, at_once in flight.trim_due.items():
            self._trim_due[topic] = at_once or self._trim_due.get(topic, False)
        for consumer, taken in flight.taken:
            consumer.back_from_unit(taken)
        for request in flight.requests:
            if request.is_held_up and not request.is_durable:
                request.succeed([])  # it only waited for what stood before it
            else:
                request.fail(error)
        for done in flight.receipts:
            call(done, error)

    def _refuse_waiting(self) -> None:
        """Nothing of what waits is durable, nor will be."""
        error = self.breakage.refusal
        waiting, self._waiting = self._waiting, deque()
        receipts, self._receipts = self._receipts, []
        for request in waiting:
            self.waiting_bytes -= request.size
            request.fail(error)
        for done in receipts:
            call(done, error)
        if self._room and not self.crowded:
            self._room.unpark_all()

    @property
    def _must_trim(self) -> bool:
        return self._trims_left and not self._stopping
