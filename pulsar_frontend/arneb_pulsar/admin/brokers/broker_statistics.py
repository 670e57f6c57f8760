"""Broker statistics: what load balancers and dashboards read about a whole broker.

The rule: the figures are sums over topics; those that only a Java virtual machine has are left out.
"""

import os
import resource
from typing import Any, Final

import trio

from arneb_pulsar.admin.calls.requests import AdminReply, AdminRequest, document
from arneb_pulsar.admin.calls.router import Route
from arneb_pulsar.admin.calls.rules import SUPER_USER
from arneb_pulsar.admin.documents.topic_documents import Detail, topic_document
from arneb_pulsar.admin.namespaces.bundles import bundles_of
from arneb_pulsar.names import parse_topic
from arneb_pulsar.services.context import BrokerContext

TOPICS_PER_TURN: Final = 20
"""Topics described before other tasks get a turn: a few milliseconds."""

SUMS: Final = {
    "brk_in_rate": "msgRateIn",
    "brk_in_tp_rate": "msgThroughputIn",
    "brk_out_rate": "msgRateOut",
    "brk_out_tp_rate": "msgThroughputOut",
    "brk_storage_size": "storageSize",
}
"""A namespace's metrics, and the field of its topics that each sums."""

FIGURES_ONLY: Final = Detail(publishers=False, consumers=False)

MEGABYTE: Final = 1024 * 1024

Document = dict[str, Any]


async def _described(
    context: BrokerContext, detail: Detail
) -> dict[str, dict[str, list[Document]]]:
    """Return every topic's document, by namespace and bundle."""
    found: dict[str, dict[str, list[Document]]] = {}
    count = 0
    for namespace, by_bundle in bundles_of(context).items():
        for bundle, topics in by_bundle.items():
            for topic in topics:
                count += 1
                if count % TOPICS_PER_TURN == 0:
                    await trio.lowlevel.checkpoint()
                if context.core.topics.get(topic.name) is topic:
                    shown = topic_document(context, parse_topic(topic.name), detail)
                    _name_as_all(shown)
                    shown["name"] = topic.name
                    shown["producerCount"] = len(context.producers.of(topic))
                    shown["consumerCount"] = len(context.consumers.of(topic))
                    found.setdefault(namespace, {}).setdefault(bundle, []).append(shown)
    return found


def _name_as_all(shown: Document) -> None:
    """Add the fields that have other names in the statistics of all topics, for dashboards."""
    for name in ("bytesIn", "bytesOut", "msgIn", "msgOut"):
        shown[f"{name}Count"] = shown[f"{name}Counter"]
    shown["pendingAddEntriesCount"] = shown["filteredEntriesCount"] = 0
    for each in shown["subscriptions"].values():
        each["numberOfEntriesSinceFirstNotAckedMessage"] = each["msgBacklog"]
        each["totalNonContiguousDeletedMessagesRange"] = each["nonContiguousDeletedMessagesRanges"]


async def topics(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return statistics of all topics, by namespace, bundle and domain."""
    found: Document = {}
    for namespace, by_bundle in (await _described(context, Detail())).items():
        for bundle, shown in by_bundle.items():
            for each in shown:
                name = each.pop("name")
                domains = found.setdefault(namespace, {}).setdefault(bundle, {})
                domains.setdefault(name.partition(":")[0], {})[name] = each
    return document(found)


async def metrics(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return the sums of each namespace, by the names of Pulsar's metrics."""
    found: list[Document] = []
    for namespace, by_bundle in (await _described(context, FIGURES_ONLY)).items():
        shown = [each for topics in by_bundle.values() for each in topics]
        sums = {name: sum(each[field] for each in shown) for name, field in SUMS.items()}
        subscriptions = [each for topic in shown for each in topic["subscriptions"].values()]
        counts = {
            "brk_no_of_topics": len(shown),
            "brk_no_of_producers": sum(each["producerCount"] for each in shown),
            "brk_no_of_consumers": sum(each["consumerCount"] for each in shown),
            "brk_no_of_subscriptions": len(subscriptions),
            "brk_msg_backlog": sum(each["msgBacklog"] for each in subscriptions),
        }
        found.append({"metrics": {**sums, **counts}, "dimensions": {"namespace": namespace}})
    counts = {
        "brk_connection_created_total_count": context.connections.opened_total,
        "brk_connection_closed_total_count": context.connections.closed_total,
        "brk_active_connections": context.connections.opened_total
        - context.connections.closed_total,
    }
    dimensions = {"cluster": context.config.cluster, "metric": "broker_connection"}
    return document([*found, {"metrics": counts, "dimensions": dimensions}])


async def load_report(context: BrokerContext, request: AdminRequest) -> AdminReply:
    """Return how busy the broker is."""
    described = await _described(context, FIGURES_ONLY)
    last: Document = {}
    for namespace, by_bundle in described.items():
        for bundle, shown in by_bundle.items():
            rates = {
                name: sum(each[name] for each in shown)
                for name in ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
            }
            last[f"{namespace}/{bundle}"] = {
                **rates,
                "consumerCount": sum(each["consumerCount"] for each in shown),
                "producerCount": sum(each["producerCount"] for each in shown),
                "topics": len(shown),
                "cacheSize": 0,
            }
    bundles = sorted(last)
    sums = {
        name: sum(each[name] for each in last.values())
        for name in ("msgRateIn", "msgThroughputIn", "msgRateOut", "msgThroughputOut")
    }
    return document(
        {
            "webServiceUrl": f"http://{request.host}",
            "pulsarServiceUrl": context.urls.plain,
            "persistentTopicsEnabled": True,
            "nonPersistentTopicsEnabled": True,
            "cpu": {"usage": os.getloadavg()[0] * 100, "limit": 100.0 * (os.cpu_count() or 1)},
            "memory": {"usage": _resident_mib(), "limit": _memory_mib()},
            **sums,
            "lastUpdate": context.clock.wall_ms(),
            "lastStats": last,
            "numTopics": sum(each["topics"] for each in last.values()),
            "numBundles": len(bundles),
            "numConsumers": sum(each["consumerCount"] for each in last.values()),
            "numProducers": sum(each["producerCount"] for each in last.values()),
            "bundles": bundles,
            "brokerVersionString": context.server_version,
            "protocols": {},
            "advertisedListeners": {},
            "loadReportType": "LocalBrokerData",
        }
    )


def _resident_mib() -> float:
    """Return the process's peak memory."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _memory_mib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MEGABYTE


ROOT: Final = "/admin/v2/broker-stats"

ROUTES: Final[list[Route]] = [
    Route("GET", ROOT + "/topics", SUPER_USER, topics),
    Route("GET", ROOT + "/metrics", SUPER_USER, metrics),
    Route("GET", ROOT + "/load-report", SUPER_USER, load_report),
]
