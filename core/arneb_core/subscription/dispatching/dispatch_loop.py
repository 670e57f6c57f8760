"""The dispatch loop: hands out a subscription's ready entries until others must have their turn.

The rule: entries at hand are shared out run by run, and nothing waits here; what was read and
could not be handed out stays where it was. A run reaches its consumers before the next is shared
out, so that a consumer whose socket is full is passed over.
"""

from dataclasses import dataclass, field
from typing import Final

from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.limits import Departure, Fate
from arneb_core.dispatch import Dispatcher, KeySharedDispatcher
from arneb_core.subscription.departures.dead_lettering import DeadLettering
from arneb_core.subscription.departures.limit_enforcer import LimitEnforcer
from arneb_core.subscription.dispatching.grouped import GroupedDelivery
from arneb_core.subscription.dispatching.keyed import KeyedDelivery
from arneb_core.subscription.entries.acknowledgements import Acknowledgements
from arneb_core.subscription.entries.delivery import DELIVERIES_MAX, PARTS_PER_TURN, Delivery
from arneb_core.subscription.entries.ready import Ready
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.subscription.state.state import SubscriptionState

DISPATCH_ENTRIES_MAX: Final = 2_048
"""Entries dispatched before other subscriptions and connections get their turn."""

DELIVERY_ENTRIES: Final = 32
"""A delivery to a consumer counts as so many more entries: its way through all layers takes some
25 us, and those that consumers get of one run are few if there are many consumers."""


@dataclass(slots=True, eq=False)
class DispatchLoop:
    """The turns of one subscription."""

    _state: SubscriptionState
    _ready: Ready
    _delivery: Delivery
    _acknowledgements: Acknowledgements
    _dead_lettering: DeadLettering
    _enforcer: LimitEnforcer
    keyed: KeyedDelivery | None = field(default=None, init=False)
    """Hands out instead, while the type is Key_Shared."""
    grouped: GroupedDelivery | None = field(default=None, init=False)
    """Hands out instead, while a Shared subscription has entries that belong together."""

    def __repr__(self) -> str:
        return f"<DispatchLoop {self._special or self._delivery!r}>"

    def begin(self, spec: ConsumerSpec, dispatcher: Dispatcher | KeySharedDispatcher) -> None:
        """Prepare for the first consumer, which sets the type."""
        parts = self._state, self._ready, self._delivery, self._enforcer
        if spec.type.traits.divides_groups and not spec.message_level:
            self.grouped = GroupedDelivery(*parts)
        elif isinstance(dispatcher, KeySharedDispatcher):
            replay = self._state.replay
            assert isinstance(replay, ReplaySet), "check_type() was asked"
            self.keyed = KeyedDelivery(*parts, replay, dispatcher)

    def end(self) -> None:
        """The last consumer left."""
        if self.keyed is not None:
            self.keyed.drop_cached()
        if self.grouped is not None:
            self.grouped.end()
        self.keyed = self.grouped = None

    @property
    def watching(self) -> KeySharedDispatcher | GroupedDelivery | None:
        """Must be told of what is no longer in flight at a consumer."""
        if self.keyed is not None:
            return self.keyed.dispatcher
        return self.grouped if self.grouped is not None and self.grouped.is_active else None

    def drop_cached(self) -> None:
        """Drop what was read ahead; it is read again when there is room for it."""
        self._state.reader.drop_cached()
        if self.keyed is not None:
            self.keyed.drop_cached()

    def turn(self) -> int:
        """Hand out what can be handed out now; return how many entries that was, deliveries counted
        as :data:`DELIVERY_ENTRIES`. If it was :data:`DISPATCH_ENTRIES_MAX` or more, there may be
        more to do at once."""
        state, enforcer = self._state, self._enforcer
        state.turn_begins()
        if not (state.may_depart or state.log.has_expiring):
            return self._hand_out()
        self._dead_lettering.step()
        taken = 0
        if enforcer.drop_returned():
            taken = self._hand_out()
            taken += enforcer.enforce(has_room=self._delivery.has_room)
            if not state.limits.waits and taken < DISPATCH_ENTRIES_MAX:
                self._let_fall()
        self._state.outbox.flush()
        return taken

    def _hand_out(self) -> int:
        taken_total = 0
        state, delivery, outbox = self._state, self._delivery, self._state.outbox
        delivery.parts_left = PARTS_PER_TURN
        while taken_total < DISPATCH_ENTRIES_MAX and not state.is_fenced:
            if not delivery.has_room:
                if state.ahead.is_spent:
                    self.drop_cached()
                break
            special = self._special
            taken = self._take_run() if special is None else special.hand_out()
            if outbox.calls:
                taken_total += DELIVERY_ENTRIES * len(outbox.calls)
                outbox.flush()
            if taken == 0:
                break
            taken_total += taken or 0
        if delivery.parts_left <= 0:
            state.wake()  # the rest of a batch, in the next turn
            outbox.flush()
        return taken_total

    @property
    def _special(self) -> KeyedDelivery | GroupedDelivery | None:
        if self.grouped is not None and self.grouped.is_active:
            return self.grouped
        return self.keyed

    def _take_run(self) -> int | None:
        """Hand out one run; return how many of its entries are dealt with, None for "ask again"."""
        source = self._ready.first()
        at_hand = source.peek()
        if at_hand is None:
            # Perhaps the log no longer had any of the replays.
            return None if not source else 0
        positions, entries = at_hand
        delivery = self._delivery
        if len(positions) > DELIVERIES_MAX and delivery.is_crowded:
            positions, entries = positions[:DELIVERIES_MAX], entries[:DELIVERIES_MAX]
        if self._state.is_expiring:
            may_be_new = not isinstance(source, ReplaySet)
            positions, entries = self._enforcer.living(positions, entries, may_be_new=may_be_new)
            if not positions:
                gone = self._enforcer.take_expired(source, spares_new=may_be_new)
                return 1 if gone else 0
        log = self._state.log
        if positions[0] <= log.groups_through and self._has_groups(entries):
            return None
        batches = log.has_batches
        taken = delivery.hand_out(positions, entries, batches=batches)
        if taken:
            source.take(positions[:taken] if taken < len(positions) else positions)
        return taken

    def _has_groups(self, entries: list[bytes]) -> bool:
        return self.grouped is not None and self.grouped.begin_if_needed(entries)

    def _let_fall(self) -> None:
        """Let what is left expire: no consumer could take it, and it must not wait."""
        state, cursor = self._state, self._state.cursor
        last = state.log.last
        if last is not None and last > state.acks.mark_delete:
            waiting = cursor.backlog_messages
            self._acknowledgements.acknowledge_until(last)
            if gone := waiting - cursor.backlog_messages:
                state.count_departed(Departure.EXPIRED, gone, Fate.DROPPED)
            state.cursor_changed()
