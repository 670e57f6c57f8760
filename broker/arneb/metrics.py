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

from arneb_core.interface import SubscriptionStatistics, TopicStatistics

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


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


TOPIC_FIGURES: Final = (
    Figure("entries", "Entries that the log still holds"),
    Figure("messages", "Messages that the log still holds"),
    Figure("bytes", "Bytes of entries that the log still holds"),
    Figure("ledgers", "Ledgers that the log still holds"),
    Figure("appended_messages_total", "Messages appended since the broker started"),
)

SUBSCRIPTION_FIGURES: Final = (
    Figure("consumers", "Consumers attached"),
    Figure("backlog_entries", "Entries not acknowledged, in flight or not"),
    Figure("ready_entries", "Entries neither acknowledged nor in flight"),
    Figure("in_flight_messages", "Messages delivered and neither acknowledged nor given back"),
    Figure("holes", "Entries acknowledged beyond the mark-delete position"),
    Figure("delivered_messages_total", "Messages delivered since the broker started"),
    Figure("acknowledged_entries_total", "Entries acknowledged since the broker started"),
    Figure("redelivered_entries_total", "Entries delivered again since the broker started"),
)


class TopicCollector(Collector):
    """One snapshot of all topics, as Prometheus families."""

    def __init__(self, topics: Sequence[TopicStatistics]) -> None:
        self._topics = topics

    def collect(self) -> Iterator[Metric]:
        """Every family, each with one sample a topic or subscription."""
        yield InfoMetricFamily("arneb_build", "The running broker", {"version": version("arneb")})
        yield GaugeMetricFamily("arneb_topics", "Topics", value=len(self._topics))
        topics = [((topic.name,), topic) for topic in self._topics]
        yield from _families("arneb_topic", ("topic",), TOPIC_FIGURES, topics)
        subscriptions = [
            ((topic.name, subscription.name), subscription)
            for topic in self._topics
            for subscription in topic.subscriptions
        ]
        labels = ("topic", "subscription")
        yield from _families("arneb_subscription", labels, SUBSCRIPTION_FIGURES, subscriptions)


def exposition(topics: Sequence[TopicStatistics]) -> bytes:
    """The page, in the text format of :data:`CONTENT_TYPE`. Safe in any thread."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(TopicCollector(topics))
    page: bytes = _generate_latest(registry)
    return page


def _families(
    prefix: str,
    labels: Sequence[str],
    figures: Sequence[Figure],
    rows: Sequence[tuple[Sequence[str], TopicStatistics | SubscriptionStatistics]],
) -> Iterator[Metric]:
    for figure in figures:
        family = figure.family(prefix, labels)
        for values, statistics in rows:
            family.add_metric(values, getattr(statistics, figure.field))
        yield family
