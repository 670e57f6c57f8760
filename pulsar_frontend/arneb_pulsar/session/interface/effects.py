"""Effects: what a session asks the server to do with the core and the socket.

The counterpart of :mod:`.events`. ``key`` names one producer or consumer for as long as the
connection lives; clients reuse the protocol's own ids, but keys are never reused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NewType

from arneb_core.api.entries.ledger_ids import AS_COUNTED, LedgerIds
from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.key_sharing import KeySharing
from arneb_core.api.subscriptions.subscription import InitialPosition
from arneb_core.api.subscriptions.subscription_types import SubscriptionType
from arneb_pulsar.names import TopicName
from arneb_pulsar.packing.counts import ConsumerCounts
from arneb_pulsar.patterns import TopicPattern
from arneb_pulsar.producers.access import AccessMode
from arneb_pulsar.schemas.schema import Schema
from arneb_pulsar.session.interface.pending_sends import PendingSends
from arneb_pulsar.transactions.states import TransactionId
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandGetTopicsOfNamespace

ProducerKey = NewType("ProducerKey", int)
ConsumerKey = NewType("ConsumerKey", int)


@dataclass(frozen=True, slots=True)
class OpenProducer:
    """Find or create the topic and take the name; answered by ``ProducerOpened``, or by
    ``ProducerQueued`` first."""

    key: ProducerKey
    producer_id: int
    topic: TopicName
    name: str
    """Empty = choose one."""
    mode: AccessMode
    topic_epoch: int | None
    """The epoch that it had before, if it comes back."""
    initial_subscription: str
    schema: Schema | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    encrypted: bool = False
    """It says that it encrypts."""


@dataclass(frozen=True, slots=True)
class LeaveProducer:
    """Free the producer's name."""

    key: ProducerKey


@dataclass(slots=True)
class AppendRun:
    """Append entries to the topic of producer ``key``; answered by ``Appended``.

    A container, not a value: it is filled message by message with what one read brought for a
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
    """The sends that the entries belong to, in order."""
    transaction: TransactionId | None = None
    """The entries are part of it, and are in no log before it is committed."""
    number: int = field(default=0, compare=False)
    """Ascends along a connection."""
    ledger_ids: LedgerIds = field(default=AS_COUNTED, compare=False)
    """Those of the topic, noted by the server."""

    def __repr__(self) -> str:
        waiting = f"{len(self.bodies)} bodies, {len(self.entries)} entries"
        return f"<AppendRun of producer {self.key}, {waiting}, {self.messages} messages>"


@dataclass(frozen=True, slots=True)
class AttachConsumer:
    """Find or create topic and subscription, and attach; answered by ``ConsumerAttached``."""

    key: ConsumerKey
    topic: TopicName
    subscription: str
    type: SubscriptionType
    name: str
    priority: int
    durable: bool
    create_topic: bool
    initial: InitialPosition
    start: tuple[int, int] | None
    """Ledger id and entry id, as the client has them."""
    rollback_s: int
    compacted: bool
    """Leave out entries superseded by compaction."""
    sharing: KeySharing
    """How keys are shared out, if the type is Key_Shared. Unless consumers name ranges, the broker
    chooses between a ring and ranges of hashes."""
    properties: dict[str, str]
    subscription_properties: dict[str, str]
    schema: Schema | None = None
    reads_broker_metadata: bool = False
    """Its client reads broker metadata, where the broker sends it."""
    consumer_id: int = field(default=0, compare=False)
    """The client's number for it."""
    counts: ConsumerCounts = field(default_factory=ConsumerCounts, compare=False)
    """Where the session counts what it was sent."""


@dataclass(frozen=True, slots=True)
class DetachConsumer:
    """Leave the subscription."""

    key: ConsumerKey


@dataclass(frozen=True, slots=True)
class AddPermits:
    """The consumer takes ``permits`` more messages."""

    key: ConsumerKey
    permits: int


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Acknowledge entries and parts of batches.

    With a ``request_id``, answered by ``Acknowledged`` once durable.
    """

    key: ConsumerKey
    consumer_id: int
    whole: Sequence[Position]
    partial: Sequence[tuple[Position, int]]
    """Batches, with the mask of the messages acknowledged."""
    request_id: int | None


@dataclass(frozen=True, slots=True)
class AcknowledgeUntil:
    """Acknowledge everything up to ``position``; of a batch there, only ``mask``."""

    key: ConsumerKey
    consumer_id: int
    position: Position
    mask: int | None
    request_id: int | None


@dataclass(frozen=True, slots=True)
class AcknowledgeInTransaction:
    """Acknowledge as part of a transaction: as :class:`Acknowledge`, or everything up to ``until``;
    of a batch there, only its mask."""

    key: ConsumerKey
    consumer_id: int
    transaction: TransactionId
    whole: Sequence[Position]
    partial: Sequence[tuple[Position, int]]
    until: Position | None
    request_id: int | None


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """Begin a transaction; answered by ``TransactionAnswered``, as the next two are."""

    request_id: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class JoinTransaction:
    """Let topics, or subscriptions of topics, take part in a transaction."""

    request_id: int
    transaction: TransactionId
    partitions: Sequence[str] = ()
    subscriptions: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or abort a transaction."""

    request_id: int
    transaction: TransactionId
    commit: bool


@dataclass(frozen=True, slots=True)
class Redeliver:
    """Give back what is in flight; ``positions`` None = everything."""

    key: ConsumerKey
    positions: Sequence[Position] | None
    count: bool


@dataclass(frozen=True, slots=True)
class Seek:
    """Move the subscription; answered by ``SeekDone``. Either place or time is set."""

    key: ConsumerKey
    request_id: int
    position: Position | None
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
    """Describe a consumer; answered by ``ConsumerDescribed``."""

    key: ConsumerKey
    request_id: int


@dataclass(frozen=True, slots=True)
class FindTopic:
    """Find a topic, or whether it may be created; answered by ``TopicFound``."""

    request_id: int
    topic: TopicName
    create: bool
    """False = only an existing topic counts."""
    lookup: bool
    """Asked by LOOKUP; otherwise by PARTITIONED_METADATA."""


@dataclass(frozen=True, slots=True)
class ListTopics:
    """List the topics of a namespace; answered by ``TopicsListed``."""

    request_id: int
    namespace: str
    mode: CommandGetTopicsOfNamespace.Mode
    known_hash: str
    pattern: TopicPattern | None = None


@dataclass(frozen=True, slots=True)
class WatchTopics:
    """Watch the topics of a namespace; answered by ``TopicsWatched``, and then by ``TopicChanged``
    whenever one comes or goes."""

    request_id: int
    watcher_id: int
    namespace: str
    pattern: TopicPattern | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class UnwatchTopics:
    """Stop watching the namespace: no watcher of this connection needs it any more."""

    namespace: str


@dataclass(frozen=True, slots=True)
class Authenticate:
    """Check a proof of identity; answered by ``Authenticated`` or ``NotAuthenticated``."""

    method: str
    proof: bytes = field(repr=False)
    original: str = ""
    """The principal on whose behalf the client says it acts."""


@dataclass(frozen=True, slots=True)
class FindSchema:
    """Find a schema; answered by ``SchemaFound``."""

    request_id: int
    topic: TopicName
    number: int | None
    """None = the latest version."""


@dataclass(frozen=True, slots=True)
class AttachSchema:
    """Find or attach a schema to an existing topic; answered by ``SchemaAttached``. None = plain
    bytes follow, which have no version."""

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
