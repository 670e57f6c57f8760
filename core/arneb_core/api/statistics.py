"""Statistics: what HTTP, metrics and tests may know of the core, frozen at one instant.

The rule: immutable values, made on request. What administrators look at entry by entry is in
:mod:`arneb_core.api.admin`.
"""

from dataclasses import dataclass
from typing import Final

from arneb_core.api.position import Position
from arneb_core.api.subscription_types import SubscriptionType


@dataclass(frozen=True, slots=True)
class SubscriptionStatistics:
    """A subscription at one instant."""

    name: str
    type: SubscriptionType | None
    durable: bool
    consumers: int
    backlog_entries: int
    """Entries not acknowledged, in flight or not."""
    ready_entries: int
    """Entries neither acknowledged nor in flight."""
    in_flight_messages: int
    holes: int
    mark_delete: Position
    delivered_messages_total: int
    acknowledged_entries_total: int
    redelivered_entries_total: int
    unreadable: Position | None = None
    """Deliveries are stuck in front of this entry, which could not be read at the last attempt; it
    is tried again and again."""
    delayed_entries: int = 0
    """Entries of the backlog that are not due yet; approximate while some of them come due."""
    lost_entries_total: int = 0
    """Entries skipped because they are lost: the journal was damaged."""
    last_type: SubscriptionType | None = None
    """As ``type``, or its value when the last consumer left, since the broker started."""


@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """A topic at one instant. Sizes are bytes of entries, headers included."""

    name: str
    durable: bool
    entries: int
    messages: int
    bytes: int
    ledgers: int
    last: Position | None
    appended_messages_total: int
    appended_bytes_total: int
    subscriptions: tuple[SubscriptionStatistics, ...]
    appended_entries_total: int = 0
    departed_messages_total: int = 0
    """Messages delivered to subscriptions that are gone."""

    @property
    def delivered_messages_total(self) -> int:
        """Messages delivered to all subscriptions of the topic since the broker started."""
        present = sum(each.delivered_messages_total for each in self.subscriptions)
        return self.departed_messages_total + present


@dataclass(frozen=True, slots=True)
class Histogram:
    """A distribution of values. The last count is of those above all bounds."""

    bounds: tuple[float, ...]
    """Upper bounds, ascending, one for each count but the last."""
    counts: tuple[int, ...]
    sum: float


NOTHING_MEASURED: Final = Histogram((), (0,), 0.0)

READER_LIMIT_S: Final = 300.0
"""Readers of the store that take longer than this are told to begin anew, unless the configuration
sets another limit. Pages freed meanwhile cannot be reused."""


@dataclass(frozen=True, slots=True)
class LongReader:
    """A read transaction of the store that has been open for long, in whatever process."""

    pid: int
    transaction: int
    age_s: float
    held_bytes: int
    """Bytes freed since it began, which cannot be reused before it ends."""


@dataclass(frozen=True, slots=True)
class EngineStatistics:
    """The engine at one instant."""

    topics: int
    commits_total: int
    entries_total: int
    commit_failures_total: int
    waiting_bytes: int
    """Bytes that wait for a commit or are in one under way."""
    cache_bytes: int
    """Bytes of entries in all tail caches."""
    store_bytes: int
    full: bool
    """The last commit failed because the store is full."""
    read_failures_total: int = 0
    """Failed reads for subscriptions; each subscription is stuck until one succeeds."""
    long_readers: tuple[LongReader, ...] = ()
    """Readers that keep pages of the store from being reused, the oldest first."""
    cache_reads_total: int = 0
    """Runs of entries that were in memory when they were wanted."""
    reads_total: int = 0
    """Reads of the store for entries that were not in memory."""
    read_entries_total: int = 0
    """Entries that those reads returned."""
    journal_direct: bool = False
    """Small commits bypass the page cache: the file system supports it, and there has been one."""
    commit_s: Histogram = NOTHING_MEASURED
    """How long commits took, from being put together until they were on disk: of one commit in
    eight."""
    commit_entries: Histogram = NOTHING_MEASURED
    """How many entries those commits had."""
