"""A subscription's statistics: what HTTP, metrics and tests may know of it, at one instant."""

from dataclasses import dataclass

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.subscription_types import SubscriptionType


@dataclass(frozen=True, slots=True)
class SubscriptionStatistics:
    """A subscription at one instant."""

    name: str
    type: SubscriptionType | None
    durable: bool
    consumers: int
    backlog_entries: int
    """Entries not acknowledged, in flight or not."""
    ready_entries: int
    """Entries neither acknowledged nor in flight."""
    in_flight_messages: int
    holes: int
    mark_delete: Position
    delivered_messages_total: int
    acknowledged_entries_total: int
    redelivered_entries_total: int
    unreadable: Position | None = None
    """Deliveries are stuck in front of this entry, which could not be read at the last attempt; it
    is tried again and again."""
    delayed_entries: int = 0
    """Entries of the backlog that are not due yet; approximate while some of them come due."""
    lost_entries_total: int = 0
    """Entries skipped because they are lost: the journal was damaged."""
    last_type: SubscriptionType | None = None
    """As ``type``, or its value when the last consumer left, since the broker started."""
