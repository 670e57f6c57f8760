"""Targets: what a request over HTTP is about, by its path: this node, or a namespace that some node
serves.

The rule: a path is not understood, only its namespace is found; whoever answers judges the rest.
"""

from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import unquote

from arneb.http.routing.routed import EVERYTHING_ELSE, Target, Way

OWN: Final = Target(Way.OWN)

MEMBER_PATH: Final = "/api/page/member"
"""How this node does in its cluster."""

METRICS_PATHS: Final = (
    "/metrics",
    "/metrics/per-object",
    "/metrics/aggregated",
    "/metrics/detailed",
)

OWN_PATHS: Final = (MEMBER_PATH, "/healthz", "/readyz", *METRICS_PATHS)
"""Of the HTTP port: how this node does."""

OWN_PULSAR_PATHS: Final = (
    "/metrics",
    "/metrics/",
    "/admin/v2/brokers/health",
    "/admin/v2/brokers/ready",
)
"""The same of Pulsar's admin port."""

OF_VHOSTS: Final = frozenset(
    {
        "aliveness-test", "bindings", "consumers", "definitions", "exchanges", "federation-links",
        "operator-policies", "permissions", "policies", "queues", "shovels", "topic-permissions",
        "vhost-limits", "vhosts",
    }
)  # fmt: skip
"""Kinds of the management API whose paths go on with a vhost."""

OF_VHOSTS_ON_THE_PAGE: Final = frozenset(
    {"delayed", "delayed-by", "messages", "policies", "queues", "route", "topics"}
)
"""The same below ``page``."""

OF_NAMESPACES: Final = frozenset({"namespaces", "persistent", "non-persistent", "schemas"})
"""Kinds of Pulsar's admin API whose paths go on with tenant and namespace."""


OF_TOPICS: Final = frozenset(
    {
        "transactionBufferStats", "transactionBufferInternalStats", "transactionInBufferStats",
        "pendingAckStats", "pendingAckInternalStats", "transactionInPendingAckStats",
        "positionStatsInPendingAck",
    }
)  # fmt: skip
"""The same below ``transactions``: all else there is the coordinator's, the first shard's."""


def management_target(path: str, namespace_of: Callable[[str], str]) -> Target:
    """Of the management API, the page and the data API; ``namespace_of``: that of a vhost."""
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
    """Of Pulsar's admin API and its lookup."""
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
    """Of a topic by its name, complete or as it is kept."""
    match topic.rpartition("://")[2].split("/"):
        case [tenant, namespace, _, *_]:
            return f"{tenant}/{namespace}"
    return EVERYTHING_ELSE


def _parts(path: str) -> Sequence[str]:
    return path.strip("/").split("/")
