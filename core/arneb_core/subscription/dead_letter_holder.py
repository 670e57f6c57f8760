"""The estate: the internal consumer that holds what departs until its heir has a place for it.

The rule: it is assigned nothing and asks for nothing; only departures put entries in flight here.
"""

from typing import TYPE_CHECKING

from arneb_core.api.consumers import ConsumerSpec
from arneb_core.api.deliveries import Deliveries
from arneb_core.subscription.consumer import LogConsumer

if TYPE_CHECKING:
    from arneb_core.subscription.subscription import LogSubscription


class NoSink:
    """The estate is never assigned anything."""

    def deliver(self, run: Deliveries) -> None:
        raise AssertionError("the estate has no permits")

    def active_changed(self, active: bool) -> None:
        """Nobody asks."""

    def closed_by_core(self, reason: str) -> None:
        """The subscription ends, and the estate with it."""


def new_estate(subscription: "LogSubscription") -> LogConsumer:
    """An estate that holds nothing yet."""
    return LogConsumer(subscription, ConsumerSpec(name="estate"), NoSink())
