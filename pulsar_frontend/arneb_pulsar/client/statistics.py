"""Statistics: the counts of producers and consumers, and what applications see of them.

The rule: counting costs an addition; rates and percentiles are computed on request.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Final, TypeVar

BUCKETS_S: Final = tuple(0.0001 * 1.25**power for power in range(60))
"""The upper bounds of the latency buckets: 0.1 ms to 50 s, each a quarter above the last."""

TOGETHER: Final = "together"
"""The metadata key of how to combine a field's values from several parts; without it: sum."""

SLOWEST: Final = {TOGETHER: partial(max, default=0.0)}
ALL: Final = {TOGETHER: all}


class Latencies:
    """A histogram of latencies in seconds."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self._total = 0

    def __repr__(self) -> str:
        return f"<Latencies of {self._total}, median {self.percentile(0.5):.4f} s>"

    def add(self, seconds: float) -> None:
        """Count one latency."""
        self._counts[bisect_left(BUCKETS_S, seconds)] += 1
        self._total += 1

    def percentile(self, part: float) -> float:
        """Return a bound in s that ``part`` (0 to 1) of all latencies stay within; 0 if there are
        none."""
        wanted, seen = part * self._total, 0
        for index, number in enumerate(self._counts):
            seen += number
            if number and seen >= wanted:
                return BUCKETS_S[min(index, len(BUCKETS_S) - 1)]
        return 0.0


@dataclass(frozen=True, slots=True)
class ProducerStatistics:
    """A producer's counts since it was made."""

    messages_sent: int
    bytes_sent: int
    messages_stored: int
    messages_failed: int
    entries_resent: int
    messages_pending: int
    messages_per_s: float
    """The average since the producer was made."""
    bytes_per_s: float
    latency_s_p50: float = field(metadata=SLOWEST)
    """From ``send`` to the receipt."""
    latency_s_p95: float = field(metadata=SLOWEST)
    latency_s_p99: float = field(metadata=SLOWEST)
    latency_s_p999: float = field(metadata=SLOWEST)
    is_connected: bool = field(metadata=ALL)


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """A consumer's counts since it was made."""

    messages_received: int
    """Given to the application."""
    bytes_received: int
    messages_queued: int
    """In the receiver queue."""
    messages_acknowledged: int
    ack_failures: int
    messages_redelivered: int
    messages_damaged: int
    messages_per_s: float
    bytes_per_s: float
    is_connected: bool = field(metadata=ALL)


@dataclass(slots=True)
class SendCounts:
    """The counters of a producer."""

    messages: int = 0
    bytes: int = 0
    stored: int = 0
    failed: int = 0
    resent: int = 0
    latencies: Latencies = field(default_factory=Latencies)

    def __repr__(self) -> str:
        return f"<SendCounts {self.stored} of {self.messages} stored, {self.failed} failed>"

    def statistics(self, pending: int, age_s: float, is_connected: bool) -> ProducerStatistics:
        """Return the statistics of a producer made ``age_s`` ago."""
        age_s = max(age_s, 0.001)
        return ProducerStatistics(
            messages_sent=self.messages,
            bytes_sent=self.bytes,
            messages_stored=self.stored,
            messages_failed=self.failed,
            entries_resent=self.resent,
            messages_pending=pending,
            messages_per_s=self.messages / age_s,
            bytes_per_s=self.bytes / age_s,
            latency_s_p50=self.latencies.percentile(0.5),
            latency_s_p95=self.latencies.percentile(0.95),
            latency_s_p99=self.latencies.percentile(0.99),
            latency_s_p999=self.latencies.percentile(0.999),
            is_connected=is_connected,
        )


@dataclass(slots=True)
class ReceiveCounts:
    """The counters of a consumer."""

    messages: int = 0
    bytes: int = 0
    acknowledged: int = 0
    ack_failures: int = 0
    redeliveries: int = 0
    """Messages whose redelivery was requested, by the application or after a timeout."""
    damaged: int = 0
    duplicates: int = 0
    """Messages delivered again although they were acknowledged."""

    def __repr__(self) -> str:
        return f"<ReceiveCounts {self.acknowledged} of {self.messages} acknowledged>"

    def statistics(self, queued: int, age_s: float, is_connected: bool) -> ConsumerStatistics:
        """Return the statistics of a consumer made ``age_s`` ago."""
        age_s = max(age_s, 0.001)
        return ConsumerStatistics(
            messages_received=self.messages,
            bytes_received=self.bytes,
            messages_queued=queued,
            messages_acknowledged=self.acknowledged,
            ack_failures=self.ack_failures,
            messages_redelivered=self.redeliveries,
            messages_damaged=self.damaged,
            messages_per_s=self.messages / age_s,
            bytes_per_s=self.bytes / age_s,
            is_connected=is_connected,
        )


S = TypeVar("S", ProducerStatistics, ConsumerStatistics)


def together(kind: type[S], parts: Sequence[S]) -> S:
    """Combine statistics of several parts: counts are added, latencies are the slowest part's, and
    the whole is connected if all parts are."""
    ways = [(each.name, each.metadata.get(TOGETHER, sum)) for each in fields(kind)]
    values = {name: way([getattr(part, name) for part in parts]) for name, way in ways}
    return kind(**values)
