"""A subscription as a state machine: inputs in, effects out.

The rule: every entry after the mark-delete position is in exactly one of four places:
acknowledged, in flight, ready again, or not yet read. The machine knows no topic, no engine and no
store, never waits and does no I/O: inputs are calls (:mod:`.inputs` has them as values), and
effects go into its outbox (:mod:`.state.effects`).
"""

from typing import Protocol, cast

from arneb_core.api.entries.position import BEFORE_ALL, Position, before, render
from arneb_core.api.errors import SubscriptionFenced
from arneb_core.api.process.callbacks import call
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.limits import Departure, Fate, Limits
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.api.subscriptions.windows import UnackedWindow, subscription_window
from arneb_core.api.topics.history import Happened
from arneb_core.delayed.index import DelayedIndex
from arneb_core.dispatch import KeySharedDispatcher, dispatcher_for
from arneb_core.subscription.consumers.consumer import Answering, AttachedConsumer
from arneb_core.subscription.consumers.membership import check_type, tell_active
from arneb_core.subscription.consumers.returns import Returns
from arneb_core.subscription.consumers.withheld import WITHHOLDER, Withheld
from arneb_core.subscription.departures.dead_lettering import DeadLettering
from arneb_core.subscription.departures.limit_enforcer import LimitEnforcer
from arneb_core.subscription.dispatching.dispatch_loop import DispatchLoop
from arneb_core.subscription.dispatching.pulls import Pulls, Unanswered
from arneb_core.subscription.entries.acknowledgements import Acknowledgements
from arneb_core.subscription.entries.counters import Counters
from arneb_core.subscription.entries.delayed_entries import DelayedEntries
from arneb_core.subscription.entries.delivery import Delivery
from arneb_core.subscription.entries.no_delayed_entries import NO_DELAYED_ENTRIES
from arneb_core.subscription.entries.ready import Ready
from arneb_core.subscription.state.byte_counter import ByteCounter
from arneb_core.subscription.state.effects import Depart, Found, NoConsumers
from arneb_core.subscription.state.state import HOLDER, SubscriptionState


class MakeConsumer(Protocol):
    """Makes a consumer, of the class that the caller wants."""

    def __call__(
        self, answering: Answering, spec: ConsumerSpec, shared: UnackedWindow | None = None
    ) -> AttachedConsumer: ...


class SubscriptionMachine:
    """One subscription."""

    def __init__(
        self,
        state: SubscriptionState,
        *,
        suspect_until: Position = BEFORE_ALL,
        make_consumer: MakeConsumer = AttachedConsumer,
    ) -> None:
        """``suspect_until``: entries up to here may have been delivered by an earlier process."""
        self.state = state
        self._outbox = state.outbox
        self.ready = ready = Ready(state)
        self.delivery = delivery = Delivery(state, suspect_until)
        self.acknowledgements = Acknowledgements(state, ready, delivery)
        delivery.acknowledge_delivered = self.acknowledgements.acknowledge_delivered
        self.counters = Counters(state, ready, delivery)
        self.dead_lettering = DeadLettering(
            state, self.acknowledgements, lambda: make_consumer(self.answering, HOLDER)
        )
        self._enforcer = LimitEnforcer(state, ready, self.counters, self.dead_lettering)
        leaving = self.acknowledgements, self.dead_lettering, self._enforcer
        self.returns = Returns(state, ready, delivery, *leaving)
        self.loop = DispatchLoop(state, ready, delivery, *leaving)
        self._pulls = Pulls(state, ready, delivery, self._enforcer)
        self.answering = Answering(
            state, self, self.acknowledgements, self.returns, self.dead_lettering
        )
        state.holder = make_consumer(self.answering, HOLDER)
        self._make_consumer = make_consumer
        self._withheld: Withheld | None = None
        self._unacked: UnackedWindow | None = None
        """The window that all consumers share."""

    def __repr__(self) -> str:
        state, acks = self.state, self.state.acks
        kind = state.type.value if state.type else "unused"
        position = f"at {render(acks.mark_delete)}, {acks.holes} holes"
        return f"<Subscription {state.label} {position}, {kind}>"

    @property
    def attached(self) -> list[AttachedConsumer]:
        """The attached consumers, in the order they came."""
        # Only attach() adds consumers.
        return cast(list[AttachedConsumer], list(self.state.consumers.values()))

    @property
    def keys(self) -> KeySharedDispatcher | None:
        """The dispatcher of a Key_Shared subscription."""
        keyed = self.loop.keyed
        return None if keyed is None else keyed.dispatcher

    @property
    def withheld(self) -> Withheld:
        """What open transactions have acknowledged."""
        if self._withheld is None:
            self._withheld = Withheld(
                self.state, self.ready, self.delivery, self.acknowledgements, self.returns,
                lambda: self._make_consumer(self.answering, WITHHOLDER),
            )  # fmt: skip
        return self._withheld

    # Consumers

    def attach(self, spec: ConsumerSpec, make: MakeConsumer = AttachedConsumer) -> AttachedConsumer:
        """Attach a consumer, or raise the reason why it cannot attach."""
        state, delivery = self.state, self.delivery
        if state.is_fenced:
            raise SubscriptionFenced(f"{self!r} is being reset or removed")
        check_type(state, self.ready, spec)
        if not state.consumers:
            self._begin(spec)
        consumer = make(self.answering, spec, self._unacked)
        consumer.keys = self.loop.watching
        active = delivery.active
        delivery.add(consumer)
        tell_active(state, delivery, self.returns, active, consumer)
        state.wake()
        self._outbox.flush()
        return consumer

    def _begin(self, spec: ConsumerSpec) -> None:
        """Prepare for the first consumer, which sets the type."""
        self.state.type = self.state.last_type = spec.type
        self.ready.delayed.begin(spec)
        most = spec.subscription_unacked_max
        self._unacked = subscription_window(most) if most else None
        dispatcher = dispatcher_for(spec, self.state.topic)
        self.delivery.begin(dispatcher)
        self.loop.begin(spec, dispatcher)

    def detached(self, consumer: AttachedConsumer) -> None:
        """Forget ``consumer``, which left and has given back what it held."""
        state, delivery = self.state, self.delivery
        active = delivery.active
        delivery.remove(consumer)
        tell_active(state, delivery, self.returns, active, None)
        if not state.consumers:
            state.type = None
            self.loop.end()
            self.ready.drop_cached()
            self._outbox.put(NoConsumers())
        state.wake()
        self._outbox.flush()

    def retired(self, consumer: AttachedConsumer) -> None:
        """Give ``consumer`` nothing more; it keeps what it has."""
        active = self.delivery.active
        self.delivery.retire(consumer)
        tell_active(self.state, self.delivery, self.returns, active, None)
        self.state.wake()
        self._outbox.flush()

    def limit_unacked(self, of_each: int, of_all: int) -> None:
        """Change the limits of unacknowledged messages, for each consumer and for all together,
        where there are any."""
        for consumer in self.attached:
            consumer.limit_unacked(of_each)
        if self._unacked is not None:
            self._unacked.change(subscription_window(of_all))
        self.state.wake()
        self._outbox.flush()

    def put_out(self, reason: str) -> None:
        """Detach all consumers and tell them why."""
        for consumer in self.attached:
            consumer.put_out(reason)

    def pull(self, consumer: AttachedConsumer) -> Deliveries | Unanswered:
        """Return one message for ``consumer``, outside permits."""
        try:
            return self._pulls.pull(consumer)
        finally:
            self._outbox.flush()

    # What happens to the log

    def appended(self, first: Position, entries: list[bytes]) -> None:
        """A run was appended."""
        if counter := self.state.byte_counter:
            counter.came(first, entries)
        if self.state.may_depart and not self.delivery.has_room:
            self._enforcer.no_consumer_waited()
        self.state.wake()

    def log_trimmed(self) -> None:
        """Ledgers were dropped from the front of the log."""
        ledgers = self.state.log.ledgers
        floor = before(ledgers.first or ledgers.next_append)
        self.delivery.acknowledged_through(floor)
        self.state.acks.log_trimmed()
        self.ready.answered_through(floor)
        self.state.wake()  # a read under way may never be answered

    def read_done(self, number: int, found: Found) -> None:
        """Take the answer to a read."""
        self._outbox.read_done(number, found)

    # Turns

    def turn(self) -> int:
        """Hand out what can be handed out now; see :meth:`.DispatchLoop.turn`."""
        return self.loop.turn()

    def tick(self) -> None:
        """The time asked for has come."""
        self.state.wake()

    def resume(self) -> None:
        """Continue to look through the index: others had their turn."""
        self.ready.delayed.resume()

    def retry(self) -> None:
        """Try again what could not be read, or failed."""
        self.state.rested()
        self.ready.retry()
        self.dead_lettering.retry()
        self.state.wake()

    def not_taken(self, depart: Depart) -> None:
        """Take back what the dead-letter target could not take."""
        self.dead_lettering.not_taken(depart)

    def start_over(self) -> None:
        """Recover from a turn that failed half-way and lost track of the entries it had in hand.

        In memory only acknowledgements, withheld entries and those at the dead-letter target are
        trusted. Consumers are put out; everything else is read again and handed out as possibly
        seen. Nothing is skipped, and nothing acknowledged comes back. No turn comes before
        :meth:`retry`.
        """
        state, acks, reader = self.state, self.state.acks, self.state.reader
        state.rest()
        self._outbox.drop_calls()
        for consumer in self.attached:
            call(consumer.put_out, "failed")
        handed = self.dead_lettering.start_over()
        sizes = dict(state.sizes)
        for position in [each for each in state.divided if each not in handed]:
            self.delivery.undivide(position, -1)
        if self._withheld is not None:
            handed = handed | self._withheld.start_over(sizes)
        self.ready.start_over()
        through, skip = reader.after, reader.skip or ()
        lost: list[Position] = []
        if through > acks.mark_delete:
            unacked = acks.unacknowledged(acks.mark_delete, through, acks.backlog)
            lost = [each for each in unacked if each not in handed and each not in skip]
        self.returns.returned(lost, count=False)
        if state.byte_counter is not None:
            state.byte_counter.lose_count()

    # What holds

    def limit(self, limits: Limits, *, has_target: bool) -> None:
        """Apply ``limits`` from now on; ``has_target``: what departs is dead-lettered."""
        state = self.state
        self.dead_lettering.limit(limits, has_target=has_target)
        size_of = limits.size_of or (None if limits.ready_bytes_max is None else len)
        if size_of is None:
            state.byte_counter = None
        elif state.byte_counter is None or state.byte_counter.size_of is not size_of:
            state.byte_counter = ByteCounter(
                state.log, state.acks, state.fetch(), size_of, state.positions_in_flight
            )
            state.byte_counter.count_on()
        state.wake()

    def prioritise(self, highest: int) -> None:
        """Let higher priorities, up to ``highest``, go first from now on."""
        if highest and not self.ready.is_prioritised:
            if self.loop.keyed is not None:
                self.put_out("removed")  # keys and priorities do not go together
            self.ready.prioritise(highest)
            self.state.wake()

    def hold_back(self, index: DelayedIndex) -> None:
        """Hold back from now on the entries that ``index`` says are not due."""
        if self.ready.delayed is NO_DELAYED_ENTRIES:
            by_time = any(each.spec.by_time for each in self.state.consumers.values())
            delayed = DelayedEntries(self.state, self.delivery.past, index, by_time=by_time)
            self.ready.delayed = delayed

    # Moving

    def purge(self) -> int:
        """Acknowledge everything that is ready; return how many messages that was."""
        state, delivery = self.state, self.delivery
        purged = self.ready_messages
        self._moved(Happened.PURGED, state.log.ledgers.last)
        out = state.positions_in_flight()
        state.cursor.acknowledge_all_but(out, state.divided, state.sizes)
        delivery.acknowledged_all_but(out)
        self.ready.clear(max(state.reader.after, state.log.ledgers.last or BEFORE_ALL))
        state.cursor_changed()
        state.wake()
        return purged

    def seek_begins(self) -> None:
        """Let no consumer attach until :meth:`seek_ends`."""
        if self.state.is_fenced:
            raise SubscriptionFenced(f"{self!r} is being reset or removed already")
        self.state.is_seeking = True

    def seek(self, position: Position, mask: int | None) -> None:
        """Make ``position`` the next entry; ``mask``: its messages still unacknowledged."""
        self.put_out("seek")
        self._moved(Happened.SOUGHT, position)
        self.state.era += 1
        self.state.cursor.reset(position, mask)
        self.delivery.forget()
        self.dead_lettering.forget()
        if self._withheld is not None:
            self._withheld.forget()
        self.ready.reset()
        self.state.cursor_changed()

    def seek_ends(self) -> None:
        """Consumers may come again."""
        self.state.is_seeking = False

    def skip_through(self, position: Position, reason: Departure | None = None) -> None:
        """Acknowledge everything up to ``position``, in flight or not; count it as departed for
        ``reason``, if given."""
        if self.state.is_fenced:
            raise SubscriptionFenced(f"{self!r} is being reset or removed")
        self._moved(Happened.SKIPPED, position)
        backlog = self.state.acks.backlog
        for consumer in self.attached:
            consumer.acknowledge([each for each in consumer.positions if each <= position])
        self.acknowledgements.acknowledge_until(position)
        if reason is not None:
            gone = backlog - self.state.acks.backlog
            self.state.count_departed(reason, gone, Fate.DROPPED)
        self.state.cursor_changed()

    def _moved(self, how: Happened, position: Position | None) -> None:
        if self.state.history is not None and position is not None:
            self.state.history.moved(how, position)

    def fence(self) -> None:
        """The subscription is being removed."""
        self.state.is_leaving = True
        self.put_out("removed")

    def unfence(self) -> None:
        """It was not removed after all."""
        self.state.is_leaving = False
        self.state.cursor_forgotten()

    def removed(self) -> None:
        """It is gone."""
        self.state.gone = True

    # Telling

    @property
    def is_stored(self) -> bool:
        """Its cursor is on disk as it is, or about to be."""
        return self.state.cursor.is_stored(self.furthest)

    @property
    def furthest(self) -> Position:
        """Nothing beyond this was handed out."""
        if self.ready.is_prioritised:
            return self.delivery.furthest  # the reader goes ahead to find what is urgent
        return max(self.state.reader.after, self.delivery.furthest)

    @property
    def ready_messages(self) -> int:
        """Messages neither acknowledged nor in flight."""
        return self._enforcer.staying(self.counters.ready_messages)

    def statistics(self) -> SubscriptionStatistics:
        """Return the subscription's statistics at this instant."""
        return self.counters.statistics(self.state.name)
