"""A consumer as frontends see it: the machine's consumer, with a sink and the calls that wait.

The rule: waiting is done here, decisions are made in :mod:`arneb_core.subscription`. A consumer
that leaves gives back its entries in flight in log order, at most :data:`PLACES_PER_TURN` in a
turn: there may be millions.
"""

from itertools import islice
from typing import Final, Protocol

import trio
from pyroaring import BitMap64

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import SubscriptionFenced
from arneb_core.api.nodes.lease import Lease
from arneb_core.api.subscriptions.consumer import ConsumerSpec, Sink
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.windows import UnackedWindow
from arneb_core.engine.subscriptions.ranged_sink import RangedSink
from arneb_core.subscription.consumers.consumer import Answering, AttachedConsumer
from arneb_core.subscription.consumers.recorded import RecordedConsumer

PLACES_PER_TURN: Final = 8_192
"""Places given back in one turn: some 2 ms."""


class Leased(Protocol):
    """What a consumer asks of its engine."""

    @property
    def lease(self) -> Lease:
        """While it does not hold, no client gets a message."""


class Waits(Protocol):
    """What a consumer asks of its subscription."""

    @property
    def durable(self) -> bool:
        """The cursor outlives the process."""

    @property
    def engine(self) -> Leased:
        """The engine of this subscription."""

    async def pull_for(self, consumer: "LogConsumer") -> Deliveries | None:
        """Take one message outside permits; None when nothing is ready."""


class NoSink:
    """The sink of a consumer that holds dead letters: it is never assigned anything."""

    def deliver(self, run: Deliveries) -> None:
        raise AssertionError("it has no permits")

    def active_changed(self, active: bool) -> None:
        """Ignore it: the holder never asks."""

    def closed_by_core(self, reason: str) -> None:
        """Ignore it: the holder ends with its subscription."""


NO_SINK: Final = NoSink()


class LogConsumer(AttachedConsumer):
    """One attached consumer (:class:`arneb_core.api.subscriptions.consumer.Consumer`)."""

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
        """Take one message outside permits and windows; see the interface."""
        run, lease = await self.subscription.pull_for(self), self.subscription.engine.lease
        if not lease.holds and not await lease.held():
            raise SubscriptionFenced(f"{self.subscription!r} is led by another node")
        return run

    async def give_back(self, *, count: bool) -> None:
        """Give back what is in flight, in turns, if it is too much for one turn; see the interface.
        The consumer keeps its role until it detaches: until then nobody takes its place on an
        exclusive or failover subscription."""
        if self.entries_in_flight <= PLACES_PER_TURN:
            return
        self.writable = False
        positions, ordered = [*self.whole, *self.masks], BitMap64()
        # Sorted and released piece by piece: 2 million at once would take a third of a second.
        while positions:
            await trio.lowlevel.checkpoint()
            ordered.update(positions[-PLACES_PER_TURN:])
            del positions[-PLACES_PER_TURN:]
        rest = iter(ordered)
        while piece := [Position(each) for each in islice(rest, PLACES_PER_TURN)]:
            await trio.lowlevel.checkpoint()
            # Places answered meanwhile are not in flight any more and are skipped.
            self.release(piece, count=count)


class RecordedLogConsumer(RecordedConsumer, LogConsumer):
    """One attached consumer of a subscription with a history."""
