"""Effects: what a session asks the server to do with the core and the socket.

The counterpart of :mod:`arneb_pulsar.session.events`. ``key`` names one producer or consumer
for as long as the connection lives; the protocol's own ids are used again, keys are not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType

from arneb_core.api.key_sharing import KeySharing
from arneb_core.api.position import Position
from arneb_core.api.subscription_types import SubscriptionType
from arneb_core.api.subscriptions import InitialPosition
from arneb_pulsar.names import TopicName
from arneb_pulsar.packing.counts import ConsumerCounts
from arneb_pulsar.patterns import TopicPattern
from arneb_pulsar.producers.access import AccessMode
from arneb_pulsar.schemas.schema import Schema
from arneb_pulsar.session.pending_sends import PendingSends
from arneb_pulsar.transactions.states import TransactionId
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandGetTopicsOfNamespace

ProducerKey = NewType("ProducerKey", int)
ConsumerKey = NewType("ConsumerKey", int)


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """Find or make the topic and take the name; answered by ``ProducerOpened``, or by
    ``ProducerQueued`` first."""

    key: ProducerKey
    producer_id: int
    topic: TopicName
    name: str
    """Empty = find one."""
    mode: AccessMode
    topic_epoch: int | None
    """The one that it had before, if it comes back."""
    initial_subscription: str
    schema: Schema | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    encrypted: bool = False
    """It says that it encrypts."""


@dataclass(frozen=True, slots=True)
class LeaveProducer:
    """Give the producer's name free."""

    key: ProducerKey


@dataclass(slots=True)
class AppendRun:
    """Append entries to the topic of producer ``key``; answered by ``Appended``.

    A container, not a value: it is filled message by message with what one receive brought for a
    topic, in one transaction or in none.
    """

    key: ProducerKey
    bodies: list[bytes] = field(default_factory=list)
    entries: list[bytes] = field(default_factory=list)
    messages: int = 0
    """In all of ``entries``."""
    delayed: bool = False
    """Some of ``entries`` are to be delivered later."""
    sends: list[PendingSends] = field(default_factory=list)
    """Whose the entries are, in their order."""
    transaction: TransactionId | None = None
    """They are part of it, and stand nowhere before it is committed."""
    number: int = field(default=0, compare=False)
    """It counts up along a connection."""

    def __repr__(self) -> str:
        waiting = f"{len(self.bodies)} bodies, {len(self.entries)} entries"
        return f"<AppendRun of producer {self.key}, {waiting}, {self.messages} messages>"


@dataclass(frozen=True, slots=True)
class AttachConsumer:
    """Find or make topic and subscription, and attach; answered by ``ConsumerAttached``."""

    key: ConsumerKey
    topic: TopicName
    subscription: str
    type: SubscriptionType
    name: str
    priority: int
    durable: bool
    create_topic: bool
    initial: InitialPosition
    start: Position | None
    rollback_s: int
    compacted: bool
    """Without what a compaction found superseded."""
    sharing: KeySharing
    """How keys are shared out, if the type is Key_Shared. Whether a ring or ranges of hashes do
    that is the broker's choice, unless consumers name ranges."""
    properties: dict[str, str]
    subscription_properties: dict[str, str]
    schema: Schema | None = None
    reads_broker_metadata: bool = False
    """Its client reads what the broker says of an entry, where the broker says it."""
    consumer_id: int = field(default=0, compare=False)
    """Its client's number for it."""
    counts: ConsumerCounts = field(default_factory=ConsumerCounts, compare=False)
    """Where its session counts what it was sent."""


@dataclass(frozen=True, slots=True)
class DetachConsumer:
    """Leave the subscription."""

    key: ConsumerKey


@dataclass(frozen=True, slots=True)
class AddPermits:
    """The consumer can take so many messages more."""

    key: ConsumerKey
    permits: int


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Acknowledge entries and parts of batches.

    With a ``request_id`` answered by ``Acknowledged`` once durable.
    """

    key: ConsumerKey
    consumer_id: int
    whole: Sequence[Position]
    partial: Sequence[tuple[Position, int]]
    """Batches with the mask of messages done."""
    request_id: int | None


@dataclass(frozen=True, slots=True)
class AcknowledgeUntil:
    """Acknowledge everything up to ``place``, of a batch there only ``mask``."""

    key: ConsumerKey
    consumer_id: int
    place: Position
    mask: int | None
    request_id: int | None


@dataclass(frozen=True, slots=True)
class AcknowledgeInTransaction:
    """Acknowledge as a part of a transaction: as :class:`Acknowledge`, or everything up to
    ``until``, of a batch there only its mask."""

    key: ConsumerKey
    consumer_id: int
    transaction: TransactionId
    whole: Sequence[Position]
    partial: Sequence[tuple[Position, int]]
    until: Position | None
    request_id: int | None


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """Answered by ``TransactionAnswered``, as the next two are."""

    request_id: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class JoinTransaction:
    """Topics, or subscriptions of topics, are to take part."""

    request_id: int
    transaction: TransactionId
    partitions: Sequence[str] = ()
    subscriptions: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Have all of it count, or nothing."""

    request_id: int
    transaction: TransactionId
    commit: bool


@dataclass(frozen=True, slots=True)
class Redeliver:
    """Give back what is in flight; ``positions`` None = all of it."""

    key: ConsumerKey
    positions: Sequence[Position] | None
    count: bool


@dataclass(frozen=True, slots=True)
class Seek:
    """Move the subscription; answered by ``SeekDone``. Either place or time is set."""

    key: ConsumerKey
    request_id: int
    place: Position | None
    mask: int | None
    publish_time_ms: int | None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Remove the subscription; answered by ``Unsubscribed``."""

    key: ConsumerKey
    force: bool


@dataclass(frozen=True, slots=True)
class ReadLast:
    """Find the last entry of the consumer's topic; answered by ``LastRead``."""

    key: ConsumerKey
    request_id: int


@dataclass(frozen=True, slots=True)
class DescribeConsumer:
    """Answered by ``ConsumerDescribed``."""

    key: ConsumerKey
    request_id: int


@dataclass(frozen=True, slots=True)
class FindTopic:
    """Is there such a topic, or may it be made? Answered by ``TopicFound``."""

    request_id: int
    topic: TopicName
    create: bool
    """False: only a topic that is there already counts."""
    lookup: bool
    """Asked by LOOKUP; otherwise by PARTITIONED_METADATA."""


@dataclass(frozen=True, slots=True)
class ListTopics:
    """Answered by ``TopicsListed``."""

    request_id: int
    namespace: str
    mode: CommandGetTopicsOfNamespace.Mode
    known_hash: str
    pattern: TopicPattern | None = None


@dataclass(frozen=True, slots=True)
class WatchTopics:
    """Answered by ``TopicsWatched``, and from then on by ``TopicChanged`` without end."""

    request_id: int
    watcher_id: int
    namespace: str
    pattern: TopicPattern | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class UnwatchTopics:
    """Nobody on this connection watches the namespace any more."""

    namespace: str


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Check a proof of identity; answered by ``Authenticated`` or ``NotAuthenticated``."""

    method: str
    proof: bytes = field(repr=False)
    original: str = ""
    """On whose behalf the client says to come."""


@dataclass(frozen=True, slots=True)
class FindSchema:
    """Answered by ``SchemaFound``."""

    request_id: int
    topic: TopicName
    number: int | None
    """None = the latest version."""


@dataclass(frozen=True, slots=True)
class AttachSchema:
    """Find or attach a schema, to a topic that is there; answered by ``SchemaAttached``. None =
    messages of plain bytes follow, which have no version."""

    request_id: int
    topic: TopicName
    schema: Schema | None


@dataclass(frozen=True, slots=True)
class Close:
    """Send what is waiting, then close the connection."""

    reason: str
    """For the log; empty when the client did nothing wrong."""


Effect = (
    OpenProducer
    | LeaveProducer
    | AppendRun
    | AttachConsumer
    | DetachConsumer
    | AddPermits
    | Acknowledge
    | AcknowledgeUntil
    | AcknowledgeInTransaction
    | BeginTransaction
    | JoinTransaction
    | EndTransaction
    | Redeliver
    | Seek
    | Unsubscribe
    | ReadLast
    | DescribeConsumer
    | FindTopic
    | ListTopics
    | FindSchema
    | AttachSchema
    | WatchTopics
    | UnwatchTopics
    | Authenticate
    | Close
)
