"""A subscription: a cursor, its consumers, and the moves between them.

The rule: every entry behind the mark-delete position is in exactly one of four places:
acknowledged, in flight, in the replay set, or not yet read; and replays go before
anything new. It is driven by the pump and never waits: what is not in memory is
asked for, and the pump comes again. It is longer than most because it has one method for
each of the interface's; what they do stands in the parts.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from arneb_core.api.callbacks import Done
from arneb_core.api.consumers import ConsumerSpec, Sink
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.errors import StoreFailed, SubscriptionFenced
from arneb_core.api.limits import DeadLetters, Limits
from arneb_core.api.position import BEFORE_ALL, Position, before, render
from arneb_core.api.statistics import SubscriptionStatistics
from arneb_core.api.subscription_types import SubscriptionType
from arneb_core.api.waiting import durable
from arneb_core.api.windows import UnackedWindow, subscription_window
from arneb_core.cursor.cursor import Cursor, CursorChanges
from arneb_core.dispatch import KeySharedDispatcher, dispatcher_for
from arneb_core.store.schema import SubscriptionId
from arneb_core.subscription.acknowledgements import Settlement
from arneb_core.subscription.admin import SubscriptionSurvey
from arneb_core.subscription.byte_counter import weights_of
from arneb_core.subscription.consumer import LogConsumer
from arneb_core.subscription.counters import Tally
from arneb_core.subscription.dead_lettering import Departures
from arneb_core.subscription.dispatch_loop import Source, Turns
from arneb_core.subscription.handout import HandOut
from arneb_core.subscription.held_back import HeldBack
from arneb_core.subscription.membership import check_type, tell_active
from arneb_core.subscription.nothing_held import NOTHING_HELD, NothingHeld
from arneb_core.subscription.pulling import Pulling
from arneb_core.subscription.sources.backlog import BacklogReader
from arneb_core.subscription.sources.fetch import Fetch
from arneb_core.subscription.sources.priorities import PrioritySource
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.subscription.starting_over import start_over

if TYPE_CHECKING:
    from arneb_core.engine.topic import LogTopic

logger = logging.getLogger(__name__)


class LogSubscription(SubscriptionSurvey):
    """One subscription (:class:`arneb_core.api.subscriptions.Subscription`)."""

    def __init__(
        self,
        topic: "LogTopic",
        name: str,
        subscription_id: SubscriptionId | None,
        cursor: Cursor,
        *,
        lasting: bool = True,
        suspect_until: Position = BEFORE_ALL,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self.name = name
        self.id = subscription_id
        """None for subscriptions that leave no trace on disk."""
        self.lasting = lasting
        """It stays when its last consumer leaves."""
        self.type: SubscriptionType | None = None
        self.properties: Mapping[str, str] = dict(properties or {})
        self.cursor = cursor
        self.acks = acks = cursor.acks
        log, after = topic.log, acks.mark_delete
        self._replay: ReplaySet | PrioritySource = self._new_replays()
        fetch = Fetch(log, self.wake, self.unreadable_by)
        self._reader = BacklogReader(log, acks, after, fetch, topic.engine.ahead)
        self._handout = HandOut(acks, suspect_until, self._settle_delivered)
        self.settlement = Settlement(self, self._replay, self._reader, self._handout)
        self.held_back: HeldBack | NothingHeld = NOTHING_HELD
        self.departures = Departures(self)
        self._turns = Turns(
            self, self._handout, self.departures, self._source, self._behind_replays
        )
        self.tally = self.departures.tally = Tally(cursor, self._handout, self.departures, log)
        self.gone = False
        """It was removed: nothing of it is to be written or dispatched any more."""
        self._unacked: UnackedWindow | None = None
        """What all consumers together may have unanswered."""
        self.unused = False
        """It had no consumer when the house was last looked over."""
        self.is_resting = False
        """A turn of it failed: it gets none until it is tried again."""
        self._leaving = False
        self._seeking = False
        self._unreadable_at: Position | None = None
        self._pulling = Pulling(self, self._handout, self._source, self._reader.let_go)
        self.expect_delays()

    def __repr__(self) -> str:
        place = f"at {render(self.acks.mark_delete)}, {self.acks.holes} holes"
        kind = self.type.value if self.type else "unused"
        return f"<Subscription {self.topic.name}/{self.name} {place}, {kind}>"

    @property
    def durable(self) -> bool:
        """Its cursor outlives the process."""
        return self.id is not None

    @property
    def consumers(self) -> Sequence[LogConsumer]:
        return list(self._handout.consumers.values())

    @property
    def active(self) -> LogConsumer | None:
        return self._handout.active

    @property
    def keys(self) -> KeySharedDispatcher | None:
        """Who decides by key, on a Key_Shared subscription."""
        keyed = self._turns.keyed
        return None if keyed is None else keyed.dispatcher

    @property
    def is_prioritised(self) -> bool:
        """A higher priority goes first."""
        return isinstance(self._replay, PrioritySource)

    @property
    def consumers_attached(self) -> bool:
        """Somebody is there to read."""
        return bool(self._handout.consumers)

    @property
    def ahead(self) -> Position:
        """Everything up to here is at hand or was handed out."""
        return self._reader.ahead

    @property
    def read_after(self) -> Position:
        """Everything up to here was handed out once, or needs no handing out."""
        waiting = self._replay.first if isinstance(self._replay, PrioritySource) else None
        after = self._reader.after
        return after if waiting is None else min(after, before(waiting))

    @property
    def is_fenced(self) -> bool:
        """It is being reset or removed, or is gone."""
        return self._seeking or self._leaving or self.gone

    def attach(self, spec: ConsumerSpec, sink: Sink) -> LogConsumer:
        """Add a consumer; see :meth:`arneb_core.api.subscriptions.Subscription.attach`."""
        if self.is_fenced or self.topic.fenced:
            raise SubscriptionFenced(f"{self!r} is being reset or removed")
        check_type(self, spec)
        if not self._handout.consumers:
            self._begin(spec)
        consumer = LogConsumer(self, spec, sink, self._unacked)
        consumer.keys = self._turns.watching
        before = self.active
        self._handout.add(consumer)
        tell_active(self, before, consumer)
        self.unused = False
        self.wake()
        return consumer

    def _begin(self, spec: ConsumerSpec) -> None:
        """The first consumer is about to come, and sets the type."""
        self.type = spec.type
        self.held_back.begin(spec)
        most = spec.subscription_unacked_max
        self._unacked = subscription_window(most) if most else None
        dispatcher = dispatcher_for(spec, self.topic.name)
        self._handout.begin(dispatcher)
        self._turns.begin(spec, dispatcher)

    def detached(self, consumer: LogConsumer) -> None:
        """``consumer`` left; what it held is back already."""
        before = self.active
        self._handout.remove(consumer)
        tell_active(self, before, None)
        if not self._handout.consumers:
            self.type = None
            self._turns.end()
            self._reader.rewind(self._reader.after)
            self._replay.let_go()
            self.held_back.let_go()
            if not (self.lasting or self.is_fenced):
                self.topic.forget(self)
            self.topic.has_work(self)  # so that the topic sees that one reader less is there
        self.wake()

    def retired(self, consumer: LogConsumer) -> None:
        before = self.active
        self._handout.retire(consumer)
        tell_active(self, before, None)
        self.wake()

    def wake(self) -> None:
        """There may be something to dispatch."""
        if self._pulling.parked:
            self._pulling.parked.unpark_all()
        if self._handout.consumers or self.departures.is_active or self.is_expiring:
            self.topic.has_work(self)

    def came(self, first: Position, entries: list[bytes]) -> None:
        """A run was appended to the log."""
        if weights := self._handout.weights:
            weights.came(first, entries)
        self.wake()

    def limit(self, limits: Limits, heir: DeadLetters | None) -> None:
        self.departures.limit(limits, heir)
        self._handout.weights = self.departures.weights = weights_of(self, limits)
        self.wake()

    def prioritise(self, highest: int) -> None:
        if highest and not isinstance(self._replay, PrioritySource):
            if self._turns.keyed is not None:
                self.put_out("removed")  # keys and priorities do not go together
            self._replay = self.settlement.replay = PrioritySource(
                self._replay, self._reader, highest, self._new_replays, self.wake
            )
            self.wake()

    def expect_delays(self) -> None:
        """Hold back from now on what is not due, if the topic has an index of that."""
        if self.topic.delayed is not None and self.held_back is NOTHING_HELD:
            made = HeldBack(self, self._reader, self._handout, self.topic.delayed)
            self.held_back = self.tally.held_back = made

    def _new_replays(self) -> ReplaySet:
        log = self.topic.log
        return ReplaySet(log, Fetch(log, self.wake, self.unreadable_by))

    # Delivering

    def dispatch(self) -> int:
        """Hand out what can be handed out now; see :meth:`.Turns.take`."""
        return self._turns.take()

    @property
    def is_expiring(self) -> bool:
        """Something here may expire."""
        return self.topic.log.has_expiring or self.departures.limits.message_ttl_ms is not None

    async def pull(self, consumer: LogConsumer) -> Deliveries | None:
        """One message for ``consumer``, outside permits; None when nothing is ready."""
        return await self._pulling.pull(consumer)

    def start_over(self) -> None:
        """A turn of it failed half-way; see :mod:`.starting_over`."""
        start_over(self, self._reader, self._handout)

    def retry(self) -> None:
        """Try once more to read what could not be read, or what failed."""
        self.is_resting = False
        self._replay.fetch.retry()
        self._reader.fetch.retry()
        self.held_back.retry()
        self.departures.retry()
        self.wake()

    @property
    def unreadable(self) -> Position | None:
        """Where the log could not be read on when that was last tried."""
        found = self._replay.fetch.failed_at or self.held_back.unreadable
        return found or self._reader.fetch.failed_at

    def let_go(self) -> None:
        """What was read ahead is read again when there is room for it."""
        self._reader.let_go()
        if self._turns.keyed is not None:
            self._turns.keyed.let_go()

    def _source(self) -> Source:
        """What goes next: replays, then what came due, then what is new."""
        if not self._replay or self.held_back.goes_first:
            due = self.held_back.source()
            if due is not None:
                return due
        return self._replay or self._reader

    def _behind_replays(self) -> Source:
        """What goes next when the replays cannot go."""
        due = self.held_back.source()
        return self._reader if due is None else due

    def unreadable_by(self, fetch: Fetch) -> None:
        """A read failed: stay where we are, say so once, and have it tried again later."""
        if fetch.failed_at != self._unreadable_at:
            self._unreadable_at = fetch.failed_at
            logger.error("%r is paused and will be retried: %s", self, fetch.failure)
        self.topic.engine.unreadable(self)

    def _settle_delivered(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None
    ) -> None:
        self.settlement.settle_delivered(positions, masks)

    # Moving

    async def purge(self) -> int:
        """Acknowledge everything that is ready; see the interface."""
        ready = self.ready_messages
        handout = self._handout
        out = self.tally.places_in_flight()
        self.cursor.settle_all_but(out, handout.divided, handout.sizes)
        handout.settled_all_but(out)
        self._replay.clear()
        self.held_back.clear()
        self._reader.rewind(max(self._reader.after, self.topic.log.ledgers.last or BEFORE_ALL))
        self.wake()
        await durable(self.receipt)
        return ready

    async def seek(self, place: Position, mask: int | None = None) -> None:
        """Make ``place`` the next entry to deliver; see the interface."""
        if self.is_fenced:
            raise SubscriptionFenced(f"{self!r} is being reset or removed already")
        self._seeking = True
        try:
            if mask is not None:
                whole = (1 << await self.topic.size_at(place)) - 1
                mask = None if mask & whole == whole else mask & whole
            self.put_out("seek")
            self.settlement.era += 1
            self.cursor.reset(place, mask)
            self._replay.clear()
            self._handout.forget()
            self.departures.forget()
            self._reader.rewind(self.acks.mark_delete)
            self.held_back.reset()
            await durable(self.receipt)
        finally:
            self._seeking = False
            self._pulling.parked.unpark_all()

    async def seek_time(self, publish_time_ms: int) -> None:
        """Seek to the first entry published at or after that time, or to the end."""
        found = await self.topic.first_published(publish_time_ms)
        await self.seek(self.topic.log.ledgers.next_append if found is None else found)

    def put_out(self, reason: str) -> None:
        """Detach all consumers and tell them why."""
        for consumer in self.consumers:
            consumer.put_out(reason)

    def fence(self) -> None:
        """The subscription is being removed."""
        self._leaving = True
        self.put_out("removed")
        self._pulling.parked.unpark_all()

    def unfence(self) -> None:
        self._leaving = False

    def log_trimmed(self) -> None:
        """Ledgers were dropped from the front of the log."""
        floor = before(self.topic.log.ledgers.first or self.topic.log.ledgers.next_append)
        self._handout.settled_through(floor)
        self.acks.log_trimmed()
        self._replay.discard_through(floor)
        self.held_back.discard_through(floor)
        if floor > self._reader.after:
            self._reader.rewind(floor)
        self.wake()  # a read that was under way may not be answered any more

    # Persisting

    def receipt(self, done: Done | None) -> None:
        """The cursor may have changed; ``done`` is told when that is on disk."""
        self.topic.engine.cursor_changed(self, done)

    def refuse(self, error: StoreFailed, done: Done | None) -> None:
        """An acknowledgement could not be taken; ``done`` is told so."""
        if done is not None:
            self.topic.engine.tell(done, error)

    def take_changes(self) -> CursorChanges:
        """What of the cursor has to be written now."""
        assert self.id is not None, f"{self!r} leaves no trace on disk"
        return self.cursor.take_changes(self.topic.id, self.id, self._furthest)

    def changes_failed(self, changes: CursorChanges) -> None:
        """Those changes are not on disk after all."""
        self.cursor.changes_failed(changes)

    @property
    def _furthest(self) -> Position:
        """Nothing behind this was handed out."""
        if isinstance(self._replay, PrioritySource):
            return self._handout.furthest  # the reader goes ahead to find what is urgent
        return max(self._reader.after, self._handout.furthest)

    # Telling

    @property
    def ready_messages(self) -> int:
        return self.departures.staying(self.tally.ready_messages)

    @property
    def ready_bytes(self) -> int:
        return self.tally.ready_bytes

    @property
    def room(self) -> int:
        return self._handout.room

    def statistics(self) -> SubscriptionStatistics:
        """The subscription at this instant."""
        return self.tally.statistics(self)
