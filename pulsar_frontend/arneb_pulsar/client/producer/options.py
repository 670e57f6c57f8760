"""Options of producers, checked when they are made.

The rule: the defaults are those of the official clients.
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
"""Messages without a receipt; further ones wait. The bound of Pulsar 2's clients; later versions of
Java's have none."""


class AccessMode(Enum):
    """Which other producers the topic may have."""

    SHARED = pb.Shared
    EXCLUSIVE = pb.Exclusive
    """None; refused if there is one."""
    WAIT_FOR_EXCLUSIVE = pb.WaitForExclusive
    """None; waits until all others are gone."""
    EXCLUSIVE_WITH_FENCING = pb.ExclusiveWithFencing
    """None; the broker closes all others."""


@dataclass(frozen=True, slots=True)
class Batching:
    """When a batch is sent: at whichever bound is reached first."""

    messages_max: int = 1_000
    bytes_max: int = 128 * 1024
    delay_s: float = 0.01
    by_key: bool = False
    """One batch for each key, as Key_Shared subscriptions need."""

    def __post_init__(self) -> None:
        if not 0 < self.messages_max <= BATCH_MESSAGES_MAX:
            raise ConfigurationError(
                f"expected batches of 1 to {BATCH_MESSAGES_MAX} messages, got {self.messages_max}"
            )
        if self.bytes_max <= 0 or self.delay_s < 0:
            raise ConfigurationError("expected batches of some bytes and a delay of 0 s or more")


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """A producer's options, apart from its topic and schema."""

    name: str = ""
    """Empty = the broker generates one. Deduplication needs a name of your own."""
    initial_sequence_id: int | None = None
    """None = the one after the last that the broker knows for this name."""
    send_timeout_s: float = SEND_TIMEOUT_S
    """0 = messages wait for ever, as deduplication needs."""
    pending_max: int = PENDING_MAX
    batching: Batching | None = field(default_factory=Batching)
    chunking: bool = False
    """Split messages over the broker's bound, or over ``chunk_bytes_max``, into chunks."""
    chunk_bytes_max: int = 0
    """The payload bytes of a chunk; 0 = as many as the broker allows."""
    access: AccessMode = AccessMode.SHARED
    properties: Mapping[str, str] = field(default_factory=dict)
    """Shown in the topic's statistics."""
    initial_subscription: str = ""
    """A subscription to make with the topic; empty = none."""

    transactions: bool = False
    """Have the broker prepare for sends in transactions."""

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
