"""The consumers of one connection: their requests to the core, and the core's deliveries to them.

The rule: a consumer is here from its attachment until the core or the client lets it go, or the
connection ends; commands for one that is not here are dropped.
"""

from collections.abc import Callable
from itertools import islice

from arneb_core.api.errors import CommitFailed, CoreError
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_pulsar.names import RESERVED_SUBSCRIPTIONS
from arneb_pulsar.server.numbering import NumberedSink
from arneb_pulsar.services.clients.connections import ClientConnection
from arneb_pulsar.services.clients.consumers import ClientConsumer
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.operations.topic_lifecycle import tell_if_ended
from arneb_pulsar.session.errors import Failure, failure_of
from arneb_pulsar.session.interface.assigned import NOWHERE, Assigned
from arneb_pulsar.session.interface.effects import (
    Acknowledge,
    AcknowledgeUntil,
    AddPermits,
    ConsumerKey,
    DetachConsumer,
    Redeliver,
)
from arneb_pulsar.session.interface.events import (
    Acknowledged,
    ActiveChanged,
    ConsumerClosed,
    Delivered,
)
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

Receipt = Callable[[Failure | None], None]
"""Called once, when an acknowledgement is durable or has failed."""


class ConnectionConsumers:
    """Carries out what a connection's consumers ask for
    (:class:`arneb_pulsar.services.clients.consumers.ConsumerOwner`)."""

    def __init__(self, context: BrokerContext, connection: ClientConnection) -> None:
        self._context = context
        self._connection = connection
        self._by_key: dict[ConsumerKey, ClientConsumer] = {}
        self._throttled = context.dispatch_throttles.by_topic
        self._numbered: dict[ConsumerKey, NumberedSink] = {}
        """The sinks of consumers whose clients are told message numbers."""

    def __repr__(self) -> str:
        return f"<ConnectionConsumers: {len(self._by_key)}>"

    # Coming and going

    def add(self, attached: ClientConsumer) -> None:
        """Add an attached consumer."""
        self._by_key[attached.key] = attached
        self._context.consumers.add(attached)

    def number(self, key: ConsumerKey, sink: NumberedSink) -> None:
        """Note that the consumer gets its deliveries through ``sink``."""
        self._numbered[key] = sink

    def find(self, key: ConsumerKey) -> ClientConsumer | None:
        """Return the consumer of that key, if it is still there."""
        return self._by_key.get(key)

    def detach(self, effect: DetachConsumer) -> None:
        """Detach a consumer."""
        attached = self._by_key.get(effect.key)
        if attached is not None:
            attached.consumer.detach()
            self._forget(effect.key)

    def detach_all(self) -> None:
        """Detach all consumers: the connection ends."""
        self.detach_some(len(self._by_key))

    def detach_some(self, count: int) -> bool:
        """Detach up to ``count`` consumers; return True when none is left."""
        for key, attached in list(islice(self._by_key.items(), count)):
            attached.consumer.detach()
            self._forget(key)
        return not self._by_key

    def closed(self, key: ConsumerKey, assigned: Assigned = NOWHERE) -> None:
        """Forget a detached consumer and tell its client, which may subscribe again, here or at the
        ``assigned`` broker."""
        self._forget(key)
        self._connection.tell(ConsumerClosed(key, assigned))

    def _forget(self, key: ConsumerKey) -> None:
        """Forget a detached consumer; with a subscription's last one, also its redelivery counts,
        as Pulsar's brokers do."""
        if (numbered := self._numbered.pop(key, None)) is not None:
            numbered.drop()
        attached = self._by_key.pop(key, None)
        if attached is not None:
            subscription = attached.subscription
            self._context.consumers.remove(attached)
            if not subscription.consumers and subscription.name not in RESERVED_SUBSCRIPTIONS:
                subscription.forget_counts()

    # What they ask for

    def flow(self, effect: AddPermits) -> None:
        """Grant a consumer more messages."""
        attached = self._by_key.get(effect.key)
        if attached is not None:
            if attached.topic.id in self._throttled:
                self._context.dispatch_throttles.grant(attached, effect.permits)
            else:
                attached.consumer.flow(effect.permits)

    def acknowledge(self, effect: Acknowledge) -> None:
        """Acknowledge what the client names, and tell it when all of it is durable, if it asks.

        Positions beyond the log are left out: no client can have seen them.
        """
        attached = self._by_key.get(effect.key)
        if attached is None:
            return
        receipt = None if effect.request_id is None else self._receipt_of(effect)
        topic, consumer = attached.topic, attached.consumer
        last = topic.last
        attached.counts.acks += len(effect.whole) + len(effect.partial)
        whole, partial = effect.whole, effect.partial
        if last is None:
            whole, partial = [], []
        elif whole and max(whole) > last:
            whole = [position for position in whole if position <= last]
        done = None if receipt is None else _Countdown(len(partial) + 1, receipt).step
        consumer.acknowledge(whole, done)
        for position, mask in partial:
            if last is not None and position <= last:
                consumer.acknowledge_messages(position, mask, done)
            elif done is not None:
                done(None)
        if topic.id in self._context.namespaces.ended:
            tell_if_ended(self._context, topic, attached.subscription)

    def acknowledge_until(self, effect: AcknowledgeUntil) -> None:
        """Acknowledge everything up to the place that the client names."""
        attached = self._by_key.get(effect.key)
        if attached is None:
            return
        receipt = None if effect.request_id is None else self._receipt_of(effect)
        attached.counts.acks += 1
        try:
            _acknowledge_until(attached, effect, receipt)
        except CoreError as error:
            if receipt is not None:
                receipt(failure_of(error))
        if attached.topic.id in self._context.namespaces.ended:
            tell_if_ended(self._context, attached.topic, attached.subscription)

    def redeliver(self, effect: Redeliver) -> None:
        """Give entries in flight back."""
        attached = self._by_key.get(effect.key)
        if attached is None:
            return
        if effect.count:
            asked = effect.positions
            in_flight = attached.consumer.in_flight
            attached.counts.redelivered += in_flight if asked is None else len(asked)
        if effect.positions is None:
            numbered = self._numbered.get(effect.key)
            # Messages that were never sent to its client have cost it no permits.
            unheard = 0 if numbered is None else numbered.drop()
            attached.consumer.release_all(count=effect.count)
            if unheard:
                attached.consumer.flow(unheard)
        else:
            attached.consumer.release(effect.positions, count=effect.count)

    def _receipt_of(self, effect: Acknowledge | AcknowledgeUntil) -> Receipt:
        """Return what to call when the acknowledgement is durable, or has failed."""
        tell, consumer_id, request_id = self._connection.tell, effect.consumer_id, effect.request_id
        assert request_id is not None, "the client asks for no receipt"
        return lambda failure: tell(Acknowledged(consumer_id, request_id, failure))

    # Back-pressure

    def set_writable(self, *, writable: bool) -> None:
        """Let consumers get deliveries, or stop that while the connection is full."""
        for attached in self._by_key.values():
            consumer = attached.consumer
            if consumer.writable is not writable:
                consumer.writable = writable
                if writable:
                    consumer.wake()


class ConnectionSink:
    """Hands a consumer's deliveries to its connection; see
    :class:`arneb_core.api.subscriptions.consumer.Sink`."""

    __slots__ = ("_connection", "_consumers", "_key")

    def __init__(
        self, connection: ClientConnection, consumers: ConnectionConsumers, key: ConsumerKey
    ) -> None:
        self._connection = connection
        self._consumers = consumers
        self._key = key

    def __repr__(self) -> str:
        return f"<ConnectionSink of consumer {self._key} by {self._connection.address}>"

    def deliver(self, run: Deliveries) -> None:
        """Take the run; it leaves with the connection's next flush."""
        self._connection.tell(Delivered(self._key, run))

    def active_changed(self, active: bool) -> None:
        """Tell the client whether its failover consumer is the active one."""
        self._connection.tell(ActiveChanged(self._key, active))

    def closed_by_core(self, reason: str) -> None:
        """Tell the client that the core detached the consumer."""
        self._consumers.closed(self._key)


class _Countdown:
    """Calls a receipt when the last of several steps is durable or has failed."""

    __slots__ = ("_failure", "_receipt", "_steps")

    def __init__(self, steps: int, receipt: Receipt) -> None:
        self._steps = steps
        self._receipt = receipt
        self._failure: Failure | None = None

    def __repr__(self) -> str:
        return f"<_Countdown {self._steps} steps left, {self._failure or 'none failed'}>"

    def step(self, error: CommitFailed | None) -> None:
        """Note that one more step is durable, or has failed."""
        if error is not None:
            self._failure = failure_of(error)
        self._steps -= 1
        if not self._steps:
            self._receipt(self._failure)


def _acknowledge_until(
    attached: ClientConsumer, effect: AcknowledgeUntil, receipt: Receipt | None
) -> None:
    """Acknowledge cumulatively. Raises :class:`CoreError` where the core refuses it."""
    if effect.position >= attached.topic.next_append:
        if receipt is not None:
            receipt(Failure(pb.NotAllowedError, "Acknowledged a message that is not there"))
        return
    done = None if receipt is None else _Countdown(1, receipt).step
    attached.consumer.acknowledge_until(effect.position, effect.mask, done)
