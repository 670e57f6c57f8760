"""The statistics log: a line for each producer and consumer that did anything, at a fixed interval.

The rule: rates cover the interval, so that a line says what happened since the one before; idle
producers and consumers are left out. Latencies cover all messages so far.
"""

from collections.abc import Callable, Iterable
from logging import getLogger
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from arneb_pulsar.client.statistics import ConsumerStatistics, ProducerStatistics

LOG: Final = getLogger("arneb_pulsar.client.statistics")

INTERVAL_S: Final = 60.0
"""The interval, as in Java's client."""

Statistics = ProducerStatistics | ConsumerStatistics


class Measured(Protocol):
    """Something that has statistics."""

    def statistics(self) -> Statistics: ...


class StatisticsLog:
    """The last logged statistics of each, and when they were logged."""

    def __init__(self, measured: Callable[[], Iterable[Measured]], now: float) -> None:
        self._measured = measured
        self._said_at = now
        self._before: WeakKeyDictionary[Measured, Statistics] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"<StatisticsLog of {len(self._before)} since {self._said_at:.0f}>"

    def write(self, now: float) -> None:
        """Log what happened since the last call."""
        elapsed_s = max(now - self._said_at, 0.001)
        self._said_at = now
        for each in self._measured():
            found, before = each.statistics(), self._before.get(each)
            self._before[each] = found
            if isinstance(found, ProducerStatistics):
                self._say_producer(each, found, before, elapsed_s)
            else:
                self._say_consumer(each, found, before, elapsed_s)

    @staticmethod
    def _say_producer(
        who: Measured, found: ProducerStatistics, before: Statistics | None, elapsed_s: float
    ) -> None:
        sent, size, failed = found.messages_sent, found.bytes_sent, found.messages_failed
        if isinstance(before, ProducerStatistics):
            sent -= before.messages_sent
            size -= before.bytes_sent
            failed -= before.messages_failed
        if sent or failed:
            LOG.info(
                "%r: sent %.1f messages/s, %.3f MB/s, %d failed, %d pending; receipts within"
                " %.1f ms (half), %.1f ms (99 %%), %.1f ms (99.9 %%)",
                who,
                sent / elapsed_s,
                size / elapsed_s / 1e6,
                failed,
                found.messages_pending,
                found.latency_s_p50 * 1e3,
                found.latency_s_p99 * 1e3,
                found.latency_s_p999 * 1e3,
            )

    @staticmethod
    def _say_consumer(
        who: Measured, found: ConsumerStatistics, before: Statistics | None, elapsed_s: float
    ) -> None:
        received, size = found.messages_received, found.bytes_received
        acknowledged, failed = found.messages_acknowledged, found.ack_failures
        redelivered = found.messages_redelivered
        if isinstance(before, ConsumerStatistics):
            received -= before.messages_received
            size -= before.bytes_received
            acknowledged -= before.messages_acknowledged
            failed -= before.ack_failures
            redelivered -= before.messages_redelivered
        if received or acknowledged or failed or redelivered:
            LOG.info(
                "%r: %d in the local queue; received %.1f messages/s, %.3f MB/s, acknowledged"
                " %.1f/s, %d failed, %d redelivered",
                who,
                found.messages_queued,
                received / elapsed_s,
                size / elapsed_s / 1e6,
                acknowledged / elapsed_s,
                failed,
                redelivered,
            )
