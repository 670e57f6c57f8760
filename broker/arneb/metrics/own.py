"""Arneb's own metrics: the engine, its topics and subscriptions.

The rule: a figure has the name of the statistics' field, so it has one name in the code, in
``/api/topics`` and on the screen.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Final

from prometheus_client import ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as LibraryMetric
from prometheus_client.registry import Collector

from arneb import __version__
from arneb.metrics.text import LINES_PER_PART, Metric, labelled, page_of, samples
from arneb.monitoring.alarms import AlarmStatistics
from arneb_core.api.statistics import EngineStatistics, Histogram
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.api.topics.statistics import TopicStatistics


@dataclass(frozen=True, slots=True)
class Figure:
    """One field of a statistics class, and how it is shown.

    A field that ends in ``_total`` only ever grows while the broker runs: a counter.
    """

    field: str
    help: str

    def family(self, prefix: str, labels: Sequence[str]) -> CounterMetricFamily | GaugeMetricFamily:
        """The empty family of this figure."""
        kind = CounterMetricFamily if self.field.endswith("_total") else GaugeMetricFamily
        return kind(f"{prefix}_{self.field}", self.help, labels=labels)


ENGINE_FIGURES: Final = (
    Figure("commits_total", "Commits to disk since the broker started"),
    Figure("entries_total", "Entries committed since the broker started"),
    Figure("commit_failures_total", "Commits that failed since the broker started"),
    Figure("waiting_bytes", "Bytes of entries waiting to be committed"),
    Figure("cache_bytes", "Bytes of recent entries cached in memory"),
    Figure("store_bytes", "Size of the data file in bytes"),
    Figure("cache_reads_total", "Runs of entries that were in memory when they were wanted"),
    Figure("reads_total", "Reads of the data file for entries that were not in memory"),
    Figure("read_entries_total", "Entries that were read from the data file"),
    Figure("read_failures_total", "Reads of the data file that failed; they are tried again"),
    Figure("journal_direct", "1 while small commits are written past the page cache"),
    Figure("full", "1 while the disk is full: publishing is refused, consuming continues"),
)

READER_FIGURES: Final = (
    Figure("age_s", "Seconds that a process has been reading the store in one transaction"),
    Figure("held_bytes", "Bytes of the data file that cannot be reused until that reader ends"),
)
"""The figures of every process that reads for more than a few seconds."""

TOPIC_FIGURES: Final = (
    Figure("entries", "Entries in the log"),
    Figure("messages", "Messages in the log"),
    Figure("bytes", "Bytes of entries in the log"),
    Figure("ledgers", "Ledgers in the log"),
    Figure("appended_messages_total", "Messages appended since the broker started"),
    Figure("appended_bytes_total", "Bytes appended since the broker started"),
)

ALARM_FIGURES: Final = (
    Figure("memory_alarm", "1 while too much memory is used: AMQP publishers are blocked"),
    Figure("memory_used_bytes", "Bytes of memory in use, without what the kernel can reclaim"),
    Figure(
        "memory_high_watermark_bytes", "Bytes of memory in use at which the memory alarm is raised"
    ),
    Figure("disk_alarm", "1 while too little disk space is free: AMQP publishers are blocked"),
    Figure("disk_free_bytes", "Bytes free for data: of the file system and inside the data file"),
    Figure("disk_free_min_bytes", "Bytes free for data below which the disk alarm is raised"),
)

SUBSCRIPTION_FIGURES: Final = (
    Figure("consumers", "Attached consumers"),
    Figure("backlog_entries", "Entries not acknowledged yet, including those in flight"),
    Figure("ready_entries", "Entries neither acknowledged nor in flight"),
    Figure("delayed_entries", "Entries of the backlog that are not due yet (an estimate)"),
    Figure("in_flight_messages", "Messages delivered and neither acknowledged nor returned"),
    Figure("holes", "Entries acknowledged beyond the mark-delete position"),
    Figure("delivered_messages_total", "Messages delivered since the broker started"),
    Figure("acknowledged_entries_total", "Entries acknowledged since the broker started"),
    Figure("redelivered_entries_total", "Entries delivered again since the broker started"),
    Figure(
        "lost_entries_total", "Lost entries skipped since the broker started; its log names them"
    ),
)


class BrokerCollector(Collector):
    """The single figures, as Prometheus families."""

    def __init__(
        self,
        engine: EngineStatistics,
        topics: int,
        alarms: AlarmStatistics | None,
        late: Histogram | None,
    ) -> None:
        self._engine = engine
        self._topics = topics
        self._alarms = alarms
        self._late = late

    def __repr__(self) -> str:
        return f"<BrokerCollector of {self._topics} topics>"

    def collect(self) -> Iterator[LibraryMetric]:
        """Every family, each with one sample."""
        yield InfoMetricFamily("arneb_build", "The running broker", {"version": __version__})
        yield GaugeMetricFamily("arneb_topics", "Topics", value=self._topics)
        yield from _families("arneb_engine", ENGINE_FIGURES, self._engine)
        yield _histogram(
            "arneb_commit_seconds",
            "How long a commit took until it was on disk; one in eight is measured",
            self._engine.commit_s,
        )
        yield _histogram(
            "arneb_commit_entries",
            "How many entries those commits had that are measured",
            self._engine.commit_entries,
        )
        for figure in READER_FIGURES:
            family = figure.family("arneb_store_reader", ("pid", "transaction"))
            for reader in self._engine.long_readers:
                labels = (str(reader.pid), str(reader.transaction))
                family.add_metric(labels, getattr(reader, figure.field))
            yield family
        if self._alarms is not None:
            yield from _families("arneb", ALARM_FIGURES, self._alarms)
        if self._late is not None:
            yield _histogram(
                "arneb_loop_late_seconds",
                "How late the event loop was with what it was asked to do; looked at four times "
                "a second",
                self._late,
            )


def broker_figures(
    engine: EngineStatistics,
    topics: int,
    alarms: AlarmStatistics | None = None,
    late: Histogram | None = None,
) -> str:
    """Return the single figures in the text format. Safe in any thread; it reads ``/proc``."""
    return page_of([ProcessCollector(registry=None), BrokerCollector(engine, topics, alarms, late)])


def certificate_figures(expiries: Mapping[str, datetime]) -> str:
    """Return when the listeners' certificates expire, for the page of :func:`broker_figures`."""
    name = "arneb_tls_certificate_expiry_timestamp_seconds"
    lines = [
        f"# HELP {name} When the certificate that a listener shows ends, in Unix time",
        f"# TYPE {name} gauge",
        *(f"{name}{labelled(listener=each)} {at.timestamp()}" for each, at in expiries.items()),
    ]
    return "\n".join(lines) + "\n"


def topic_figures(topics: Sequence[TopicStatistics]) -> Iterator[str]:
    """Yield the topics' figures, in parts that take about a millisecond each: ten thousand topics
    have 140,000 lines."""
    of_topics: list[tuple[str, TopicStatistics]] = []
    of_subscriptions: list[tuple[str, SubscriptionStatistics]] = []
    for topic in topics:
        of_topics.append((labelled(topic=topic.name), topic))
        of_subscriptions += [
            (labelled(topic=topic.name, subscription=each.name), each)
            for each in topic.subscriptions
        ]
        if len(of_topics) % LINES_PER_PART == 0:
            yield ""
    yield from _lines("arneb_topic", TOPIC_FIGURES, of_topics)
    yield from _lines("arneb_subscription", SUBSCRIPTION_FIGURES, of_subscriptions)


def _histogram(name: str, help_: str, found: Histogram) -> HistogramMetricFamily:
    """Return a histogram for the library, which wants cumulative counts."""
    above = [*map(str, map(float, found.bounds)), "+Inf"]
    buckets = list(zip(above, accumulate(found.counts), strict=True))
    return HistogramMetricFamily(name, help_, buckets=buckets, sum_value=found.sum)


def _families(
    prefix: str, figures: Sequence[Figure], statistics: EngineStatistics | AlarmStatistics
) -> Iterator[LibraryMetric]:
    for figure in figures:
        family = figure.family(prefix, ())
        family.add_metric((), getattr(statistics, figure.field))
        yield family


def _lines(
    prefix: str,
    figures: Sequence[Figure],
    rows: Sequence[tuple[str, TopicStatistics]] | Sequence[tuple[str, SubscriptionStatistics]],
) -> Iterator[str]:
    labels = [each for each, _ in rows]
    for figure in figures:
        values = [float(getattr(statistics, figure.field)) for _, statistics in rows]
        yield from samples(Metric(figure.field, figure.help), f"{prefix}_", labels, values)
