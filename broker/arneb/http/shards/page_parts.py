"""Page parts: combines the leaders' answers to the management page.

The rule: figures are added, lists merged in their common order, and a node's figures are shown for
each node. A shard that has no leader is left out: the page names it, and every page shows an alarm.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from arneb.http.management.page import delayed as delays
from arneb.http.management.page import transactions as opened
from arneb.http.shards.gathering import Parts

Missing = Mapping[str, str]
"""Shards without an answer at the moment, and why."""

ADDED: Final = (
    "store_bytes", "cache_bytes", "waiting_bytes", "commits_total", "commit_failures_total",
    "entries_total", "topics", "watching", "answers_total",
)  # fmt: skip
"""A broker's figures that are added."""

HISTOGRAMS: Final = ("commit_s", "commit_entries")

MACHINE: Final = (
    "memory_bytes", "memory_limit_bytes", "disk_free_bytes", "disk_free_min_bytes", "store_bytes",
)  # fmt: skip
"""Figures shown for each leader's node."""

OF_A_BROKER: Final = ("memory", "disk", "full")
"""Alarms whose texts name neither node nor shard."""


def transactions(parts: Parts) -> dict[str, Any]:
    """Combine the open transactions: AMQP's largest first, Pulsar's oldest first."""
    amqp = [_of(shard, each) for shard, part in parts for each in part["amqp"]]
    pulsar = [_of(shard, each) for shard, part in parts for each in part["pulsar"]]
    amqp.sort(key=lambda each: -each["messages"] - each["acknowledgements"])
    pulsar.sort(key=lambda each: each["opened_ms"])
    return {
        "amqp_total": sum(part["amqp_total"] for _, part in parts),
        "amqp": amqp[: opened.SHOWN_MAX],
        "pulsar_total": sum(part["pulsar_total"] for _, part in parts),
        "pulsar": pulsar[: opened.SHOWN_MAX],
    }


def delayed(parts: Parts) -> list[Any]:
    """Combine the places with delayed messages, those with the most first."""
    rows = [each for _, part in parts for each in part]
    return sorted(rows, key=lambda each: -each["delayed"])[: delays.SHOWN_MAX]


def node(parts: Parts, missing: Missing) -> dict[str, Any]:
    """Combine the header of every page. Single values come from the first shard that answered."""
    (_, first), *_ = parts
    found = {
        **first,
        "shards": [shard for shard, _ in parts],
        "alarms": [*_alarms(parts), *(_away(shard, why) for shard, why in missing.items())],
    }
    known = [(shard, part) for shard, part in parts if "memory_bytes" in part]
    if known:
        figures = [part for _, part in known]
        found |= {name: sum(part[name] for part in figures) for name in ADDED}
        found |= {name: _added([part[name] for part in figures]) for name in HISTOGRAMS}
        found["leaders"] = [
            {"shard": shard, "node": _node_of(part), **{name: part[name] for name in MACHINE}}
            for shard, part in known
        ]
        memberships = {_node_of(part): part["cluster"] for part in figures if part["cluster"]}
        found["members"] = list(memberships.values())
    return found


def _node_of(part: Mapping[str, Any]) -> str:
    cluster = part["cluster"]
    return str(cluster["node"] if cluster else part["node"])


def _alarms(parts: Parts) -> Sequence[dict[str, Any]]:
    """Return each alarm once: a node that leads two shards reports its own alarms for both."""
    found: dict[str, dict[str, Any]] = {}
    for shard, part in parts:
        for each in part["alarms"]:
            alarm = each
            if each["name"] in OF_A_BROKER:
                alarm = {
                    **each,
                    "name": f"{each['name']} {shard}",
                    "text": f"Shard {shard}: {each['text']}",
                }
            found.setdefault(alarm["name"], alarm)
    return list(found.values())


def _away(shard: str, why: str) -> dict[str, Any]:
    return {
        "name": f"away {shard}",
        "text": f"Nobody answers for shard {shard} at the moment ({why}): what it has stands in no "
        "list and no figure here.",
        "advice": "Another node takes over within seconds. If none does, look at Pulsar, and at "
        "the logs of the nodes.",
        "is": 0,
        "limit": 0,
    }


def _of(shard: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "shard": shard}


def _added(histograms: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first, *_ = histograms
    counts = [list(each["counts"]) for each in histograms]
    return {
        "bounds": first["bounds"],
        "counts": [sum(column) for column in zip(*counts, strict=True)],
        "sum": sum(each["sum"] for each in histograms),
    }


def with_missing(join: Callable[[Parts], dict[str, Any]], parts: Parts, missing: Missing) -> Any:
    """Join the parts, and name the missing shards."""
    return {**join(parts), "missing": sorted(missing)}
