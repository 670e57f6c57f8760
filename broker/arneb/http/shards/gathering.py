"""Gathering: which requests are about all shards of a cluster, and how their answers are combined.

The rule: an answer about everything covers every shard, or there is none. Lists are sorted and cut
once they are combined. Users, and everything else that belongs to no vhost, belong to the first
shard, and the others have copies.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

from arneb_core.access.namespaces import proposed_namespace

Parts = Sequence[tuple[str, Any]]
"""Each shard's answer, that of the first shard first."""


class Kind(Enum):
    """How a request is answered."""

    ONE = "one shard's"
    LIST = "the lists of all"
    OBJECT_OF_LISTS = "objects of lists, joined"
    ALARMS = "what is short anywhere"
    TOTALS = "objects of numbers, added"
    DEFINITIONS = "a file of definitions out of all"
    FILE = "a file of definitions that is cut"
    FOUND = "of the one that has it"
    EACH = "done at each"
    CHECK = "well if it is well at each"
    IN_ALL = "what stands in the lists of all"
    PAGE_ROWS = "the page's queues and topics"
    PAGE_CLIENTS = "the page's clients"
    PAGE_TRANSACTIONS = "the page's transactions"
    PAGE_DELAYED = "where messages of any wait for their time"
    PAGE_NODE = "what stands on every page"
    NUMBERED = "of the one that is named, for each counts by itself"


PAGES: Final = frozenset(
    {Kind.PAGE_ROWS, Kind.PAGE_CLIENTS, Kind.PAGE_TRANSACTIONS, Kind.PAGE_NODE}
)
"""Answers that leave out a shard that has no leader at the moment, and say so."""


_LISTS: Final = (
    "queues|queues/detailed|exchanges|bindings|consumers|policies|operator-policies|parameters|"
    "parameters/[^/]+|permissions|topic-permissions|vhosts|vhost-limits|connections|"
    "connections/username/[^/]+|channels|shovels|federation-links|users/[^/]+/permissions|"
    "users/[^/]+/topic-permissions"
)
_CHECKS: Final = "health/checks/(alarms|local-alarms|virtual-hosts)|healthchecks/node(/[^/]+)?"
_CLIENTS: Final = "connections/[^/]+|connections/[^/]+/channels|channels/[^/]+"
_NUMBERED: Final = "page/pulsar/connections/[^/]+(/consumers/[^/]+)?|page/pulsar/transactions/[^/]+"
_GATHERED: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("GET", _LISTS, Kind.LIST),
    ("GET", "users/without-permissions", Kind.IN_ALL),
    ("GET", "topics", Kind.OBJECT_OF_LISTS),
    ("GET", "alarms", Kind.ALARMS),
    ("PUT", "alarms", Kind.EACH),
    ("GET", "overview", Kind.TOTALS),
    ("GET", "definitions|all-configuration", Kind.DEFINITIONS),
    ("POST", "definitions|all-configuration", Kind.FILE),
    ("DELETE", "connections/username/[^/]+", Kind.EACH),
    ("GET", _CHECKS, Kind.CHECK),
    ("GET|DELETE", _CLIENTS, Kind.FOUND),
    ("GET", "page/topics", Kind.PAGE_ROWS),
    ("GET", "page/connections", Kind.PAGE_CLIENTS),
    ("GET", "page/transactions", Kind.PAGE_TRANSACTIONS),
    ("GET", "page/delayed", Kind.PAGE_DELAYED),
    ("GET", "page/node", Kind.PAGE_NODE),
    ("GET|DELETE", _NUMBERED, Kind.NUMBERED),
)
"""By method and path below ``/api``; the first match counts."""

_COMPILED: Final = [
    (re.compile(methods), re.compile(f"/api/(?:{path})/?"), kind)
    for methods, path, kind in _GATHERED
]

NUMBERS: Final = ("message_stats", "queue_totals", "object_totals", "churn_rates")
"""Parts of an overview that are added; everything else comes from the first shard's leader."""

OF_VHOSTS: Final = (
    "vhosts", "permissions", "topic_permissions", "parameters", "policies", "queues", "exchanges",
    "bindings",
)  # fmt: skip
"""Lists in a file of definitions whose objects belong to a vhost."""


def kind_of(method: str, path: str) -> Kind:
    """Return the kind of a request to the management API, by its path as received."""
    method = "GET" if method == "HEAD" else method
    for methods, pattern, kind in _COMPILED:
        if methods.fullmatch(method) and pattern.fullmatch(path):
            return kind
    return Kind.ONE


def order_of(document: Any) -> tuple[str, ...]:
    """Return an object's default sort key; the last part is its name."""
    fields = document.get("queue", document)
    fields = fields if isinstance(fields, dict) else document
    names = ("vhost", "source", "destination", "component", "user", "name")
    found = [str(fields.get(each, "")) for each in names]
    return (*found[:-1], str(document.get("consumer_tag", "")), found[-1])


def joined(parts: Parts) -> dict[str, Any]:
    """Join objects of lists."""
    found: dict[str, Any] = {}
    for _, document in parts:
        for name, value in document.items():
            if isinstance(value, list):
                found[name] = [*found.get(name, ()), *value]
            else:
                found.setdefault(name, value)
    return found


def alarms(parts: Parts) -> dict[str, Any]:
    """Combine the alarms of all leaders' nodes, with the levels of a node that has the alarm."""
    (_, first), *_ = parts
    found = dict(first)
    for resource in ("memory", "disk"):
        for _, document in reversed(parts):
            if document[f"{resource}_alarm"]:
                found |= {
                    name: value for name, value in document.items() if name.startswith(resource)
                }
    trims = [
        f"shard '{shard}': {why}"
        for shard, document in parts
        if (why := document["log_trim_alarm"])
    ]
    return {**found, "log_trim_alarm": "; ".join(trims)}


def in_all(parts: Parts) -> list[Any]:
    """Return what is in every list."""
    (_, first), *others = parts
    return [each for each in first if all(each in document for _, document in others)]


def totals(parts: Parts) -> dict[str, Any]:
    """Combine the overviews of all shards."""
    (_, first), *_ = parts
    return {
        name: added([document[name] for _, document in parts if name in document])
        if name in NUMBERS
        else value
        for name, value in first.items()
    }


def added(values: Sequence[Any]) -> Any:
    """Add numbers, or objects of numbers. Samples are added for the times at which every part has
    one."""
    first = values[0]
    if isinstance(first, dict):
        names = dict.fromkeys(name for each in values for name in each)
        return {
            name: _samples([each.get("samples", []) for each in values])
            if name == "samples"
            else added([each[name] for each in values if name in each])
            for name in names
        }
    if isinstance(first, bool) or not isinstance(first, int | float):
        return first
    return sum(values)


def _samples(parts: Sequence[Any]) -> list[dict[str, Any]]:
    by_time = [{each["timestamp"]: each["sample"] for each in part} for part in parts]
    return [
        {"timestamp": at, "sample": sum(each[at] for each in by_time)}
        for at in by_time[0]
        if all(at in each for each in by_time)
    ]


def definitions(parts: Parts) -> dict[str, Any]:
    """Join files of definitions."""
    (_, first), *others = parts
    return {
        name: [*value, *(each for _, document in others for each in document.get(name, ()))]
        if name in OF_VHOSTS
        else value
        for name, value in first.items()
    }


def cut(
    document: Mapping[str, Any], shards: Sequence[str], shard_of: Callable[[str], str]
) -> dict[str, dict[str, Any]]:
    """Split a file of definitions by shard; ``shard_of`` returns a namespace's shard. Everything
    that belongs to no vhost goes to the first shard only."""
    first, *others = shards
    found: dict[str, dict[str, Any]] = {first: {}}
    for name, value in document.items():
        if name not in OF_VHOSTS or not isinstance(value, list):
            found[first][name] = value
            continue
        found[first][name] = []
        for each in value:
            vhost = each.get("name" if name == "vhosts" else "vhost") if _is_object(each) else None
            shard = (
                shard_of(proposed_namespace(vhost)) if isinstance(vhost, str) and vhost else first
            )
            found.setdefault(shard, {}).setdefault(name, []).append(each)
    return {each: found[each] for each in (first, *others) if each in found}


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)
