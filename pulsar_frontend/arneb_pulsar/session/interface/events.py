"""Events: what the server reports to a session.

The counterpart of :mod:`.effects`; each answers one of those, unless it says "Unasked".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from arneb_core.api.entries.ledger_ids import AS_COUNTED, LedgerIds
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CoreError
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_pulsar.authorization.callers import NOBODY, Caller
from arneb_pulsar.names import TopicName
from arneb_pulsar.schemas.schema import Version
from arneb_pulsar.session.errors import Failure
from arneb_pulsar.session.interface.assigned import NOWHERE, Assigned
from arneb_pulsar.session.interface.effects import AppendRun, ConsumerKey, ProducerKey
from arneb_pulsar.session.interface.pending_sends import PendingSends
from arneb_pulsar.transactions.states import TransactionId
from arneb_pulsar.wire.proto.pulsar_pb2 import BaseCommand


@dataclass(frozen=True, slots=True)
class ProducerOpened:
    """The producer may send; ``name`` is the one it asked for, or the one chosen for it."""

    key: ProducerKey
    name: str
    epoch: int | None = None
    """The topic's epoch, if it ever had an exclusive producer."""
    last_sequence_id: int = -1
    """The highest one stored of this producer, with deduplication on; -1 = none."""
    schema_version: bytes = b""


@dataclass(frozen=True, slots=True)
class ProducerQueued:
    """The producer waits to be exclusive; ``ProducerOpened`` follows at its turn."""

    key: ProducerKey
    name: str


@dataclass(frozen=True, slots=True)
class ProducerRefused:
    """The producer was not made."""

    key: ProducerKey
    failure: Failure


@dataclass(frozen=True, slots=True)
class ProducerLost:
    """Unasked: another producer fenced this one out, or its turn cannot come."""

    key: ProducerKey
    failure: Failure


@dataclass(frozen=True, slots=True)
class ProducerDisconnected:
    """Unasked: the producer's topic is gone, or served elsewhere."""

    key: ProducerKey
    assigned: Assigned = NOWHERE


@dataclass(frozen=True, slots=True)
class Appended:
    """The run is durable from position ``first`` on, or nothing of it is."""

    run: AppendRun
    error: CoreError | None
    first: Position


@dataclass(frozen=True, slots=True)
class SendsSorted:
    """Unasked: some messages of a run about to be stored are refused; ``replaced`` has the new
    sends of each producer."""

    replaced: Sequence[tuple[PendingSends, list[PendingSends]]]


@dataclass(frozen=True, slots=True)
class ConsumerAttached:
    """The consumer is part of its subscription, and may be given entries."""

    key: ConsumerKey
    ledger_ids: LedgerIds = AS_COUNTED
    """Its topic's."""


@dataclass(frozen=True, slots=True)
class ConsumerRefused:
    """The consumer was not attached."""

    key: ConsumerKey
    failure: Failure


@dataclass(frozen=True, slots=True)
class Delivered:
    """Unasked: entries for a consumer."""

    key: ConsumerKey
    run: Deliveries


@dataclass(frozen=True, slots=True)
class ActiveChanged:
    """Unasked: a failover consumer gets everything from now on, or nothing."""

    key: ConsumerKey
    active: bool


@dataclass(frozen=True, slots=True)
class EndReached:
    """Unasked: the consumer's subscription has reached the end of a terminated topic."""

    key: ConsumerKey


@dataclass(frozen=True, slots=True)
class ConsumerClosed:
    """Unasked: the core detached the consumer, or its topic is served elsewhere."""

    key: ConsumerKey
    assigned: Assigned = NOWHERE


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An acknowledgement is durable, or failed. The consumer may be gone by now."""

    consumer_id: int
    request_id: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class SeekDone:
    """The subscription was reset to where the client asked, or was not."""

    key: ConsumerKey
    request_id: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """The consumer's subscription was removed, or was not."""

    key: ConsumerKey
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class LastRead:
    """The last entry of a topic; ``batch_size`` -1 = it is not a batch."""

    key: ConsumerKey
    request_id: int
    last: Position | None
    batch_size: int
    mark_delete: Position


@dataclass(frozen=True, slots=True)
class LastUnread:
    """The last entry could not be read."""

    request_id: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class ConsumerDescribed:
    """What CONSUMER_STATS is answered with."""

    key: ConsumerKey
    request_id: int
    subscription: SubscriptionStatistics
    in_flight: int
    permits: int
    is_shut_off: bool
    address: str
    connected_since: str


@dataclass(frozen=True, slots=True)
class TopicFound:
    """``failure`` None = the topic may be used here, at ``service_url``."""

    request_id: int
    lookup: bool
    service_url: str
    failure: Failure | None
    partitions: int = 0
    """0 = it is not partitioned."""
    same_way: bool = False
    """The client is to use the address it already uses: no other is known."""


@dataclass(frozen=True, slots=True)
class TopicsListed:
    """The topics of a namespace. ``known_hash``: of the list that the client has already."""

    request_id: int
    topics: Sequence[str]
    known_hash: str
    filtered: bool = False
    """They were filtered by the client's pattern."""


@dataclass(frozen=True, slots=True)
class TopicsWatched:
    """The namespace is watched; its persistent topics that match the watcher's pattern. Changes
    since they were listed have been reported already."""

    request_id: int
    watcher_id: int
    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class TopicChanged:
    """Unasked: a topic of a watched namespace came or went."""

    namespace: str
    topic: str
    came: bool


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The proof holds until that time of day; infinity if it does not expire."""

    expires_ms: float
    caller: Caller = NOBODY
    """The identity proved."""


@dataclass(frozen=True, slots=True)
class NotAuthenticated:
    """The proof was refused."""

    text: str


@dataclass(frozen=True, slots=True)
class SchemaFound:
    """``version`` None = there is no such schema."""

    request_id: int
    topic: TopicName
    version: Version | None


@dataclass(frozen=True, slots=True)
class SchemaAttached:
    """The schema has ``version``, or may not be attached."""

    request_id: int
    version: bytes
    failure: Failure | None


class TransactionRequest(Enum):
    """What was asked of the coordinator; the values are the types of the answers."""

    CONNECT = BaseCommand.TC_CLIENT_CONNECT_RESPONSE
    NEW = BaseCommand.NEW_TXN_RESPONSE
    ADD_PARTITION = BaseCommand.ADD_PARTITION_TO_TXN_RESPONSE
    ADD_SUBSCRIPTION = BaseCommand.ADD_SUBSCRIPTION_TO_TXN_RESPONSE
    END = BaseCommand.END_TXN_RESPONSE
    END_ON_PARTITION = BaseCommand.END_TXN_ON_PARTITION_RESPONSE
    END_ON_SUBSCRIPTION = BaseCommand.END_TXN_ON_SUBSCRIPTION_RESPONSE


@dataclass(frozen=True, slots=True)
class TransactionAnswered:
    """The coordinator's answer."""

    request_id: int
    kind: TransactionRequest
    transaction: TransactionId | None
    failure: Failure | None


Event = (
    ProducerOpened
    | ProducerQueued
    | ProducerRefused
    | ProducerLost
    | ProducerDisconnected
    | Appended
    | SendsSorted
    | ConsumerAttached
    | ConsumerRefused
    | Delivered
    | ActiveChanged
    | EndReached
    | ConsumerClosed
    | Acknowledged
    | SeekDone
    | Unsubscribed
    | LastRead
    | LastUnread
    | ConsumerDescribed
    | TopicFound
    | TopicsListed
    | SchemaFound
    | SchemaAttached
    | TopicsWatched
    | TopicChanged
    | Authenticated
    | NotAuthenticated
    | TransactionAnswered
)
