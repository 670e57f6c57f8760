"""A tracker: what every index of a topic's delayed entries can do.

The rule: an index belongs to the topic, not to a subscription. It knows positions and times, never
entries; it hands nothing out and takes nothing away by itself, but answers "what comes due behind
this place?" for each subscription anew. The name is Pulsar's (``DelayedDeliveryTracker``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from pyroaring import BitMap64

from arneb_core.api.errors import StoreFailed
from arneb_core.api.position import Position
from arneb_core.store.due_key import DueKey

NEVER_MS: Final = 1 << 63

Told = Callable[[StoreFailed | None], None]
"""Called when an answer can be had, or why it cannot."""


class TrackerKind(Enum):
    """Where the index of a durable topic is kept."""

    BUCKET = "bucket"
    """On disk, but for what comes due next."""
    MEMORY = "memory"
    """In memory, made anew from the log at every start."""


@dataclass(frozen=True, slots=True)
class DelayedSettings:
    """How delayed entries are kept track of.

    ``seal_entries``: so many in memory are sealed as a bucket (Pulsar's 50,000).
    ``segment_entries``, ``segment_ms``: what a segment holds at the most (Pulsar's 5,000 and five
    minutes). ``buckets_max``: with more buckets, the small ones are merged (Pulsar has no limit by
    default; here each costs a segment in memory). ``bucket_entries_max``: a bucket that is larger
    is merged no more.
    """

    tracker: TrackerKind = TrackerKind.BUCKET
    tick_ms: int = 10
    seal_entries: int = 50_000
    segment_entries: int = 5_000
    segment_ms: int = 300_000
    buckets_max: int = 32
    bucket_entries_max: int = 2_000_000

    def __post_init__(self) -> None:
        for name in ("tick_ms", "seal_entries", "segment_entries", "segment_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} of at least 1, got {getattr(self, name)}")
        if self.buckets_max < 2:
            raise ValueError(f"expected buckets_max of at least 2, got {self.buckets_max}")


DEFAULT_DELAYS: Final = DelayedSettings()


@dataclass(frozen=True, slots=True)
class Reading:
    """What comes due behind a place."""

    keys: Sequence[DueKey]
    """In order, without gaps from the place on."""
    next_ms: int
    """Not before this is there anything more; a time that has come = at once."""


class DelayedDeliveryTracker(Protocol):
    """The index of one topic's delayed entries."""

    @property
    def members(self) -> BitMap64:
        """The positions of all entries in the index; one object for as long as the index lives.
        Whoever reads the log passes over them."""
        ...

    @property
    def buckets(self) -> int:
        """How many sealed parts it has."""
        ...

    def add(self, keys: Sequence[DueKey], through: Position, *, rolled: bool) -> int:
        """Take in entries that were committed just now, the log being looked through up to
        ``through``. What is due already is left out: it is as good as not delayed. ``rolled``: a
        ledger was closed. Returns the first time of those taken in, :data:`NEVER_MS` if none
        was."""
        ...

    def read(self, place: DueKey, until_ms: int, limit: int, told: Told) -> Reading | None:
        """At most ``limit`` keys behind ``place`` that come due up to ``until_ms``; None while that
        is being read, and then ``told`` is called when it is worth asking again."""
        ...

    def count_due(self, place: DueKey, until_ms: int) -> int:
        """About how many keys lie behind ``place`` and come due up to ``until_ms``."""
        ...

    def passed(self, place: DueKey, after: Position) -> None:
        """No subscription wants a key up to ``place`` whose entry stands up to ``after``."""
        ...

    def set_back(self) -> None:
        """The clock was set back, and every subscription reads from the beginning."""
        ...

    def log_trimmed(self, floor: Position) -> None:
        """The log has nothing up to ``floor`` any more."""
        ...
