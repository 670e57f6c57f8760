"""A consumer as the core knows it, and the sink through which the core reaches its peer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from arneb_core.api.consumers import Consumer
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.errors import CommitFailed
from arneb_core.api.position import Position
from arneb_core.api.subscriptions import Subscription
from arneb_core.api.topics import Topic
from arneb_pulsar.server.times import now_iso
from arneb_pulsar.session.effects import Acknowledge, AcknowledgeUntil, ConsumerKey
from arneb_pulsar.session.errors import Failure, failure_of
from arneb_pulsar.session.events import Acknowledged, ActiveChanged, ConsumerClosed, Delivered
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

if TYPE_CHECKING:
    from arneb_pulsar.server.peer import Peer

Receipt = Callable[[Failure | None], None]
"""Told once whether an acknowledgement is durable."""


class PeerSink:
    """Hands a consumer's deliveries to its connection (:class:`arneb_core.api.consumers.Sink`)."""

    __slots__ = ("_key", "_peer")

    def __init__(self, peer: "Peer", key: ConsumerKey) -> None:
        self._peer = peer
        self._key = key

    def deliver(self, run: Deliveries) -> None:
        """Take the run; it leaves with the connection's next flush."""
        self._peer.tell(Delivered(self._key, run))

    def active_changed(self, active: bool) -> None:
        """A failover consumer has become the active one, or is not."""
        self._peer.tell(ActiveChanged(self._key, active))

    def closed_by_core(self, reason: str) -> None:
        """The core detached the consumer."""
        self._peer.forget_consumer(self._key)
        self._peer.tell(ConsumerClosed(self._key))


@dataclass(frozen=True, slots=True)
class Receiver:
    """A consumer with the subscription and topic that it belongs to."""

    topic: Topic
    subscription: Subscription
    consumer: Consumer
    takes_any: bool = False
    """It takes messages of whatever schema."""
    compacted: bool = False
    """It reads without what a compaction found superseded."""
    since: str = field(default_factory=now_iso)
    """When it came."""

    def acknowledge(self, effect: Acknowledge, receipt: Receipt | None) -> None:
        """Acknowledge what the peer names; ``receipt`` is told when all of it is durable.

        Positions beyond the log are left out: no client can have seen them.
        """
        last = self.topic.last
        whole, partial = effect.whole, effect.partial
        if last is None:
            whole, partial = [], []
        elif whole and max(whole) > last:
            whole = [place for place in whole if place <= last]
        steps = len(partial) + 1
        done = None if receipt is None else _Countdown(steps, receipt).step
        self.consumer.acknowledge(whole, done)
        for place, mask in partial:
            if last is not None and place <= last:
                self.consumer.acknowledge_messages(place, mask, done)
            elif done is not None:
                done(None)

    def acknowledge_until(self, effect: AcknowledgeUntil, receipt: Receipt | None) -> None:
        """Acknowledge everything up to the place that the peer names."""
        if effect.place >= self.topic.next_append:
            if receipt is not None:
                receipt(Failure(pb.NotAllowedError, "Acknowledged a message that is not there"))
            return
        done = None if receipt is None else _Countdown(1, receipt).step
        self.consumer.acknowledge_until(effect.place, effect.mask, done)

    def release(self, positions: Sequence[Position] | None, *, count: bool) -> None:
        """Give entries in flight back; None = all."""
        if positions is None:
            self.consumer.release_all(count=count)
        else:
            self.consumer.release(positions, count=count)


class _Countdown:
    """Tells a receipt when the last of several steps is durable, or that one failed."""

    __slots__ = ("_failure", "_receipt", "_steps")

    def __init__(self, steps: int, receipt: Receipt) -> None:
        self._steps = steps
        self._receipt = receipt
        self._failure: Failure | None = None

    def step(self, error: CommitFailed | None) -> None:
        if error is not None:
            self._failure = failure_of(error)
        self._steps -= 1
        if not self._steps:
            self._receipt(self._failure)


def receipt_of(
    effect: Acknowledge | AcknowledgeUntil, tell: Callable[[Acknowledged], None]
) -> Receipt | None:
    """What to call when the acknowledgement is durable; None if the peer does not ask."""
    request_id = effect.request_id
    if request_id is None:
        return None
    wanted, consumer_id = request_id, effect.consumer_id
    return lambda failure: tell(Acknowledged(consumer_id, wanted, failure))
