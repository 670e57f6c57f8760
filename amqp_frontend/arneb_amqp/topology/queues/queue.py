"""A queue: a topic, the subscription that AMQP's consumers share, and what was declared.

The rule: it tells, and checks what it is compared with; which queues there are is for
:mod:`arneb_amqp.topology.queues.queues` to say.
"""

from dataclasses import dataclass, field

from arneb_amqp.errors import ChannelException, not_implemented, queue_in_words, resource_locked
from arneb_amqp.topology.arguments import inequivalent
from arneb_amqp.topology.dead_letters import DeadLettering
from arneb_amqp.topology.names import SUBSCRIPTION
from arneb_amqp.topology.overflow import Overflow
from arneb_amqp.topology.queues.declaration import ConnectionId, Declaration
from arneb_amqp.topology.queues.options import QueueOptions, QueueType, assert_same_arguments
from arneb_amqp.topology.records import QueueRecord
from arneb_amqp.wire.tables import Table
from arneb_core.api.consumers import Consumer
from arneb_core.api.subscriptions import Subscription
from arneb_core.api.topics import Topic


@dataclass(slots=True, eq=False)
class Queue:
    """One queue as it stands.

    ``adopted``: a Pulsar client made the topic and nobody has declared the queue, so its
    arguments are open. ``unseen``: consumers of the subscription that AMQP does not count,
    because they only serve ``basic.get`` or were cancelled with messages unanswered.
    """

    name: str
    vhost: str
    topic: Topic
    auto_delete: bool = False
    arguments: Table = field(default_factory=dict)
    """As declared, to be compared with later declarations; :attr:`options` says what they mean."""
    owner: ConnectionId | None = None
    adopted: bool = False
    exclusively_consumed: bool = False
    options: QueueOptions = field(init=False)
    dead_lettering: DeadLettering | None = None
    overflow: Overflow | None = None
    """It refuses what is too much."""
    used_at_ms: int = 0
    """When it was last used, other than by consumers that are there."""
    unseen: set[Consumer] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.options = QueueOptions.parse(self.arguments)

    def __repr__(self) -> str:
        return f"<Queue {self.name!r} in {self.vhost!r}, {self.type.value}>"

    @property
    def durable(self) -> bool:
        """It outlives the broker."""
        return self.topic.durable

    @property
    def subscription(self) -> Subscription:
        """Where AMQP's consumers attach."""
        return self.topic.subscriptions[SUBSCRIPTION]

    @property
    def is_complete(self) -> bool:
        """It has the subscription that it needs; a stream needs none of its own."""
        return self.type is QueueType.STREAM or SUBSCRIPTION in self.topic.subscriptions

    @property
    def type(self) -> QueueType:
        """Classic unless its arguments say something else."""
        return self.options.type

    @property
    def message_count(self) -> int:
        """Messages ready for delivery; of a stream all that it keeps."""
        if self.type is QueueType.STREAM:
            return self.topic.messages
        return self.subscription.ready_messages

    @property
    def consumer_count(self) -> int:
        """Consumers, those of Pulsar clients on the same subscription included. Nobody counts
        who reads a stream, as in RabbitMQ."""
        if self.type is QueueType.STREAM:
            return 0
        return sum(consumer not in self.unseen for consumer in self.subscription.consumers)

    @property
    def record(self) -> QueueRecord:
        """The queue as kept."""
        return QueueRecord(self.vhost, self.name, self.auto_delete, self.arguments)

    def __str__(self) -> str:
        return queue_in_words(self.name, self.vhost)

    def redeclare(self, wanted: Declaration) -> None:
        """It was adopted, and is what ``wanted`` says from now on."""
        self.arguments, self.auto_delete = wanted.arguments, wanted.auto_delete
        self.options = QueueOptions.parse(wanted.arguments)

    def closed(self, consumer: Consumer, *, exclusive: bool) -> None:
        """A consumer was detached by the core."""
        self.unseen.discard(consumer)
        if exclusive:
            self.exclusively_consumed = False

    async def purge(self) -> int:
        """Drop every message that is ready; returns how many those were."""
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
