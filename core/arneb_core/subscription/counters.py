"""A tally: how much of a subscription is ready, and how much is out.

The rule: it counts and changes nothing. Numbers come from what the parts know anyway; none
costs a look at every entry.
"""

from typing import TYPE_CHECKING

from arneb_core.api.position import Position, before, position
from arneb_core.api.statistics import SubscriptionStatistics
from arneb_core.cursor.cursor import Cursor
from arneb_core.log.log import Log
from arneb_core.subscription.handout import HandOut
from arneb_core.subscription.nothing_held import NOTHING_HELD, NothingHeld

if TYPE_CHECKING:
    from arneb_core.subscription.dead_lettering import Departures
    from arneb_core.subscription.held_back import HeldBack
    from arneb_core.subscription.subscription import LogSubscription


class Tally:
    """The counts of one subscription."""

    def __init__(
        self, cursor: Cursor, handout: HandOut, departures: "Departures", log: Log
    ) -> None:
        self._cursor = cursor
        self._handout = handout
        self._departures = departures
        self._log = log
        self.held_back: HeldBack | NothingHeld = NOTHING_HELD

    def __repr__(self) -> str:
        return f"<Tally {self.ready_messages} ready, {self.in_flight_messages} in flight>"

    @property
    def delayed_entries(self) -> int:
        """Entries that are not due yet: they are not ready, and cannot be too many."""
        return self.held_back.entries

    @property
    def in_flight_messages(self) -> int:
        """Messages at consumers."""
        return sum(consumer.in_flight for consumer in self._handout.consumers.values())

    def places_in_flight(self) -> list[Position]:
        """Entries of which something is in flight, in no order."""
        holders = [*self._handout.consumers.values(), self._departures.estate]
        out = [place for holder in holders for place in holder.whole]
        return [*out, *self._handout.divided]

    @property
    def ready_messages(self) -> int:
        """Messages neither acknowledged nor in flight nor about to depart."""
        away = self.in_flight_messages + self._departures.estate.in_flight
        away += self.delayed_entries
        return max(0, self._cursor.backlog_messages - away)

    @property
    def ready_bytes(self) -> int:
        """Bytes of the ready entries. Exact when they are weighed, or all entries of a ledger have
        one size; else what is acknowledged or in flight in a ledger counts with its average."""
        if self._handout.weights is not None:
            return self._handout.weights.ready
        acks, ledgers = self._cursor.acks, self._log.ledgers
        total, entries = 0.0, 0
        for info in ledgers:
            low = max(before(position(info.id, 0)), acks.mark_delete)
            left = ledgers.count_between(low, info.last)
            if left:
                left -= acks.acknowledged_between(low, info.last)
                total += left * info.bytes / info.entries
                entries += left
        return round(total * min(1.0, self.ready_messages / entries)) if entries else 0

    def statistics(self, subscription: "LogSubscription") -> SubscriptionStatistics:
        """The subscription at this instant."""
        acks, handout = self._cursor.acks, self._handout
        consumers = list(handout.consumers.values())
        backlog = acks.backlog
        out = sum(consumer.entries_in_flight for consumer in consumers)
        out += self._departures.estate.entries_in_flight
        delayed = self.delayed_entries
        return SubscriptionStatistics(
            name=subscription.name,
            type=subscription.type,
            durable=subscription.durable,
            consumers=len(consumers),
            backlog_entries=backlog,
            ready_entries=max(0, backlog - out - delayed),
            in_flight_messages=self.in_flight_messages,
            holes=acks.holes,
            mark_delete=acks.mark_delete,
            delivered_messages_total=handout.delivered_total,
            acknowledged_entries_total=self._cursor.acknowledged_total,
            redelivered_entries_total=handout.redelivered_total,
            unreadable=subscription.unreadable,
            delayed_entries=delayed,
            lost_entries_total=self._cursor.lost_total,
        )
