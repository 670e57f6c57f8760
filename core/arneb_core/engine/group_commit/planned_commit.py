"""A planned commit: the requests that go into one commit, and its effects in memory.

The rule: it is planned as if all commits under way were on disk, so it counts only if all of them
do. Memory changes once it is stored; whatever had to change earlier is undone if it is not, newest
commit first, so that every step finds the state it left.
"""

from collections.abc import Collection, Iterable
from itertools import chain

from arneb_core.api.core import CountedRun
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, TopicFenced
from arneb_core.api.process.callbacks import Done, call, has_failed
from arneb_core.cursor.cursor import CursorChanges
from arneb_core.engine.group_commit.request import NOWHERE, Request, keep_order, topic_of
from arneb_core.engine.subscriptions.consumer import LogConsumer
from arneb_core.engine.subscriptions.subscription import LogSubscription, SubscribedTopic
from arneb_core.engine.topics.topic import LogTopic
from arneb_core.engine.trimming.trimming import PlannedTrim
from arneb_core.log.durable_log import DurableLog
from arneb_core.log.planning import PlannedRun
from arneb_core.log.stamps import stamped_from
from arneb_core.log.written_ahead import Ahead, AheadState
from arneb_core.store.format.changes import Changes
from arneb_core.store.format.schema import META_AHEAD, Table
from arneb_core.subscription.consumers.returns import Taken


class PlannedCommit:
    """The requests of one commit, and what becomes of them."""

    __slots__ = (
        "_now_ms",
        "ahead",
        "begun_ns",
        "changes",
        "counted",
        "cursors",
        "goes_alone",
        "going",
        "leaving",
        "offsets",
        "receipts",
        "requests",
        "runs",
        "size",
        "taken",
        "trim_due",
        "trims",
        "unwritten",
    )

    def __init__(self, before: "PlannedCommit | None") -> None:
        """``before``: the last commit under way."""
        self.begun_ns = 0  # if it is measured
        self.requests: list[Request] = []
        self.size = 0
        self.goes_alone = False
        """It takes cursors and what histories say of them, and no other requests."""
        self.going: Collection[LogTopic] = ()
        """Topics removed by this commit or by an earlier one that is under way."""
        self.leaving: Collection[LogSubscription] = ()
        """Subscriptions removed likewise."""
        if before is not None and before.leaving:
            self.leaving = {each for each in before.leaving if not each.gone}
        if before is not None and before.going:
            self.going = {each for each in before.going if not each.gone}
        self.changes = Changes()
        self._now_ms = 0
        self.runs: dict[LogTopic, PlannedRun] = {}
        self.counted: list[tuple[LogTopic, PlannedRun]] = []
        """Runs that requests bring ready-made, appended after ``runs``."""
        self.ahead: dict[LogTopic, None] = {}
        """Topics of counted runs that were written ahead."""
        self.offsets: list[list[tuple[LogTopic, int]]] = []
        """Where each request's appends begin in the runs."""
        self.cursors: list[tuple[LogSubscription, CursorChanges]] = []
        self.unwritten: list[LogSubscription] = []
        """Subscriptions whose cursors must be written if this commit fails."""
        self.taken: list[tuple[LogConsumer, Taken]] = []
        """Entries that units acknowledged."""
        self.receipts: list[tuple[LogSubscription, Done]] = []
        """Callbacks that wait for cursors."""
        self.trims: list[tuple[SubscribedTopic, PlannedTrim]] = []
        self.trim_due: dict[SubscribedTopic, bool] = {}

    def __repr__(self) -> str:
        parts = f"{len(self.requests)} requests, {len(self.runs)} runs, {len(self.cursors)} cursors"
        return f"<PlannedCommit {parts}, {self.size} bytes>"

    # Planning

    def removes(self, request: Request) -> None:
        """Note that ``request``, which is in this commit, removes a topic or subscriptions."""
        if request.deletes_topic is not None:
            self.going = {*self.going, request.deletes_topic}
        self.leaving = {*self.leaving, *request.leaving}

    def bar(self) -> int:
        """Fail and take out requests that append to topics which take nothing in any more. Return
        how many bytes that was."""
        going = {each.deletes_topic for each in self.requests if each.deletes_topic is not None}
        going.update(self.going)
        takes_along = all(each.takes_along for each in going)
        kept: list[Request] = []
        barred = 0
        for request in self.requests:
            if not (takes_along and request.passes_over_gone):
                topic = request.barred_from(going)
                if topic is not None:
                    barred += request.size
                    request.fail(TopicFenced(f"{topic!r} is being deleted, or has gone"))
                    continue
            kept.append(request)
        self.requests = kept
        self.size -= barred
        return barred

    def plan_appends(self, now_ms: int) -> None:
        """Join the appends of all requests to one run per topic, and place the runs."""
        self._now_ms = now_ms
        going = self.going
        joined: dict[LogTopic, list[bytes]] = {}
        messages: dict[LogTopic, int | None] = {}
        shared: set[LogTopic] = set()
        requests = self.requests
        keep_order(requests)
        if len(requests) == 1 and len(requests[0].appends) == 1 and not requests[0].runs:
            # A lone publisher's request: its run is the run of the commit.
            ((topic, entries, count),) = requests[0].appends
            self.offsets.append([(topic, 0)])
            if not (topic.gone or topic in going):
                self._place(topic, entries, count)
            return
        for request in requests:
            offsets: list[tuple[LogTopic, int]] = []
            for topic, entries, count in request.appends:
                if topic.gone or topic in going:
                    # The topic goes with this commit or is gone, and what was published to it goes
                    # with it, which is a success (RabbitMQ confirms it too). Requests that do not
                    # want that were failed before.
                    offsets.append((topic, 0))
                    continue
                run = joined.get(topic)
                if run is None:
                    offsets.append((topic, 0))
                    joined[topic], messages[topic] = entries, count
                    shared.add(topic)
                    continue
                if topic in shared:  # still the first request's own list: leave it unchanged
                    run = joined[topic] = run.copy()
                    shared.discard(topic)
                offsets.append((topic, len(run)))
                run += entries
                total = messages[topic]
                messages[topic] = None if total is None or count is None else total + count
            self.offsets.append(offsets)
        for topic, entries in joined.items():
            self._place(topic, entries, messages[topic])
        for request in requests:
            for counted in request.runs:
                topic = topic_of(counted)
                if topic.gone or topic in going:
                    continue
                log = topic.log
                assert isinstance(log, DurableLog), f"{topic!r} keeps nothing on disk"
                planned = self._plan_counted(topic, log, counted)
                self.counted.append((topic, planned))

    def _place(self, topic: LogTopic, entries: list[bytes], messages: int | None) -> None:
        """Place what this commit appends to ``topic``, apart from counted runs."""
        log = topic.log
        assert isinstance(log, DurableLog), f"{topic!r} keeps nothing on disk"
        planned = log.plan(entries, messages, self._now_ms)
        self._placed(log, planned)
        self.runs[topic] = planned

    def _plan_counted(self, topic: LogTopic, log: DurableLog, run: CountedRun) -> PlannedRun:
        """Place a run that came counted, or keep the place where it was written ahead."""
        entries = run.entries
        if run.first is not None:
            self.changes.puts.append((Table.META, META_AHEAD, None))
            planned = log.plan_ahead(run, self._now_ms)
            if planned is not None:
                self._placed(log, planned, is_there=True)
                self.ahead[topic] = None
                return planned
            # The log has grown past it: write the run again, with stamps that follow.
            entries = stamped_from(entries, log.stamped_ms, {})
            self.changes.trims.append(
                (log.topic_id, run.first, Position(run.first + len(entries) - 1))
            )
        planned = log.plan(entries, run.messages, self._now_ms, run.bytes)
        self._placed(log, planned)
        return planned

    def has_appends(self, topic: LogTopic) -> bool:
        """Whether this commit appends to ``topic``. Not for hot paths."""
        return topic in self.runs or any(topic is each for each, _ in self.counted)

    def _placed(self, log: DurableLog, run: PlannedRun, *, is_there: bool = False) -> None:
        """Add ``run`` after all that is planned. ``is_there``: its blocks are stored already."""
        changes = self.changes
        if not is_there:
            changes.blocks.append((log.topic_id, run.first, run.entries))
        if run.opens:
            changes.puts.extend(log.ledger_puts(run))
        log.planned.append(run.ledger)

    def plan_more(self, request: Request) -> None:
        """Put into the commit what ``request`` has besides appends."""
        for consumer, positions, masks in request.acks:
            self.taken.append((consumer, consumer.take_for_unit(positions, masks)))
        changes = self.changes
        of_topic = request.rows_of
        if of_topic is None or not (of_topic.gone or of_topic in self.going):
            changes.puts.extend(request.puts)
        changes.prefixes.extend(request.prefixes)
        changes.trims.extend(request.trims)
        changes.shared.extend(request.shared)
        for topic, block in request.ahead:
            if not (topic.gone or topic in self.going):
                changes.blocks.append(block)
        for topic, ahead in request.gives_up:
            self._give_up(topic, ahead)
        if request.rolls is not None:
            self._roll(request.rolls)

    def _give_up(self, topic: LogTopic, ahead: Ahead) -> None:
        """Remove what was written ahead, unless it is part of its log or about to be."""
        log = topic.log
        assert isinstance(log, DurableLog), f"{topic!r} keeps nothing on disk"
        if ahead.state is AheadState.STORED or any(
            each.id in ahead.ledgers for each in log.planned
        ):
            return
        if not (topic.gone or topic in self.going):
            self.changes.trims.append(ahead.trim(log.topic_id))

    def _roll(self, topic: LogTopic) -> None:
        """End the last ledger of ``topic``, unless an append that is planned ends it."""
        log, now_ms = topic.log, self._now_ms
        assert isinstance(log, DurableLog), f"{topic!r} keeps nothing on disk"
        last = log.ledgers.newest
        if topic.gone or topic in self.going or last is None or last.id > log.ended or log.planned:
            return
        ended_ms = max(now_ms, log.stamped_ms)
        self.changes.puts.extend(log.plan_successor(ended_ms))
        self.trims.append((topic, PlannedTrim(None, True, ended_ms)))

    def plan_cursors(
        self, dirty: Iterable[LogSubscription], trim_due: dict[SubscribedTopic, bool], now_ms: int
    ) -> None:
        """Put changed cursors into the commit, and the ledgers that may go with them."""
        self.trim_due = trim_due
        changes = self.changes
        for subscription in dirty:
            cursor = subscription.take_changes()
            self.cursors.append((subscription, cursor))
            changes.puts.extend(cursor.puts)
            changes.deletes.extend(cursor.deletes)
            trim_due.setdefault(subscription.topic, False)
        for topic, at_once in trim_due.items():
            if topic.gone:
                continue
            plan = topic.trimming.plan(changes, topic.retention, now_ms, at_once=at_once)
            if plan is not None:
                self.trims.append((topic, plan))

    # Ending

    def stored(self) -> int:
        """Apply the commit in memory and tell its requests: it is on disk, with all before it.
        Return how many entries it appended."""
        runs, entries = self.runs, 0
        for topic, run in runs.items():
            entries += len(run.entries)
            topic.confirm(run)
        for topic, run in self.counted:
            entries += len(run.entries)
            topic.confirm(run)
        for topic in self.ahead:
            assert isinstance(topic.log, DurableLog), f"{topic!r} keeps nothing on disk"
            topic.log.ahead_ends(AheadState.STORED)
        for trimmed, plan in self.trims:
            trimmed.trimming.succeeded(plan)
        for request, offsets in zip(self.requests, self.offsets, strict=True):
            # A topic that went with the commit has no run.
            _succeed(
                request, [Position(runs[t].first + at if t in runs else 0) for t, at in offsets]
            )
        for _, done in self.receipts:
            call(done, None)
        return entries

    def take_back(self) -> None:
        """Restore memory: nothing of this commit is on disk, nor of those planned after it, which
        were undone before. No caller knows of it yet."""
        for trimmed, plan in reversed(self.trims):
            trimmed.trimming.failed(plan)
        for topic in chain((each for each, _ in self.counted), reversed(self.runs)):
            assert isinstance(topic.log, DurableLog), f"{topic!r} keeps nothing on disk"
            topic.log.planned.pop()
        for subscription, cursor in reversed(self.cursors):
            subscription.changes_failed(cursor)
            self.unwritten.append(subscription)
        for consumer, taken in reversed(self.taken):
            consumer.back_from_unit(taken)

    def tell(self, error: CommitFailed) -> None:
        """Fail the requests: nothing of this commit is on disk."""
        for request in self.requests:
            if request.is_held_up and not request.is_durable:
                _succeed(request, [])  # it only waited for what was before it
            else:
                request.fail(error)
        for _, done in self.receipts:
            call(done, error)


def _succeed(request: Request, firsts: list[Position]) -> None:
    """Apply the rest of a stored ``request``, and say that it succeeded."""
    if request.on_commit is not None:
        request.on_commit()
    if request.in_memory:
        request.let_others_come()
    if request.appended is not None:
        try:
            request.appended(None, firsts[0] if firsts else NOWHERE)
        except Exception as error:
            has_failed(request.appended, error)
    elif request.finish is not None:
        call(request.finish, None, firsts)
