"""Options of consumers, checked when they are made.

The rule: the defaults are those of the official clients.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.messages import check_name, checked_properties
from arneb_pulsar.client.trackers.negative_acks import PRECISION_BITS, check_precision
from arneb_pulsar.client.trackers.redelivery import RedeliveryBackoff
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

QUEUE_SIZE: Final = 1_000
HASHES: Final = 65_536
"""The number of key hashes that the consumers of a Key_Shared subscription divide."""


class SubscriptionType(Enum):
    """Who gets which messages of a subscription."""

    EXCLUSIVE = pb.CommandSubscribe.Exclusive
    SHARED = pb.CommandSubscribe.Shared
    FAILOVER = pb.CommandSubscribe.Failover
    KEY_SHARED = pb.CommandSubscribe.Key_Shared

    @property
    def is_shared(self) -> bool:
        """Whether messages are acknowledged and redelivered one by one."""
        return self in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)


class InitialPosition(Enum):
    """Where a new subscription begins."""

    LATEST = pb.CommandSubscribe.Latest
    EARLIEST = pb.CommandSubscribe.Earliest


class CryptoFailureAction(Enum):
    """What to do with a message that cannot be decrypted."""

    FAIL = "fail"
    """Do not deliver it; it is redelivered later."""
    DISCARD = "discard"
    """Acknowledge it without delivering it."""
    CONSUME = "consume"
    """Deliver it encrypted."""


@dataclass(frozen=True, slots=True)
class KeyShared:
    """A consumer's settings in a Key_Shared subscription."""

    sticky_ranges: Sequence[tuple[int, int]] = ()
    """The hash ranges it gets, both ends included; empty = the broker divides the hashes."""
    allow_out_of_order: bool = False
    """When keys move to another consumer, deliver their messages at once, even if the first
    consumer still holds earlier ones."""

    def __post_init__(self) -> None:
        for start, end in self.sticky_ranges:
            if not 0 <= start <= end < HASHES:
                raise ConfigurationError(
                    f"expected a range of hashes from 0 to {HASHES - 1}, got {start} to {end}"
                )


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """After how many redeliveries a message is a dead letter, and where it goes."""

    redeliveries_max: int = 16
    topic: str = ""
    """Empty = ``<topic>-<subscription>-DLQ``."""
    retry_topic: str = ""
    """Empty = ``<topic>-<subscription>-RETRY``."""
    initial_subscription: str = ""
    """A subscription to make with the dead-letter topic; empty = none."""

    def __post_init__(self) -> None:
        if self.redeliveries_max < 1:
            raise ConfigurationError(
                f"expected 1 or more redeliveries, got {self.redeliveries_max}"
            )


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """A consumer's options, apart from its topics, subscription name and schema."""

    type: SubscriptionType = SubscriptionType.EXCLUSIVE
    name: str = ""
    """Shown in statistics; decides which consumer of a Failover subscription is active."""
    initial_position: InitialPosition = InitialPosition.LATEST
    queue_size: int = QUEUE_SIZE
    """Messages fetched in advance; 0 = none."""
    auto_scaled_queue: bool = False
    """Begin with a short queue, and let it grow to ``queue_size`` as the application empties it."""
    ack_group_s: float = 0.1
    """How long acknowledgements are gathered before they are sent; 0 = not at all."""
    ack_group_max: int = 1_000
    batch_index_acks: bool = False
    """Tell the broker which messages of a batch are acknowledged."""
    ack_timeout_s: float = 0.0
    """A message not acknowledged for this long is redelivered; 0 = never."""
    ack_timeout_tick_s: float = 1.0
    ack_timeout_backoff: RedeliveryBackoff | None = None
    negative_ack_delay_s: float = 60.0
    negative_ack_backoff: RedeliveryBackoff | None = None
    negative_ack_precision_bits: int = PRECISION_BITS
    """Redeliveries are requested at ticks of 2 to this power, in ms; all negative acknowledgements
    due at one tick share a request."""
    dead_letters: DeadLetterPolicy | None = None
    retry: bool = False
    """Consume the retry topic as well; needed for ``reconsume_later``."""
    priority_level: int = 0
    """0 is served first."""
    key_shared: KeyShared = field(default_factory=KeyShared)
    read_compacted: bool = False
    durable: bool = True
    start: MessageId | None = None
    """Where a non-durable subscription begins."""
    start_inclusive: bool = False
    """Deliver the message at ``start``, or at the place of a seek, too."""
    start_rollback_s: int = 0
    """A reader begins with what was published this many seconds ago, whatever ``start`` says."""
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    replicate_subscription_state: bool = False
    """Replicate acknowledgements to the other clusters of the topic."""
    create_topic: bool = True
    """Create the topic if it does not exist."""
    crypto_failure: CryptoFailureAction = CryptoFailureAction.FAIL
    chunked_pending_max: int = 10
    chunk_expire_s: float = 60.0
    """Chunks of a message that is still incomplete this long after its first chunk came are
    acknowledged. Choose more than the longest time for which a producer may be cut off in the
    middle of a message, or that message is lost."""
    chunk_ack_oldest: bool = False
    """Acknowledge the chunks of a message that is given up to make room for others; otherwise they
    are redelivered."""
    partition_poll_s: float = 60.0
    """How often to look for new topics or partitions."""
    on_active: Callable[[Any, bool], None] | None = None
    """Called with (consumer, is active) in a Failover subscription. What it raises is logged."""
    on_end_of_topic: Callable[[Any], None] | None = None
    """Called with (consumer) once all messages of a terminated topic are acknowledged. What it
    raises is logged."""

    def __post_init__(self) -> None:
        if self.queue_size < 0:
            raise ConfigurationError(f"expected a queue of 0 or more, got {self.queue_size}")
        if self.ack_timeout_s < 0 or self.ack_group_s < 0 or self.negative_ack_delay_s < 0:
            raise ConfigurationError("expected times of 0 s or more")
        check_precision(self.negative_ack_precision_bits)
        check_name(self.name)
        checked_properties(self.properties)
        checked_properties(self.subscription_properties)
        if self.ack_group_max < 1 or self.priority_level < 0:
            raise ConfigurationError(
                f"expected groups of 1 or more acknowledgements and a priority of 0 or more, got "
                f"{self.ack_group_max} and {self.priority_level}"
            )
        if self.start_rollback_s < 0 or self.partition_poll_s <= 0:
            raise ConfigurationError(
                f"expected a start 0 s ago or more and a poll of more than 0 s, got "
                f"{self.start_rollback_s} s and {self.partition_poll_s} s"
            )
        if self.read_compacted and self.type.is_shared:
            raise ConfigurationError("expected an Exclusive or Failover consumer to read compacted")
        if self.retry and not self.type.is_shared:
            raise ConfigurationError("expected a Shared or Key_Shared consumer for a retry topic")
