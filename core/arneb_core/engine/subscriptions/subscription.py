"""A subscription as frontends see it: its machine, on a topic, in an engine.

The rule: it carries out the machine's effects, brings it their results, and waits where waiting is
needed. It decides nothing about any entry.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, ParamSpec, Protocol, cast

import trio

from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.api.errors import CommitFailed, SubscriptionFenced
from arneb_core.api.process.callbacks import Done, call, has_failed
from arneb_core.api.process.waiting import durable
from arneb_core.api.subscriptions.consumer import ConsumerSpec, Sink
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import DeadLetters, Limits
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_core.api.topics.settings import Retention
from arneb_core.cursor.acks import AckState
from arneb_core.cursor.cursor import Cursor, CursorChanges
from arneb_core.delayed.index import DelayedIndex
from arneb_core.engine.subscriptions.admin import (
    AdministeredTopic,
    AdministeringEngine,
    SubscriptionAdmin,
)
from arneb_core.engine.subscriptions.consumer import LogConsumer, RecordedLogConsumer
from arneb_core.engine.subscriptions.listening import Listening
from arneb_core.engine.trimming.trimming import Trimming
from arneb_core.store.format.schema import SubscriptionId
from arneb_core.subscription.dispatching.pulls import Unanswered
from arneb_core.subscription.entries.delayed_entries import DelayedEntries
from arneb_core.subscription.machine import SubscriptionMachine
from arneb_core.subscription.sources.backlog import AheadBudget
from arneb_core.subscription.state.effects import (
    ActiveChanged,
    Closed,
    Continue,
    Deliver,
    Depart,
    Effect,
    HasWork,
    NoConsumers,
    Outbox,
    Read,
    Refuse,
    TryAgain,
    WakeAt,
    WriteCursor,
)
from arneb_core.subscription.state.state import SubscriptionState

P = ParamSpec("P")

NOBODY: Final = trio.lowlevel.ParkingLot()
"""Never waited in: shared by all subscriptions of which no pull has waited yet."""


class SubscriptionEngine(AdministeringEngine, Protocol):
    """What a subscription asks of the engine."""

    now_ms: Callable[[], int]
    ahead: AheadBudget
    """What all subscriptions together have read ahead."""

    def has_work(self, subscription: "LogSubscription") -> None:
        """Have ``subscription`` take its turn in the next step."""

    def cursor_changed(self, subscription: "LogSubscription", done: Done | None) -> None:
        """Have the cursor written: at once if somebody waits for it, else soon."""

    def tell(self, done: Done, error: CommitFailed | None) -> None:
        """Call ``done`` in the next step, for what needs no commit."""

    def complete(self, back: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Have ``back`` called in the next step."""

    def wake_at(self, subscription: "LogSubscription", when_ms: int) -> None:
        """Wake ``subscription`` at that time."""

    def unreadable(self, subscription: "LogSubscription") -> None:
        """Have a failed read tried again."""

    def try_again(self, subscription: "LogSubscription") -> None:
        """Have another failure tried again a little later."""


class SubscribedTopic(AdministeredTopic, Protocol):
    """What a subscription asks of its topic."""

    gone: bool
    delayed: DelayedIndex | None
    """Entries of the log that are not due yet."""
    listening: "Listening[LogSubscription]"
    trimming: Trimming
    """Trims the front of the log."""

    @property
    def durable(self) -> bool: ...

    @property
    def retention(self) -> Retention: ...

    def dispatched(self) -> None:
        """Drop from memory what all consumers have passed."""

    async def first_published(self, publish_time_ms: int) -> Position | None:
        """Return the first entry published at or after that time."""

    def forget(self, subscription: "LogSubscription") -> None:
        """Remove a subscription that was to go with its last consumer."""


class LogSubscription(SubscriptionAdmin):
    """One subscription (:class:`arneb_core.api.subscriptions.subscription.Subscription`)."""

    engine: SubscriptionEngine
    topic: SubscribedTopic

    def __init__(
        self,
        engine: SubscriptionEngine,
        topic: SubscribedTopic,
        name: str,
        subscription_id: SubscriptionId | None,
        cursor: Cursor,
        *,
        permanent: bool = True,
        suspect_until: Position = BEFORE_ALL,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.topic = topic
        self.engine = engine
        self.name = name
        self.id = subscription_id
        """None for subscriptions that leave no trace on disk."""
        self.permanent = permanent
        """It stays when its last consumer leaves."""
        self.properties: Mapping[str, str] = dict(properties or {})
        self.unused = False
        """It had no consumer at the last look."""
        self.target: DeadLetters | None = None
        """The dead-letter target."""
        self._parked = NOBODY
        """Pulls that wait for the next turn."""
        state = SubscriptionState(
            topic.name, name, topic.log, cursor, Outbox(self._carry_out), engine.now_ms,
            engine.ahead, durable=subscription_id is not None,
        )  # fmt: skip
        self.machine = SubscriptionMachine(
            state,
            suspect_until=suspect_until,
            make_consumer=lambda answering, spec, shared=None: LogConsumer(
                answering, spec, shared, subscription=self
            ),
        )
        self.expect_delays()

    def __repr__(self) -> str:
        return repr(self.machine)

    @property
    def durable(self) -> bool:
        return self.id is not None

    @property
    def type(self) -> SubscriptionType | None:
        return self.machine.state.type

    @property
    def gone(self) -> bool:
        """It was removed: nothing of it is written or dispatched any more."""
        return self.machine.state.gone

    @property
    def is_fenced(self) -> bool:
        """It is being reset or removed, or is gone."""
        return self.machine.state.is_fenced

    @property
    def consumers(self) -> Sequence[LogConsumer]:
        return cast(list[LogConsumer], list(self.machine.state.consumers.values()))  # by attach()

    @property
    def acks(self) -> AckState:
        return self.machine.state.acks

    @property
    def consumers_attached(self) -> bool:
        return bool(self.machine.state.consumers)

    def attach(self, spec: ConsumerSpec, sink: Sink) -> LogConsumer:
        """Add a consumer; see :meth:`.Subscription.attach`."""
        if self.topic.fenced:
            raise SubscriptionFenced(f"{self!r} is being reset or removed")
        kind = LogConsumer if self.machine.state.history is None else RecordedLogConsumer
        make = partial(kind, subscription=self, sink=sink)
        consumer = cast(LogConsumer, self.machine.attach(spec, make))
        self.topic.listening.begins(self)
        self.unused = False
        return consumer

    def limit(self, limits: Limits, target: DeadLetters | None) -> None:
        """Set what departs by itself, and its target; see the interface."""
        self.target = target or self.target  # departures on their way still go there
        self.machine.limit(limits, has_target=target is not None)
        self.topic.listening.begins(self)

    def prioritise(self, highest: int) -> None:
        """Prefer higher priorities; see the interface."""
        self.machine.prioritise(highest)

    def expect_delays(self) -> None:
        """Hold back from now on what is not due, if the topic has a delayed index."""
        if self.topic.delayed is not None:
            self.machine.hold_back(self.topic.delayed)

    @property
    def index_reader(self) -> DelayedEntries | None:
        """The part that reads the topic's delayed index."""
        delayed = self.machine.ready.delayed
        return delayed if isinstance(delayed, DelayedEntries) else None

    # What waits

    async def pull_for(self, consumer: LogConsumer) -> Deliveries | None:
        """Take one message for ``consumer``, outside permits; None when nothing is ready."""
        await trio.lowlevel.checkpoint()
        while True:
            answer = self.machine.pull(consumer)
            if answer is Unanswered.AGAIN:
                await trio.lowlevel.checkpoint()
            elif answer is Unanswered.LATER:
                if self._parked is NOBODY:
                    self._parked = trio.lowlevel.ParkingLot()
                await self._parked.park()
            elif answer is not Unanswered.EMPTY:
                return answer
            elif self.is_fenced or self.topic.fenced:
                raise SubscriptionFenced(f"{self!r} is being reset or removed")
            else:
                return None

    async def purge(self) -> int:
        """Acknowledge everything that is ready; see the interface."""
        purged = self.machine.purge()
        await durable(self.receipt)
        return purged

    async def seek(self, position: Position, mask: int | None = None) -> None:
        """Make ``position`` the next entry to deliver; see the interface."""
        self.machine.seek_begins()
        try:
            if mask is not None:
                whole = (1 << await self.topic.size_at(position)) - 1
                mask = None if mask & whole == whole else mask & whole
            self.machine.seek(position, mask)
            await durable(self.receipt)
        finally:
            self.machine.seek_ends()
            self._parked.unpark_all()

    async def seek_time(self, publish_time_ms: int) -> None:
        """Seek to the first entry published at or after that time, or to the end."""
        found = await self.topic.first_published(publish_time_ms)
        await self.seek(self.topic.log.ledgers.next_append if found is None else found)

    # What the engine and its topic tell it

    def turn(self) -> int:
        """Hand out what can be handed out now; return how many entries."""
        if self._parked:
            self._parked.unpark_all()
        return self.machine.turn()

    def fence(self) -> None:
        """Fence the machine, and wake the pulls: the subscription is being removed."""
        self.machine.fence()
        self._parked.unpark_all()

    def receipt(self, done: Done | None) -> None:
        """Note that the cursor may have changed; ``done`` is called once it is on disk."""
        self.machine.state.cursor_changed(done)

    def take_changes(self) -> CursorChanges:
        """Take the changes of the cursor that have to be written now."""
        assert self.id is not None, f"{self!r} leaves no trace on disk"
        state = self.machine.state
        state.cursor_taken()
        return state.cursor.take_changes(self.topic.id, self.id, self.machine.furthest)

    def changes_failed(self, changes: CursorChanges) -> None:
        """Take back changes that did not reach the disk."""
        self.machine.state.cursor_kept()
        self.machine.state.cursor.changes_failed(changes)

    # Telling

    @property
    def ready_messages(self) -> int:
        return self.machine.ready_messages

    @property
    def ready_bytes(self) -> int:
        return self.machine.counters.ready_bytes

    @property
    def room(self) -> int:
        return self.machine.delivery.room

    def statistics(self) -> SubscriptionStatistics:
        return self.machine.statistics()

    # Carrying out

    def _carry_out(self, effect: Effect) -> None:
        CARRY_OUT[type(effect)](self, effect)

    def _has_work(self, effect: HasWork) -> None:
        self.engine.has_work(self)

    def _write_cursor(self, effect: WriteCursor) -> None:
        self.engine.cursor_changed(self, effect.done)

    def _refuse(self, effect: Refuse) -> None:
        self.engine.tell(effect.done, effect.error)

    def _read(self, effect: Read) -> None:
        # The answer comes in the next step, like everything that brings work.
        complete, read_done, number = self.engine.complete, self.machine.read_done, effect.number
        self.topic.log.read_cold(
            effect.position, effect.bytes_max, lambda found: complete(read_done, number, found)
        )

    def _wake_at(self, effect: WakeAt) -> None:
        self.engine.wake_at(self, effect.when_ms)

    def _continue(self, effect: Continue) -> None:
        self.engine.complete(self.machine.resume)

    def _try_again(self, effect: TryAgain) -> None:
        if effect.is_read:
            self.engine.unreadable(self)
        else:
            self.engine.try_again(self)

    def _no_consumers(self, effect: NoConsumers) -> None:
        self._parked.unpark_all()
        self.topic.listening.may_end(self)
        if not (self.permanent or self.is_fenced):
            self.topic.forget(self)
        self.engine.has_work(self)  # so that the topic notices that a reader is gone

    def _deliver(self, effect: Deliver) -> None:
        consumer = effect.consumer
        assert isinstance(consumer, LogConsumer), "attach() made it"
        try:
            consumer.sink.deliver(effect.run)
        except Exception as error:
            has_failed(consumer.sink.deliver, error)
            consumer.put_out("failed")

    def _depart(self, effect: Depart) -> None:
        holder = effect.holder
        assert isinstance(holder, LogConsumer), "the machine has it made by make_consumer"
        assert self.target is not None, "nothing departs without a target"
        if not call(self.target.departed, effect.reason, effect.run, holder):
            self.machine.not_taken(effect)

    def _active_changed(self, effect: ActiveChanged) -> None:
        consumer = effect.consumer
        assert isinstance(consumer, LogConsumer), "attach() made it"
        self.engine.call_while_leased(consumer.sink.active_changed, effect.is_active)

    def _closed(self, effect: Closed) -> None:
        consumer = effect.consumer
        assert isinstance(consumer, LogConsumer), "attach() made it"
        self._parked.unpark_all()  # the consumer may be waiting for a message
        call(consumer.sink.closed_by_core, effect.reason)


CARRY_OUT: Final[dict[type[Any], Callable[[LogSubscription, Any], None]]] = {
    HasWork: LogSubscription._has_work,
    WriteCursor: LogSubscription._write_cursor,
    Refuse: LogSubscription._refuse,
    Read: LogSubscription._read,
    WakeAt: LogSubscription._wake_at,
    Continue: LogSubscription._continue,
    TryAgain: LogSubscription._try_again,
    NoConsumers: LogSubscription._no_consumers,
    Deliver: LogSubscription._deliver,
    Depart: LogSubscription._depart,
    ActiveChanged: LogSubscription._active_changed,
    Closed: LogSubscription._closed,
}
"""How each effect is carried out."""
