"""A queue: a topic, the subscription that AMQP's consumers share, and its declaration.

The rule: it reports its state and checks declarations against it; the set of queues is kept by
:mod:`arneb_amqp.topology.queues.queues`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from arneb_amqp.errors import ChannelException, not_implemented, queue_in_words, resource_locked
from arneb_amqp.routing.reply_to import is_reply_queue
from arneb_amqp.topology.arguments import inequivalent
from arneb_amqp.topology.broker_events import BrokerEvents
from arneb_amqp.topology.dead_letters import DeadLettering
from arneb_amqp.topology.names import SUBSCRIPTION
from arneb_amqp.topology.overflow import Overflow
from arneb_amqp.topology.policies.policies import NO_POLICY, Applied
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.topology.queues.declaration import ConnectionId, Declaration
from arneb_amqp.topology.queues.effective import effective_options
from arneb_amqp.topology.queues.options import QueueOptions, assert_same_arguments
from arneb_amqp.topology.queues.time_to_live import as_stored, changed
from arneb_amqp.topology.records import QueueRecord
from arneb_amqp.traffic import QueueTraffic, VhostTraffic
from arneb_amqp.wire.tables import Table
from arneb_core.api.entries.expiry import Ttl
from arneb_core.api.process.clock import monotonic_ms
from arneb_core.api.subscriptions.consumer import Consumer
from arneb_core.api.subscriptions.limits import Departure, Fate, Limits
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic

NO_LIMITS_APPLIED: Final = (Limits(), False)
"""The state of a subscription without limits, whose dead letters go nowhere."""


@dataclass(slots=True, eq=False)
class Queue:
    """One queue and its current state.

    ``adopted``: a Pulsar client made the topic and nobody has declared the queue, so its
    arguments are open. ``unseen``: consumers of the subscription that AMQP does not count,
    because they only serve ``basic.get`` or were cancelled with messages unanswered.
    """

    name: str
    vhost: str
    topic: Topic
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)
    """As declared, for comparison with later declarations; :attr:`options` interprets them."""
    owner: ConnectionId | None = None
    adopted: bool = False
    exclusively_consumed: bool = False
    applied: Applied = NO_POLICY
    """The policy that applies to it."""
    options: QueueOptions = field(init=False)
    """Its arguments and its policy combined."""
    ttl: Ttl = field(init=False)
    """The time to live of its messages; see :mod:`.time_to_live`."""
    applied_limits: tuple[Limits, bool] = NO_LIMITS_APPLIED
    """The limits last passed to the core."""
    dead_lettering: DeadLettering | None = None
    overflow: Overflow | None = None
    """Set once its options made it refuse messages when full."""
    used_at_ms: int = 0
    """When it was last used, other than by present consumers."""
    unseen: dict[Consumer, None] = field(default_factory=dict)
    traffic: QueueTraffic = field(default_factory=QueueTraffic)

    def __post_init__(self) -> None:
        self.options = effective_options(self.arguments, self.applied.definition)
        self.ttl = self.options.message_ttl_ms

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} in {self.vhost!r}, {self.type.value}>"

    def announce(self, events: BrokerEvents) -> None:
        """Report the new queue."""
        if events.wanted:
            shown = {
                "durable": self.durable,
                "auto_delete": self.auto_delete,
                "exclusive": self.owner is not None,
                "type": f"rabbit_{self.type.value}_queue",
            }
            events.queue_created(self.vhost, self.name, self.owner, shown, self.arguments)

    @property
    def durable(self) -> bool:
        """Whether it survives a restart of the broker."""
        return self.topic.durable

    @property
    def subscription(self) -> Subscription:
        """The subscription to which AMQP's consumers attach."""
        return self.topic.subscriptions[SUBSCRIPTION]

    @property
    def is_complete(self) -> bool:
        """Whether it has the subscription that it needs; a stream needs none of its own."""
        return self.type is QueueType.STREAM or SUBSCRIPTION in self.topic.subscriptions

    @property
    def type(self) -> QueueType:
        """Classic unless its arguments name another type."""
        return self.options.type

    @property
    def message_count(self) -> int:
        """Messages ready for delivery; of a stream, all that it keeps."""
        if self.type is QueueType.STREAM:
            return self.topic.messages
        return self.subscription.ready_messages

    @property
    def consumer_count(self) -> int:
        """The number of consumers, including Pulsar's on the same subscription. Readers of a stream
        are not counted, as in RabbitMQ."""
        if self.options.type is QueueType.STREAM:
            return 0
        there = self.topic.subscriptions[SUBSCRIPTION].consumers
        return sum(consumer not in self.unseen for consumer in there) if there else 0

    @property
    def lengths(self) -> tuple[int, int]:
        """Messages that are ready, and messages in flight; of a stream, all that it keeps."""
        if self.options.type is QueueType.STREAM:
            return self.topic.messages, 0
        subscription = self.topic.subscriptions.get(SUBSCRIPTION)
        return (0, 0) if subscription is None else subscription.lengths

    @property
    def departed(self) -> Mapping[tuple[Departure, Fate], int]:
        """Messages that left it without an acknowledgement, by reason and by what became of
        them."""
        subscription = self.topic.subscriptions.get(SUBSCRIPTION)
        return {} if subscription is None else subscription.departed

    def count_out(
        self, traffic: VhostTraffic, departed: Mapping[tuple[Departure, Fate], int]
    ) -> None:
        """Add a deleted queue, and its ``departed`` messages, to the vhost's counters."""
        traffic.queues_deleted += not is_reply_queue(self.name)
        for (reason, fate), count in departed.items():
            traffic.departed[self.type.value, reason, fate] += count

    @property
    def record(self) -> QueueRecord:
        """The queue as stored."""
        ttl = as_stored(self.ttl, QueueOptions.parse(self.arguments).message_ttl_ms)
        return QueueRecord(self.vhost, self.name, self.auto_delete, self.arguments, ttl)

    def __str__(self) -> str:
        return queue_in_words(self.name, self.vhost)

    def redeclare(self, wanted: Declaration) -> None:
        """Turn an adopted queue into what ``wanted`` describes; its policy is applied next."""
        self.arguments, self.auto_delete = wanted.arguments, wanted.auto_delete
        self.adopted = False

    def used(self) -> None:
        """Restart its expiry."""
        self.used_at_ms = monotonic_ms()

    def hold(self, applied: Applied, at_ms: int) -> bool:
        """Apply a policy from ``at_ms`` on; True if its record has changed."""
        options, ttl = effective_options(self.arguments, applied.definition), self.ttl
        if options.expires_ms != self.options.expires_ms:
            self.used_at_ms = monotonic_ms()  # the time begins now
        self.applied, self.options = applied, options
        self.ttl = changed(ttl, options.message_ttl_ms, at_ms, is_empty=self._is_empty)
        return self.ttl != ttl and self.durable and not self.adopted

    @property
    def _is_empty(self) -> bool:
        """Whether no published message is there, in flight or on its way."""
        if not self.is_complete or self.type is QueueType.STREAM or self.topic.has_incoming:
            return False
        last = self.topic.last
        return last is None or self.subscription.mark_delete >= last

    def closed(self, consumer: Consumer, *, exclusive: bool) -> None:
        """Note that the core has detached a consumer."""
        self.unseen.pop(consumer, None)
        if exclusive:
            self.exclusively_consumed = False

    async def purge(self) -> int:
        """Drop every ready message; return their number."""
        if self.type is QueueType.STREAM:
            raise not_implemented(f"queue.purge not supported by stream queues {self}")
        return await self.subscription.purge()

    def check_access(self, owner: ConnectionId) -> None:
        """Raise 405 if it is exclusive to another connection."""
        if self.owner is not None and self.owner != owner:
            raise self._locked()

    def check_equivalent(self, wanted: Declaration) -> None:
        """Raise RabbitMQ's error unless ``wanted`` describes this queue."""
        if self.owner != (wanted.owner if wanted.exclusive else None):
            raise self._locked()
        _same(self.durable, wanted.durable, "durable", str(self))
        if self.adopted:
            return
        _same(self.auto_delete, wanted.auto_delete, "auto_delete", str(self))
        assert_same_arguments(self.arguments, wanted.arguments, str(self))

    def check_conditions(self, *, if_unused: bool, if_empty: bool) -> None:
        """Raise 540 for a quorum queue, which cannot be deleted conditionally."""
        for flag, name in ((if_unused, "if-unused"), (if_empty, "if-empty")):
            if flag and self.type is QueueType.QUORUM:
                raise not_implemented(
                    f"cannot delete {self}. queue.delete operations with {name} flag set are not "
                    "supported by quorum queues"
                )

    def _locked(self) -> ChannelException:
        return resource_locked(
            f"cannot obtain exclusive access to locked {self}. It could be originally declared "
            "on another connection or the exclusive property value does not match that of the "
            "original declaration."
        )


def _same(current: bool, received: bool, name: str, resource: str) -> None:
    if current is not received:
        words = {True: "'true'", False: "'false'"}
        raise inequivalent(name, resource, words[received], words[current])
