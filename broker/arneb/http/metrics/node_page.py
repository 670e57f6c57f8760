"""The node's page of RabbitMQ's metrics: single figures, and sums over all objects.

The rule: every series exists from the start, with 0: dashboards add several, and a missing one
would empty the sum. As in RabbitMQ, a counter over all channels or connections is counted for the
whole node, so that it does not fall when one of them closes. Prometheus' library writes the page,
so import this only in a thread, for a page that was asked for (:mod:`arneb.metrics.library`).
"""

import platform
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    UntypedMetricFamily,
)
from prometheus_client.core import Metric as LibraryMetric
from prometheus_client.registry import Collector

from arneb.http.management.site import RABBITMQ_VERSION, Site
from arneb.http.metrics.families import PREFIX, TOTALS
from arneb.http.metrics.node import NodeFigures
from arneb.http.metrics.rows import of_consumed
from arneb.metrics.library import library_version, page_of
from arneb.metrics.text import Metric
from arneb_amqp.topology.queue_types import QueueType
from arneb_amqp.traffic import Consumed
from arneb_core.access.catalogue import INTERNAL_CLUSTER_ID
from arneb_core.access.records import GlobalParameter
from arneb_core.api.subscriptions.limits import Departure, Fate

AMQP: Final = "amqp091"
HTTP: Final = "http"
"""RabbitMQ's names of protocols."""

ENDPOINT: Final = "aggregated"
"""The endpoint that newer dashboards expect in a node's identity."""

TYPES: Final[Mapping[QueueType, str]] = {
    QueueType.CLASSIC: "rabbit_classic_queue",
    QueueType.QUORUM: "rabbit_quorum_queue",
    QueueType.STREAM: "rabbit_stream_queue",
}

RECEIVED: Final = (
    Metric("messages_received_total", "Total number of messages received from publishers"),
    Metric(
        "messages_received_confirm_total",
        "Total number of messages received from publishers expecting confirmations",
    ),
    Metric("messages_routed_total", "Total number of messages routed to queues or streams"),
    Metric("messages_confirmed_total", "Total number of messages confirmed to publishers"),
    Metric(
        "messages_unroutable_dropped_total",
        "Total number of messages published as non-mandatory into an exchange and dropped as "
        "unroutable",
    ),
    Metric(
        "messages_unroutable_returned_total",
        "Total number of messages published as mandatory into an exchange and returned to the "
        "publisher as unroutable",
    ),
)
"""By protocol."""

DELIVERED: Final = (
    Metric(
        "messages_delivered_get_manual_ack_total",
        "Total number of messages delivered to consumers using basic.get with manual "
        "acknowledgment",
    ),
    Metric(
        "messages_delivered_get_auto_ack_total",
        "Total number of messages delivered to consumers using basic.get with automatic "
        "acknowledgment",
    ),
    Metric(
        "messages_delivered_consume_manual_ack_total",
        "Total number of messages delivered to consumers using basic.consume with manual "
        "acknowledgment",
    ),
    Metric(
        "messages_delivered_consume_auto_ack_total",
        "Total number of messages delivered to consumers using basic.consume with automatic "
        "acknowledgment",
    ),
    Metric("messages_redelivered_total", "Total number of messages redelivered to consumers"),
    Metric("messages_acknowledged_total", "Total number of messages acknowledged by consumers"),
    Metric(
        "messages_get_empty_total",
        "Total number of times basic.get operations fetched no message",
    ),
)
"""By protocol and type of queue, in the order of :func:`.of_consumed`."""

ALL_DELIVERED: Final = Metric(
    "messages_delivered_total", "Total number of messages delivered to consumers"
)

DYING: Final = (QueueType.CLASSIC, QueueType.QUORUM)
"""The queue types with dead letters; a stream has none."""

STRATEGIES: Final = {
    "disabled": Fate.DROPPED, "at_most_once": Fate.MOVED, "at_least_once": Fate.KEPT,
}  # fmt: skip
"""The dead letter strategies, and what happens to dead letters under each."""

DEPARTED: Final = {
    Departure.EXPIRED: "Total number of messages dead-lettered due to message TTL exceeded",
    Departure.MAX_LENGTH: (
        "Total number of messages dead-lettered due to overflow drop-head or reject-publish-dlx"
    ),
    Departure.REJECTED: (
        "Total number of messages dead-lettered due to basic.reject or basic.nack"
    ),
    Departure.DELIVERY_LIMIT: (
        "Total number of messages dead-lettered due to delivery-limit exceeded"
    ),
}

TAKEN: Final = Metric(
    "messages_dead_lettered_confirmed_total",
    "Total number of messages dead-lettered and confirmed by target queues",
)

KEPT: Final = frozenset(
    (QueueType.QUORUM, reason) for reason in Departure if reason is not Departure.MAX_LENGTH
)
"""The queue types that keep their dead letters, by reason: all reasons except a full queue, which
refuses publishes instead."""

OF_DEAD_LETTERS: Final = ("queue_type", "dead_letter_strategy")

ATTEMPTS: Final = (
    Metric("auth_attempts_total", "Total number of authorization attempts"),
    Metric(
        "auth_attempts_succeeded_total",
        "Total number of successful authentication attempts",
    ),
    Metric("auth_attempts_failed_total", "Total number of failed authentication attempts"),
)


def node_page(site: Site, figures: NodeFigures) -> str:
    """Return the page. For the event loop, but the first call of :func:`.library_version` must
    have been made in a thread."""
    return page_of([NodeCollector(site, figures, library_version())])


class NodeCollector(Collector):
    """The single figures of one page, as families of the library."""

    def __init__(self, site: Site, figures: NodeFigures, library: str) -> None:
        """``library`` is the version of the library that writes the page."""
        self._site = site
        self._figures = figures
        self._library = library
        self._traffic = site.topology.traffic()

    def __repr__(self) -> str:
        return f"<NodeCollector of {self._site.node}>"

    def collect(self) -> Iterator[LibraryMetric]:
        """Yield all families."""
        site, figures = self._site, self._figures
        yield from _infos(site, self._library)
        yield from _alarms(site)
        for family, values in figures.summed:
            for metric, value in zip(family.metrics, values, strict=True):
                yield _sample(PREFIX, metric, value)
        for metric, value in zip(TOTALS, figures.totals, strict=True):
            yield _sample(PREFIX, metric, value)
        yield from _attempts(site)
        yield from self._received()
        yield from self._delivered()
        yield from self._departed()

    def _received(self) -> Iterator[LibraryMetric]:
        traffic, published = self._traffic, self._traffic.published()
        values = (
            published.published_in, traffic.to_confirm, published.published_out,
            traffic.confirmed, traffic.dropped, traffic.returned,
        )  # fmt: skip
        for metric, value in zip(RECEIVED, values, strict=True):
            yield _by_labels(metric, ("protocol",), [((AMQP,), value)])
        clients = (
            (Metric("publishers", "Publishers currently connected"), self._figures.publishers),
            (Metric("consumers", "Consumers currently connected"), self._figures.totals[2]),
        )
        for metric, value in clients:
            yield _by_labels(metric, ("protocol",), [((AMQP,), value)])

    def _delivered(self) -> Iterator[LibraryMetric]:
        labels = ("protocol", "queue_type")
        of_types = {
            TYPES[each]: self._traffic.by_type.get(each.value, Consumed()) for each in QueueType
        }
        rows = {name: of_consumed(each) for name, each in of_types.items()}
        for index, metric in enumerate(DELIVERED):
            samples = [((AMQP, name), row[index]) for name, row in rows.items()]
            yield _by_labels(metric, labels, samples)
        samples = [((AMQP, name), float(each.handed_out)) for name, each in of_types.items()]
        yield _by_labels(ALL_DELIVERED, labels, samples)

    def _departed(self) -> Iterator[LibraryMetric]:
        """Yield the dead letters by queue type, strategy (``disabled`` without a dead letter
        exchange) and reason."""
        departed = self._traffic.departed + self._figures.departed
        for reason, help_ in DEPARTED.items():
            name = f"messages_dead_lettered_{reason.value}_total"
            types = (QueueType.QUORUM,) if reason is Departure.DELIVERY_LIMIT else DYING
            samples = [
                ((TYPES[each], strategy), float(departed[each.value, reason, fate]))
                for each in types
                for strategy, fate in STRATEGIES.items()
                if fate is not Fate.KEPT or (each, reason) in KEPT
            ]
            yield _by_labels(Metric(name, help_), OF_DEAD_LETTERS, samples)
        kept = (TYPES[QueueType.QUORUM], "at_least_once")
        yield _by_labels(TAKEN, OF_DEAD_LETTERS, [(kept, float(self._traffic.kept_and_taken))])


def _infos(site: Site, library: str) -> Iterator[LibraryMetric]:
    row = site.catalogue.get(GlobalParameter, INTERNAL_CLUSTER_ID)
    build = {
        "rabbitmq_version": RABBITMQ_VERSION,
        "prometheus_plugin_version": site.version,
        "prometheus_client_version": library,
        "erlang_version": platform.python_version(),
        "product_name": "Arneb",
        "product_version": site.version,
    }
    identity = {
        "rabbitmq_node": site.node,
        "rabbitmq_cluster": site.cluster_name,
        "rabbitmq_cluster_permanent_id": "" if row is None else str(row.value),
        "rabbitmq_endpoint": ENDPOINT,
    }
    for name, help_, labels in (
        ("build_info", "RabbitMQ & Erlang/OTP version info", build),
        ("identity_info", "RabbitMQ node & cluster identity info", identity),
    ):
        family = UntypedMetricFamily(f"{PREFIX}{name}", help_, labels=tuple(labels))
        family.add_metric(tuple(labels.values()), 1)
        yield family


def _alarms(site: Site) -> Iterator[LibraryMetric]:
    alarms = site.alarms.statistics
    for name, help_, is_raised in (
        (
            "memory_used_watermark",
            "is 1 if VM memory watermark is in effect",
            alarms.memory_alarm,
        ),
        (
            "free_disk_space_watermark",
            "is 1 if free disk space watermark is in effect",
            alarms.disk_alarm,
        ),
        ("file_descriptor_limit", "is 1 if file descriptor limit alarm is in effect", False),
    ):
        yield UntypedMetricFamily(f"{PREFIX}alarms_{name}", help_, value=int(is_raised))


def _attempts(site: Site) -> Iterator[LibraryMetric]:
    attempts = site.authority.attempts
    protocols = {AMQP: attempts.others, HTTP: attempts.http}
    for index, metric in enumerate(ATTEMPTS):
        samples = [
            ((name,), float((each.total, each.succeeded, each.failed)[index]))
            for name, each in protocols.items()
        ]
        yield _by_labels(metric, ("protocol",), samples, PREFIX)


def _sample(prefix: str, metric: Metric, value: float) -> LibraryMetric:
    return _by_labels(metric, (), [((), value)], prefix)


def _by_labels(
    metric: Metric,
    labels: tuple[str, ...],
    samples: Iterable[tuple[tuple[str, ...], float]],
    prefix: str = f"{PREFIX}global_",
) -> LibraryMetric:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(f"{prefix}{metric.name}", metric.help, labels=labels)
    for names, value in samples:
        family.add_metric(names, value)
    return family
