"""Counters: how much of a subscription is ready, and how much is in flight.

The rule: they change nothing. The numbers come from what the parts know anyway; none requires a
look at every entry.
"""

from arneb_core.api.entries.position import before, position_at
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.subscription.entries.delivery import Delivery
from arneb_core.subscription.entries.ready import Ready
from arneb_core.subscription.state.state import SubscriptionState


class Counters:
    """The counts of one subscription."""

    __slots__ = (
        "_delivery",
        "_ready",
        "_state",
    )

    def __init__(self, state: SubscriptionState, ready: Ready, delivery: Delivery) -> None:
        self._state = state
        self._ready = ready
        self._delivery = delivery

    def __repr__(self) -> str:
        return f"<Counters {self.ready_messages} ready, {self.in_flight_messages} in flight>"

    @property
    def delayed_entries(self) -> int:
        """Entries that are not due yet: they are not ready, and no length limit counts them."""
        return self._ready.delayed.entries

    @property
    def in_flight_messages(self) -> int:
        """Messages in flight at consumers."""
        return sum(consumer.in_flight for consumer in self._state.consumers.values())

    @property
    def ready_messages(self) -> int:
        """Messages neither acknowledged nor in flight nor about to depart."""
        away = self.in_flight_messages + self._state.holder.in_flight
        if self._state.withheld is not None:
            away += self._state.withheld.in_flight
        away += self.delayed_entries
        return max(0, self._state.cursor.backlog_messages - away)

    @property
    def ready_bytes(self) -> int:
        """Bytes of the ready entries. Exact when they are measured, or when all entries of a ledger
        have one size; else acknowledged and in-flight entries count with their ledger's average."""
        if self._state.byte_counter is not None:
            return self._state.byte_counter.ready
        acks, ledgers = self._state.acks, self._state.log.ledgers
        total, entries = 0.0, 0
        for info in ledgers:
            low = max(before(position_at(info.id, 0)), acks.mark_delete)
            left = ledgers.count_between(low, info.last)
            if left:
                left -= acks.acknowledged_between(low, info.last)
                total += left * info.bytes / info.entries
                entries += left
        return round(total * min(1.0, self.ready_messages / entries)) if entries else 0

    def statistics(self, name: str) -> SubscriptionStatistics:
        """Return the statistics of the subscription, called ``name``, at this instant."""
        state, delivery, cursor = self._state, self._delivery, self._state.cursor
        acks = cursor.acks
        backlog = acks.backlog
        out = sum(consumer.entries_in_flight for consumer in state.consumers.values())
        out += state.holder.entries_in_flight
        if state.withheld is not None:
            out += state.withheld.entries_in_flight
        delayed = self.delayed_entries
        return SubscriptionStatistics(
            name=name,
            type=state.type,
            durable=state.durable,
            consumers=len(state.consumers),
            backlog_entries=backlog,
            ready_entries=max(0, backlog - out - delayed),
            in_flight_messages=self.in_flight_messages,
            holes=acks.holes,
            mark_delete=acks.mark_delete,
            delivered_messages_total=delivery.delivered_total,
            acknowledged_entries_total=cursor.acknowledged_total,
            redelivered_entries_total=delivery.redelivered_total,
            unreadable=self._ready.unreadable,
            delayed_entries=delayed,
            lost_entries_total=cursor.lost_total,
            last_type=state.last_type,
        )
