"""The broker's single figures: the engine, alarms, and programs that read the store.

The rule: as in :mod:`.own`, a figure has the name of the statistics' field. Prometheus' library
writes them, so import this only in a thread, for a page that was asked for (:mod:`.library`).
"""

from collections.abc import Iterator, Sequence
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
from arneb.metrics.library import page_of
from arneb.metrics.text import Figure
from arneb.monitoring.alarms import AlarmStatistics
from arneb_core.api.statistics import EngineStatistics, Histogram

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
            family = _family("arneb_store_reader", figure, ("pid", "transaction"))
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


def single_figures(
    engine: EngineStatistics,
    topics: int,
    alarms: AlarmStatistics | None = None,
    late: Histogram | None = None,
) -> str:
    """Return the single figures in the text format. Safe in any thread; it reads ``/proc``."""
    return page_of([ProcessCollector(registry=None), BrokerCollector(engine, topics, alarms, late)])


def _histogram(name: str, help_: str, found: Histogram) -> HistogramMetricFamily:
    """Return a histogram for the library, which wants cumulative counts."""
    above = [*map(str, map(float, found.bounds)), "+Inf"]
    buckets = list(zip(above, accumulate(found.counts), strict=True))
    return HistogramMetricFamily(name, help_, buckets=buckets, sum_value=found.sum)


def _families(
    prefix: str, figures: Sequence[Figure], statistics: EngineStatistics | AlarmStatistics
) -> Iterator[LibraryMetric]:
    for figure in figures:
        family = _family(prefix, figure, ())
        family.add_metric((), getattr(statistics, figure.field))
        yield family


def _family(
    prefix: str, figure: Figure, labels: Sequence[str]
) -> CounterMetricFamily | GaugeMetricFamily:
    """Return the empty family of a figure."""
    kind = CounterMetricFamily if figure.field.endswith("_total") else GaugeMetricFamily
    return kind(f"{prefix}_{figure.field}", figure.help, labels=labels)
