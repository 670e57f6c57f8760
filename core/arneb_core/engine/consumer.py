"""A consumer as frontends have it: the machine's, with a sink, and with what waits.

The rule: what waits is here, what is decided is in :mod:`arneb_core.subscription`. What a consumer
that leaves has in flight is given back in the order of the log, and no turn gives back more than
:data:`PLACES_PER_TURN`: it may be millions of entries.
"""

from typing import TYPE_CHECKING, Final

import trio

from arneb_core.api.consumers import ConsumerSpec, Sink
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.windows import UnackedWindow
from arneb_core.subscription.consumer import Answering, AttachedConsumer

if TYPE_CHECKING:
    from arneb_core.engine.subscription import LogSubscription

PLACES_PER_TURN: Final = 8_192
"""Some 2 ms."""


class NoSink:
    """The consumer that holds dead letters is never assigned anything."""

    def deliver(self, run: Deliveries) -> None:
        raise AssertionError("it has no permits")

    def active_changed(self, active: bool) -> None:
        """Nobody asks."""

    def closed_by_core(self, reason: str) -> None:
        """The subscription ends, and this with it."""


NO_SINK: Final = NoSink()


class LogConsumer(AttachedConsumer):
    """One attached consumer (:class:`arneb_core.api.interface.Consumer`)."""

    def __init__(
        self,
        answering: Answering,
        spec: ConsumerSpec,
        shared: UnackedWindow | None = None,
        *,
        subscription: "LogSubscription",
        sink: Sink = NO_SINK,
    ) -> None:
        super().__init__(answering, spec, shared)
        self.subscription = subscription
        self.sink = sink

    async def pull(self) -> Deliveries | None:
        """One message outside permits and windows; see the interface."""
        return await self.subscription.pull_for(self)

    async def give_back(self, *, count: bool) -> None:
        """Give back in turns all that is in flight but what one turn may do; see the interface.
        The consumer stays what it was until it detaches: on an exclusive or failover subscription
        nobody is active in its place before that."""
        if self.entries_in_flight <= PLACES_PER_TURN:
            return
        self.writable = False
        # Sorted in one piece: they nearly are, and then it costs some nanoseconds each. The last
        # first, so that they are given up by the piece, too: millions at once would be a long turn.
        places = sorted([*self.whole, *self.masks], reverse=True)
        while places:
            await trio.lowlevel.checkpoint()
            piece = places[-PLACES_PER_TURN:][::-1]
            del places[-PLACES_PER_TURN:]
            # What was answered meanwhile is not in flight any more, and is passed over.
            self.release(piece, count=count)
