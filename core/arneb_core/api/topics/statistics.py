"""A topic's statistics: what HTTP, metrics and tests may know of it, at one instant."""

from dataclasses import dataclass

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics


@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """A topic at one instant. Sizes are bytes of entries, headers included."""

    name: str
    durable: bool
    entries: int
    messages: int
    bytes: int
    ledgers: int
    last: Position | None
    appended_messages_total: int
    appended_bytes_total: int
    subscriptions: tuple[SubscriptionStatistics, ...]
    appended_entries_total: int = 0
    departed_messages_total: int = 0
    """Messages delivered to subscriptions that are gone."""

    @property
    def delivered_messages_total(self) -> int:
        """Messages delivered to all subscriptions of the topic since the broker started."""
        present = sum(each.delivered_messages_total for each in self.subscriptions)
        return self.departed_messages_total + present
