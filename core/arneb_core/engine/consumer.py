"""A consumer as frontends have it: the machine's, with a sink, and with what waits.

The rule: what waits is here, what is decided is in :mod:`arneb_core.subscription`. What a consumer
that leaves has in flight is given back in the order of the log, and no turn gives back more than
:data:`PLACES_PER_TURN`: it may be millions of entries.
"""

from itertools import islice
from typing import Final, Protocol

import trio
from pyroaring import BitMap64

from arneb_core.api.consumers import ConsumerSpec, Sink
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.errors import SubscriptionFenced
from arneb_core.api.lease import Lease
from arneb_core.api.position import Position
from arneb_core.api.windows import UnackedWindow
from arneb_core.engine.ranged_sink import RangedSink
from arneb_core.subscription.consumer import Answering, AttachedConsumer
from arneb_core.subscription.recorded import RecordedConsumer

PLACES_PER_TURN: Final = 8_192
"""Some 2 ms."""


class Leased(Protocol):
    """What a consumer knows of its engine."""

    @property
    def lease(self) -> Lease:
        """Without it nobody is told of a message."""


class Waits(Protocol):
    """What a consumer knows of its subscription: what may be waited for there."""

    @property
    def durable(self) -> bool:
        """Its cursor outlives the process."""

    @property
    def engine(self) -> Leased:
        """Whose it is."""

    async def pull_for(self, consumer: "LogConsumer") -> Deliveries | None:
        """One message outside permits; None when nothing is ready."""


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
    """One attached consumer (:class:`arneb_core.api.consumers.Consumer`)."""

    def __init__(
        self,
        answering: Answering,
        spec: ConsumerSpec,
        shared: UnackedWindow | None = None,
        *,
        subscription: Waits,
        sink: Sink = NO_SINK,
    ) -> None:
        super().__init__(answering, spec, shared)
        self.subscription = subscription
        ranges = spec.sharing.ranges if spec.type.traits.one_consumer else ()
        self.sink = RangedSink(sink, ranges, self.flow) if ranges else sink

    async def pull(self) -> Deliveries | None:
        """One message outside permits and windows; see the interface."""
        run, lease = await self.subscription.pull_for(self), self.subscription.engine.lease
        if not lease.holds and not await lease.held():
            raise SubscriptionFenced(f"{self.subscription!r} is led by another node")
        return run

    async def give_back(self, *, count: bool) -> None:
        """Give back in turns all that is in flight but what one turn may do; see the interface.
        The consumer stays what it was until it detaches: on an exclusive or failover subscription
        nobody is active in its place before that."""
        if self.entries_in_flight <= PLACES_PER_TURN:
            return
        self.writable = False
        places, ordered = [*self.whole, *self.masks], BitMap64()
        # Sorted, and given up, by the piece: 2 million at once would be a turn of a third of a
        # second.
        while places:
            await trio.lowlevel.checkpoint()
            ordered.update(places[-PLACES_PER_TURN:])
            del places[-PLACES_PER_TURN:]
        rest = iter(ordered)
        while piece := [Position(each) for each in islice(rest, PLACES_PER_TURN)]:
            await trio.lowlevel.checkpoint()
            # What was answered meanwhile is not in flight any more, and is passed over.
            self.release(piece, count=count)


class RecordedLogConsumer(RecordedConsumer, LogConsumer):
    """One attached consumer of a subscription with a history."""
