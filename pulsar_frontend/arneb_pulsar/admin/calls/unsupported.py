"""Unsupported: calls of Pulsar's admin API that this broker does not support, each with the reason.

The rule: a call that would have no effect here is refused with one sentence, not answered as if it
had worked; the caller needs no right to get that sentence. Only calls without a route are looked up
here: reading such settings is answered in ``policies.unset``.
"""

from collections.abc import Mapping
from typing import Final

from arneb_pulsar.admin.calls.requests import AdminError

JOBS: Final = (
    "Functions, sinks, sources and packages are not run by this broker: programs over topics are "
    "jobs of Spark, see docs/guide/spark.md"
)
OFFLOADING: Final = (
    "This broker offloads to no other store: `arneb offload` seals topics for Spark, see "
    "docs/guide/lake.md"
)
GEO_REPLICATION: Final = "Geo-replication does not exist here: this cluster is alone"
ONE_BROKER: Final = "There is one broker, and nothing to balance or to place"
NO_JAVA: Final = "There is no Java virtual machine here: /metrics has the figures of the broker"
FILTERS: Final = "Entry filters are classes of Java, which this broker does not load"
VERSION_1: Final = (
    "Names with a cluster in them, of version 1, are not served: ask below /admin/v2 and "
    "/lookup/v2/topic, by tenant/namespace"
)
OF_VERSION_1: Final = (
    "brokers", "broker-stats", "clusters", "namespaces", "non-persistent", "persistent",
    "properties", "resource-quotas", "schemas",
)  # fmt: skip
OVER_HTTP: Final = (
    "Producers and consumers of Pulsar come by its binary protocol, not over HTTP or WebSocket"
)

BELOW: Final[Mapping[str, str]] = {
    "/admin/v3/functions": JOBS,
    "/admin/v3/sinks": JOBS,
    "/admin/v3/sources": JOBS,
    "/admin/v3/packages": JOBS,
    "/admin/v3/sink": JOBS,
    "/admin/v3/source": JOBS,
    "/admin/v2/functions": JOBS,
    "/admin/v2/worker": JOBS,
    "/admin/v2/worker-stats": JOBS,
    "/admin/v2/resource-quotas": ONE_BROKER,
    "/admin/v2/bookies": ONE_BROKER,
    "/admin/v2/broker-stats/mbeans": NO_JAVA,
    "/admin/v2/broker-stats/allocator-stats": NO_JAVA,
    "/admin/v2/broker-stats/broker-resource-availability": ONE_BROKER,
    "/lookup/v2/destination": VERSION_1,
    "/topics": OVER_HTTP,
    "/ws": OVER_HTTP,
    **{f"/admin/{kind}": VERSION_1 for kind in OF_VERSION_1},
}
"""Reasons, by the beginning of the path."""

NAMED: Final[Mapping[str, str]] = {
    "offload": OFFLOADING,
    "offloadPolicies": OFFLOADING,
    "removeOffloadPolicies": OFFLOADING,
    "offloadThreshold": OFFLOADING,
    "offloadThresholdInSeconds": OFFLOADING,
    "offloadDeletionLagMs": OFFLOADING,
    "replicatorDispatchRate": GEO_REPLICATION,
    "replicatedSubscriptionStatus": GEO_REPLICATION,
    "shadowTopics": GEO_REPLICATION,
    "migrate": GEO_REPLICATION,
    "migration": GEO_REPLICATION,
    "entryFilters": FILTERS,
    "antiAffinity": ONE_BROKER,
    "bookieAffinity": ONE_BROKER,
    "peers": GEO_REPLICATION,
    "failureDomains": ONE_BROKER,
    "namespaceIsolationPolicies": ONE_BROKER,
}
"""Reasons, by a part of the path."""

PARTS_BEFORE: Final = 3
"""``admin``, the version and the kind of object; the parts after them are names, and may be
anything."""


def check(raw_path: str) -> None:
    """Raise :class:`AdminError` if there is a reason for not supporting an unknown path."""
    for beginning, reason in BELOW.items():
        if raw_path == beginning or raw_path.startswith(beginning + "/"):
            raise AdminError(501, reason)
    for part in reversed(raw_path.strip("/").split("/")[PARTS_BEFORE:]):
        if raw_path.startswith("/admin/"):
            check_name(part)


def check_name(part: str) -> None:
    """Raise :class:`AdminError` if there is a reason for not supporting a part of a path."""
    if reason := NAMED.get(part, ""):
        raise AdminError(501, reason)
