"""Metrics: statistics as a Prometheus page.

The rule: no counter is kept here. A page is made from frozen statistics when it is asked
for, so nothing on a hot path pays for being observed, and two sources cannot disagree.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector
from prometheus_client import generate_latest as _generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from arneb.alarms import AlarmStatistics
from arneb_core.api.statistics import EngineStatistics, SubscriptionStatistics, TopicStatistics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST

LINES_PER_PART: Final = 1000

ESCAPED: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
"""What stands between quotes in the text format."""


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
    Figure("full", "1 while the disk is full: publishing is refused, consuming continues"),
)

READER_FIGURES: Final = (
    Figure("age_s", "Seconds that a process has been reading the store in one transaction"),
    Figure("held_bytes", "Bytes of the data file that cannot be reused until that reader ends"),
)
"""Of every process that reads for more than a few seconds."""

TOPIC_FIGURES: Final = (
    Figure("entries", "Entries in the log"),
    Figure("messages", "Messages in the log"),
    Figure("bytes", "Bytes of entries in the log"),
    Figure("ledgers", "Ledgers in the log"),
    Figure("appended_messages_total", "Messages appended since the broker started"),
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
    """What there is one of, as Prometheus families."""

    def __init__(
        self, engine: EngineStatistics, topics: int, alarms: AlarmStatistics | None
    ) -> None:
        self._engine = engine
        self._topics = topics
        self._alarms = alarms

    def collect(self) -> Iterator[Metric]:
        """Every family, each with one sample."""
        yield InfoMetricFamily("arneb_build", "The running broker", {"version": version("arneb")})
        yield GaugeMetricFamily("arneb_topics", "Topics", value=self._topics)
        yield from _families("arneb_engine", ENGINE_FIGURES, self._engine)
        for figure in READER_FIGURES:
            family = figure.family("arneb_store_reader", ("pid", "transaction"))
            for reader in self._engine.long_readers:
                labels = (str(reader.pid), str(reader.transaction))
                family.add_metric(labels, getattr(reader, figure.field))
            yield family
        if self._alarms is not None:
            yield from _families("arneb", ALARM_FIGURES, self._alarms)


def broker_figures(
    engine: EngineStatistics, topics: int, alarms: AlarmStatistics | None = None
) -> str:
    """The first part of the page, in the text format of :data:`CONTENT_TYPE`. Safe in any
    thread; it looks into ``/proc``."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(BrokerCollector(engine, topics, alarms))
    page: bytes = _generate_latest(registry)
    return page.decode()


def topic_figures(topics: Sequence[TopicStatistics]) -> Iterator[str]:
    """The rest of it, in parts that take about a millisecond each: of ten thousand topics there are
    140,000 lines."""
    of_topics: list[tuple[str, TopicStatistics]] = []
    of_subscriptions: list[tuple[str, SubscriptionStatistics]] = []
    for topic in topics:
        of_topics.append((_labels(topic=topic.name), topic))
        of_subscriptions += [
            (_labels(topic=topic.name, subscription=each.name), each)
            for each in topic.subscriptions
        ]
        if len(of_topics) % LINES_PER_PART == 0:
            yield ""
    yield from _lines("arneb_topic", TOPIC_FIGURES, of_topics)
    yield from _lines("arneb_subscription", SUBSCRIPTION_FIGURES, of_subscriptions)


def _families(
    prefix: str, figures: Sequence[Figure], statistics: EngineStatistics | AlarmStatistics
) -> Iterator[Metric]:
    for figure in figures:
        family = figure.family(prefix, ())
        family.add_metric((), getattr(statistics, figure.field))
        yield family


def _lines(
    prefix: str,
    figures: Sequence[Figure],
    rows: Sequence[tuple[str, TopicStatistics]] | Sequence[tuple[str, SubscriptionStatistics]],
) -> Iterator[str]:
    """The families of what there are many of. Written here, for the library makes an object of
    each sample, which costs ten times as much of memory and of time."""
    for figure in figures:
        name = f"{prefix}_{figure.field}"
        kind = "counter" if figure.field.endswith("_total") else "gauge"
        yield f"# HELP {name} {figure.help}\n# TYPE {name} {kind}\n"
        for start in range(0, len(rows), LINES_PER_PART):
            yield "".join(
                f"{name}{labels} {float(getattr(statistics, figure.field))}\n"
                for labels, statistics in rows[start : start + LINES_PER_PART]
            )


def _labels(**values: str) -> str:
    texts = [f'{name}="{value.translate(ESCAPED)}"' for name, value in values.items()]
    return f"{{{','.join(texts)}}}"
