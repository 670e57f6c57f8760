"""The engine's statistics: what HTTP, metrics and tests may know of it, frozen at one instant.

The rule: immutable values, made on request.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Histogram:
    """A distribution of values. The last count is of those above all bounds."""

    bounds: tuple[float, ...]
    """Upper bounds, ascending, one for each count but the last."""
    counts: tuple[int, ...]
    sum: float


NOTHING_MEASURED: Final = Histogram((), (0,), 0.0)

READER_LIMIT_S: Final = 300.0
"""Readers of the store that take longer than this are told to start over, unless the configuration
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
