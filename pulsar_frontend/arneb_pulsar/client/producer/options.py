"""Options of producers, checked when they are made.

The rule: what is left out is what the official clients do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.messages import check_name, checked_properties
from arneb_pulsar.wire.metadata import BATCH_MESSAGES_MAX
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

SEND_TIMEOUT_S: Final = 30.0
PENDING_MAX: Final = 1_000
"""Messages without a receipt; the next ones wait. As Pulsar 2's clients; Java's has no bound
since."""


class AccessMode(Enum):
    """Who may produce to the topic beside this one."""

    SHARED = pb.Shared
    EXCLUSIVE = pb.Exclusive
    """Nobody; refused if there is anybody."""
    WAIT_FOR_EXCLUSIVE = pb.WaitForExclusive
    """Nobody; waits until all others are gone."""
    EXCLUSIVE_WITH_FENCING = pb.ExclusiveWithFencing
    """Nobody; throws all others out."""


@dataclass(frozen=True, slots=True)
class Batching:
    """When a batch is closed: whichever comes first."""

    messages_max: int = 1_000
    bytes_max: int = 128 * 1024
    delay_s: float = 0.01
    by_key: bool = False
    """A batch of each key, as Key_Shared subscriptions want it."""

    def __post_init__(self) -> None:
        if not 0 < self.messages_max <= BATCH_MESSAGES_MAX:
            raise ConfigurationError(
                f"expected batches of 1 to {BATCH_MESSAGES_MAX} messages, got {self.messages_max}"
            )
        if self.bytes_max <= 0 or self.delay_s < 0:
            raise ConfigurationError("expected batches of some bytes and a delay of 0 s or more")


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """How a producer behaves, but for its topic and its schema."""

    name: str = ""
    """Empty = the broker finds one. Deduplication needs one of your own."""
    initial_sequence_id: int | None = None
    """None = behind the last one that the broker knows of that name."""
    send_timeout_s: float = SEND_TIMEOUT_S
    """0 = messages wait for ever; deduplication wants that."""
    pending_max: int = PENDING_MAX
    batching: Batching | None = field(default_factory=Batching)
    chunking: bool = False
    """Messages over the broker's bound, or over ``chunk_bytes_max``, travel in pieces."""
    chunk_bytes_max: int = 0
    """The payload of a piece; 0 = as large as the broker allows."""
    access: AccessMode = AccessMode.SHARED
    properties: Mapping[str, str] = field(default_factory=dict)
    """Shown in the topic's statistics."""
    initial_subscription: str = ""
    """A subscription that is made with the topic."""

    transactions: bool = False
    """It will send in transactions: the broker makes ready for them."""

    def __post_init__(self) -> None:
        check_name(self.name)
        checked_properties(self.properties)
        if self.pending_max < 1:
            raise ConfigurationError(f"expected 1 or more pending sends, got {self.pending_max}")
        if self.send_timeout_s < 0 or self.chunk_bytes_max < 0:
            raise ConfigurationError("expected a send timeout and a chunk size of 0 or more")
        if self.initial_sequence_id is not None and self.initial_sequence_id < 0:
            raise ConfigurationError(
                f"expected an initial sequence id of 0 or more, got {self.initial_sequence_id}"
            )
