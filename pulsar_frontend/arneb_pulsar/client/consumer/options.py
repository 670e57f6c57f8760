"""Options of consumers, checked when they are made.

The rule: what is left out is what the official clients do.
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
"""The hashes that Key_Shared ranges share."""


class SubscriptionType(Enum):
    """Who gets which messages of a subscription."""

    EXCLUSIVE = pb.CommandSubscribe.Exclusive
    SHARED = pb.CommandSubscribe.Shared
    FAILOVER = pb.CommandSubscribe.Failover
    KEY_SHARED = pb.CommandSubscribe.Key_Shared

    @property
    def is_shared(self) -> bool:
        """Messages are acknowledged and redelivered one by one."""
        return self in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED)


class InitialPosition(Enum):
    """Where a subscription begins that is made."""

    LATEST = pb.CommandSubscribe.Latest
    EARLIEST = pb.CommandSubscribe.Earliest


class CryptoFailureAction(Enum):
    """What becomes of a message that cannot be decrypted."""

    FAIL = "fail"
    """It is not delivered, and comes again."""
    DISCARD = "discard"
    """It is acknowledged and not delivered."""
    CONSUME = "consume"
    """It is delivered as it is."""


@dataclass(frozen=True, slots=True)
class KeyShared:
    """What a consumer asks of a Key_Shared subscription."""

    sticky_ranges: Sequence[tuple[int, int]] = ()
    """The hashes it gets, both ends included; empty = the broker parts them by itself."""
    allow_out_of_order: bool = False
    """Deliver on when keys move to another consumer, though it may overtake what the first has."""

    def __post_init__(self) -> None:
        for start, end in self.sticky_ranges:
            if not 0 <= start <= end < HASHES:
                raise ConfigurationError(
                    f"expected a range of hashes from 0 to {HASHES - 1}, got {start} to {end}"
                )


@dataclass(frozen=True, slots=True)
class DeadLetterPolicy:
    """When a message is given up, and where it goes then."""

    redeliveries_max: int = 16
    topic: str = ""
    """Empty = ``<topic>-<subscription>-DLQ``."""
    retry_topic: str = ""
    """Empty = ``<topic>-<subscription>-RETRY``."""
    initial_subscription: str = ""
    """A subscription that is made with the dead-letter topic."""

    def __post_init__(self) -> None:
        if self.redeliveries_max < 1:
            raise ConfigurationError(
                f"expected 1 or more redeliveries, got {self.redeliveries_max}"
            )


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """How a consumer behaves, but for its topics, its subscription's name and its schema."""

    type: SubscriptionType = SubscriptionType.EXCLUSIVE
    name: str = ""
    """Shown in statistics; decides who is active in a Failover subscription."""
    initial_position: InitialPosition = InitialPosition.LATEST
    queue_size: int = QUEUE_SIZE
    """Messages that are fetched in advance; 0 = none."""
    auto_scaled_queue: bool = False
    """Begin with a short queue, and let it grow while the application empties it."""
    ack_group_s: float = 0.1
    """How long acknowledgements are gathered; 0 = not at all."""
    ack_group_max: int = 1_000
    batch_index_acks: bool = False
    """Have the broker know which messages of a batch are acknowledged."""
    ack_timeout_s: float = 0.0
    """A message that was not acknowledged for so long comes again; 0 = never."""
    ack_timeout_tick_s: float = 1.0
    ack_timeout_backoff: RedeliveryBackoff | None = None
    negative_ack_delay_s: float = 60.0
    negative_ack_backoff: RedeliveryBackoff | None = None
    negative_ack_precision_bits: int = PRECISION_BITS
    """What is negatively acknowledged waits for ticks of 2 to the power of it, in ms; all that is
    due at one tick is asked for together."""
    dead_letters: DeadLetterPolicy | None = None
    retry: bool = False
    """Consume the retry topic as well, as ``reconsume_later`` wants it."""
    priority_level: int = 0
    """0 is served first."""
    key_shared: KeyShared = field(default_factory=KeyShared)
    read_compacted: bool = False
    durable: bool = True
    start: MessageId | None = None
    """Where a subscription that is not durable begins."""
    start_inclusive: bool = False
    """Seeking to a message, and beginning at one, delivers that message."""
    start_rollback_s: int = 0
    """A reader begins with what was published so long ago, wherever it was told to."""
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    replicate_subscription_state: bool = False
    """Have clusters that replicate the topic know what is acknowledged."""
    create_topic: bool = True
    """Make the topic if there is none."""
    crypto_failure: CryptoFailureAction = CryptoFailureAction.FAIL
    chunked_pending_max: int = 10
    chunk_expire_s: float = 60.0
    """Pieces of a message that is not whole so long after they first came are acknowledged. Less
    than a producer may be cut off, in the middle of a message, loses that message."""
    chunk_ack_oldest: bool = False
    """Acknowledge the pieces of a message that is given up for others; else they come again."""
    partition_poll_s: float = 60.0
    """How often it is asked whether topics, or partitions, were added."""
    on_active: Callable[[Any, bool], None] | None = None
    """Told (consumer, is active) in a Failover subscription. What it raises is logged."""
    on_end_of_topic: Callable[[Any], None] | None = None
    """Told (consumer) once all is acknowledged of a topic that was terminated."""

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
