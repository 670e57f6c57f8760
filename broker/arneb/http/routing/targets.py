"""Targets: what an HTTP request is about, by its path: this node, or a namespace that some node
serves.

The rule: only the namespace is taken from a path; the node that answers checks the rest.
"""

from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote

from arneb.http.routing.routed import EVERYTHING_ELSE, Target, Way

OWN: Final = Target(Way.OWN)

MEMBER_PATH: Final = "/api/page/member"
"""The state of this node in its cluster."""

METRICS_PATHS: Final = (
    "/metrics",
    "/metrics/per-object",
    "/metrics/aggregated",
    "/metrics/detailed",
)

OWN_PATHS: Final = (MEMBER_PATH, "/healthz", "/readyz", *METRICS_PATHS)
"""Paths of the HTTP port about this node itself."""

OWN_PULSAR_PATHS: Final = (
    "/metrics",
    "/metrics/",
    "/admin/v2/brokers/health",
    "/admin/v2/brokers/ready",
)
"""The same for Pulsar's admin port."""

OF_VHOSTS: Final = frozenset(
    {
        "aliveness-test", "bindings", "consumers", "definitions", "exchanges", "federation-links",
        "operator-policies", "permissions", "policies", "queues", "shovels", "topic-permissions",
        "vhost-limits", "vhosts",
    }
)  # fmt: skip
"""Resources of the management API whose paths continue with a vhost."""

OF_VHOSTS_ON_THE_PAGE: Final = frozenset(
    {"delayed", "delayed-by", "messages", "policies", "queues", "route", "topics"}
)
"""The same below ``page``."""

OF_NAMESPACES: Final = frozenset({"namespaces", "persistent", "non-persistent", "schemas"})
"""Resources of Pulsar's admin API whose paths continue with tenant and namespace."""


OF_TOPICS: Final = frozenset(
    {
        "transactionBufferStats", "transactionBufferInternalStats", "transactionInBufferStats",
        "pendingAckStats", "pendingAckInternalStats", "transactionInPendingAckStats",
        "positionStatsInPendingAck",
    }
)  # fmt: skip
"""The same below ``transactions``; everything else there belongs to the coordinator, which is in
the first shard."""


def management_target(path: str, namespace_of: Callable[[str], str]) -> Target:
    """Return the target of a path of the management API, the page or the data API; ``namespace_of``
    returns a vhost's namespace."""
    if path in OWN_PATHS:
        return OWN
    match _parts(path):
        case ["api", "queues", "detailed"]:
            vhost = ""
        case ["api", "shovels", "vhost", vhost, *_] | ["api", "parameters", _, vhost, *_]:
            pass
        case ["api", "page", "topic", topic, *_]:
            return Target(Way.ASKED, namespace_in(unquote(topic)))
        case ["api", "page", kind, vhost, *_] if kind in OF_VHOSTS_ON_THE_PAGE:
            pass
        case ["api", kind, vhost, *_] if kind in OF_VHOSTS:
            pass
        case _:
            vhost = ""
    return Target(Way.ASKED, namespace_of(unquote(vhost))) if vhost else Target(Way.ASKED)


def pulsar_target(path: str) -> Target:
    """Return the target of a path of Pulsar's admin API or its lookup."""
    if path in OWN_PULSAR_PATHS:
        return OWN
    match _parts(path):
        case ["admin", _, kind, tenant, namespace, *_] if kind in OF_NAMESPACES:
            return Target(Way.SENT, unquote(f"{tenant}/{namespace}"))
        case ["admin", _, "transactions", kind, tenant, namespace, _, *_] if kind in OF_TOPICS:
            return Target(Way.SENT, unquote(f"{tenant}/{namespace}"))
        case ["lookup", _, "topic", _, tenant, namespace, *_]:
            return Target(Way.SENT, unquote(f"{tenant}/{namespace}"))
    return Target(Way.SENT)


def namespace_in(topic: str) -> str:
    """Return the namespace of a topic, by its full name or as it is stored."""
    match topic.rpartition("://")[2].split("/"):
        case [tenant, namespace, _, *_]:
            return f"{tenant}/{namespace}"
    return EVERYTHING_ELSE


def _parts(path: str) -> Sequence[str]:
    return path.strip("/").split("/")
