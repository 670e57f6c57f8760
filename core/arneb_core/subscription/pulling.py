"""Pulling: single messages for those who ask for one, outside permits.

The rule: the answer "nothing is ready" is given only when that is known, so a pull waits for
reads that are under way; and cancelled, it has taken nothing.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from arneb_core.api.deliveries import Deliveries
from arneb_core.api.errors import SubscriptionFenced
from arneb_core.api.position import Position
from arneb_core.subscription.handout import HandOut
from arneb_core.subscription.sources.backlog import BacklogReader
from arneb_core.subscription.sources.due import DueSource
from arneb_core.subscription.sources.priorities import PrioritySource
from arneb_core.subscription.sources.replay import ReplaySet

if TYPE_CHECKING:
    from arneb_core.subscription.consumer import LogConsumer
    from arneb_core.subscription.subscription import LogSubscription


class Pulling:
    """The pulls of one subscription."""

    def __init__(
        self,
        subscription: "LogSubscription",
        handout: HandOut,
        next_source: Callable[[], ReplaySet | PrioritySource | DueSource | BacklogReader],
        let_go: Callable[[], None],
    ) -> None:
        self._subscription = subscription
        self._handout = handout
        self._next_source = next_source
        self._let_go = let_go
        self.parked = trio.lowlevel.ParkingLot()
        """Those who wait; whoever changes anything wakes them."""

    def __repr__(self) -> str:
        return f"<Pulling {len(self.parked)} parked>"

    async def pull(self, consumer: "LogConsumer") -> Deliveries | None:
        """One message for ``consumer``; see the interface."""
        subscription, departures = self._subscription, self._subscription.departures
        await trio.lowlevel.checkpoint()
        while consumer.attached and not subscription.is_fenced:
            source = self._next_source()
            at_hand = source.peek()
            if at_hand is not None:
                if departures.must_go(at_hand[1]):
                    if not departures.let_go(self._next_source):
                        await self.parked.park()  # the heir has its hands full
                    continue
                run = self._take(consumer, source, *at_hand)
                if run is not None:
                    if subscription.is_expiring and not self._handout.has_room:
                        # Who pulls is told what is left, and what has expired is not.
                        departures.let_go(self._next_source)
                    return run
            elif not source:
                continue  # the log had none of them any more
            elif source.is_sorting:
                await trio.lowlevel.checkpoint()
            elif source.fetch.failure is not None:
                raise source.fetch.failure
            elif source.fetch.is_under_way:
                await self.parked.park()
            else:
                return None
        if subscription.is_fenced or subscription.topic.fenced:
            raise SubscriptionFenced(f"{subscription!r} is being reset or removed")
        return None

    def _take(
        self,
        consumer: "LogConsumer",
        source: ReplaySet | PrioritySource | DueSource | BacklogReader,
        positions: list[Position],
        entries: list[bytes],
    ) -> Deliveries | None:
        place, entry = positions[0], entries[0]
        run = self._handout.pull(consumer, place, entry)
        if self._handout.is_done_with(place, entry):
            source.take([place])
        if self._subscription.topic.engine.ahead.is_spent:
            self._let_go()
        return run
