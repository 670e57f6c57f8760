"""Settings: what a topic is created with, how long it retains entries, how delays are kept.

The rule: the settings are stored with the topic, so whoever creates it decides for good.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

EXCLUSIVE: Final = "exclusive"
"""The property of topics that belong to one connection of one frontend, which its value names:
clients of other frontends may not append to, read or delete them."""

WITHOUT_END: Final = -1
"""In a retention: no bound on age, or on size."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a topic is created with. ``retention_*`` bound acknowledged entries: -1: no bound, 0:
    none are kept, both 0: the broker's default; an entry goes when it exceeds either bound.
    ``ledger_bytes_max``: the size at which the log begins a new ledger, the unit of retention; 0:
    the broker's default."""

    durable: bool = True
    retention_ms: int = 0
    retention_bytes: int = 0
    ledger_bytes_max: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Retention:
    """How long, and how much, acknowledged entries stay."""

    ms: int = 0
    bytes: int = 0

    def __bool__(self) -> bool:
        """Whether anything is retained."""
        return bool(self.ms or self.bytes)


NOTHING_KEPT: Final = Retention()


class TrackerKind(Enum):
    """Where the delayed index of a durable topic is kept."""

    BUCKET = "bucket"
    """On disk, except for what comes due next."""
    MEMORY = "memory"
    """In memory, rebuilt from the log at every start."""


@dataclass(frozen=True, slots=True)
class DelayedSettings:
    """How the broker tracks delayed messages."""

    tracker: TrackerKind = TrackerKind.BUCKET
    """Where the index is kept: ``bucket``, on disk; or ``memory``, which needs 50 bytes per delayed
    message and is rebuilt from the log at every start."""
    tick_ms: int = 10
    """How often due messages are looked for. Unless the machine is overloaded, a message is at most
    this late."""
    seal_entries: int = 50_000
    """The number of entries in memory after which they are sealed as a bucket on disk (Pulsar's
    default)."""
    segment_entries: int = 5_000
    """The maximum number of entries in a bucket's segment (Pulsar's default)."""
    segment_ms: int = 300_000
    """The maximum time span of a segment (Pulsar's default)."""
    buckets_max: int = 32
    """The maximum number of buckets of a topic, beyond which small ones are merged. Each has a
    segment in memory."""
    bucket_entries_max: int = 2_000_000
    """Buckets with more entries are not merged."""

    def __post_init__(self) -> None:
        for name in ("tick_ms", "seal_entries", "segment_entries", "segment_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if self.buckets_max < 2:
            raise ValueError(f"expected buckets_max of at least 2, got {self.buckets_max}")


DEFAULT_DELAYS: Final = DelayedSettings()
