"""Arneb's own metrics: the engine, its topics and subscriptions.

The rule: a figure has the name of the statistics' field, so it has one name in the code, in
``/api/topics`` and on the screen.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import trio

from arneb.metrics.text import LINES_PER_PART, Figure, Metric, labelled, samples
from arneb.monitoring.alarms import AlarmStatistics
from arneb_core.api.statistics import EngineStatistics, Histogram
from arneb_core.api.subscriptions.statistics import SubscriptionStatistics
from arneb_core.api.topics.statistics import TopicStatistics

TOPIC_FIGURES: Final = (
    Figure("entries", "Entries in the log"),
    Figure("messages", "Messages in the log"),
    Figure("bytes", "Bytes of entries in the log"),
    Figure("ledgers", "Ledgers in the log"),
    Figure("appended_messages_total", "Messages appended since the broker started"),
    Figure("appended_bytes_total", "Bytes appended since the broker started"),
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


async def broker_figures(
    engine: EngineStatistics,
    topics: int,
    alarms: AlarmStatistics | None = None,
    late: Histogram | None = None,
) -> str:
    """Return the single figures in the text format."""
    return await trio.to_thread.run_sync(_broker_figures, engine, topics, alarms, late)


def _broker_figures(
    engine: EngineStatistics, topics: int, alarms: AlarmStatistics | None, late: Histogram | None
) -> str:
    from arneb.metrics.single_figures import single_figures  # the first page only

    return single_figures(engine, topics, alarms, late)


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


def _lines(
    prefix: str,
    figures: Sequence[Figure],
    rows: Sequence[tuple[str, TopicStatistics]] | Sequence[tuple[str, SubscriptionStatistics]],
) -> Iterator[str]:
    labels = [each for each, _ in rows]
    for figure in figures:
        values = [float(getattr(statistics, figure.field)) for _, statistics in rows]
        yield from samples(Metric(figure.field, figure.help), f"{prefix}_", labels, values)
