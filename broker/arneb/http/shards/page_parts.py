"""Page parts: what the management page is told by the leaders of all shards, as one answer.

The rule: figures are added, lists put together in the order that each of them has, and what is a
node's is said of each node. The page goes on where a shard has no leader: then it says which one is
missing, and an alarm stands on every page.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from arneb.http.management.page import delayed as delays
from arneb.http.management.page import transactions as opened
from arneb.http.shards.gathering import Parts

Missing = Mapping[str, str]
"""Shards of which nothing is known at the moment, and why."""

ADDED: Final = (
    "store_bytes", "cache_bytes", "waiting_bytes", "commits_total", "commit_failures_total",
    "entries_total", "topics", "watching", "answers_total",
)  # fmt: skip
"""Figures of a broker that add up."""

HISTOGRAMS: Final = ("commit_s", "commit_entries")

MACHINE: Final = (
    "memory_bytes", "memory_limit_bytes", "disk_free_bytes", "disk_free_min_bytes", "store_bytes",
)  # fmt: skip
"""What is said of each leader's node."""

OF_A_BROKER: Final = ("memory", "disk", "full")
"""Alarms that name neither node nor shard by themselves."""


def transactions(parts: Parts) -> dict[str, Any]:
    """Those that are open: of AMQP's those that hold most first, of Pulsar's the oldest."""
    amqp = [_of(shard, each) for shard, said in parts for each in said["amqp"]]
    pulsar = [_of(shard, each) for shard, said in parts for each in said["pulsar"]]
    amqp.sort(key=lambda each: -each["messages"] - each["acknowledgements"])
    pulsar.sort(key=lambda each: each["opened_ms"])
    return {
        "amqp_total": sum(said["amqp_total"] for _, said in parts),
        "amqp": amqp[: opened.SHOWN_MAX],
        "pulsar_total": sum(said["pulsar_total"] for _, said in parts),
        "pulsar": pulsar[: opened.SHOWN_MAX],
    }


def delayed(parts: Parts) -> list[Any]:
    """Where messages wait for their time, those with most first."""
    rows = [each for _, said in parts for each in said]
    return sorted(rows, key=lambda each: -each["delayed"])[: delays.SHOWN_MAX]


def node(parts: Parts, missing: Missing) -> dict[str, Any]:
    """What stands on every page. The first that is known says what is said once."""
    (_, first), *_ = parts
    found = {
        **first,
        "shards": [shard for shard, _ in parts],
        "alarms": [*_alarms(parts), *(_away(shard, why) for shard, why in missing.items())],
    }
    known = [(shard, said) for shard, said in parts if "memory_bytes" in said]
    if known:
        figures = [said for _, said in known]
        found |= {name: sum(said[name] for said in figures) for name in ADDED}
        found |= {name: _added([said[name] for said in figures]) for name in HISTOGRAMS}
        found["leaders"] = [
            {"shard": shard, "node": _node_of(said), **{name: said[name] for name in MACHINE}}
            for shard, said in known
        ]
        memberships = {_node_of(said): said["cluster"] for said in figures if said["cluster"]}
        found["members"] = list(memberships.values())
    return found


def _node_of(said: Mapping[str, Any]) -> str:
    cluster = said["cluster"]
    return str(cluster["node"] if cluster else said["node"])


def _alarms(parts: Parts) -> Sequence[dict[str, Any]]:
    """Each once: a node that leads two shards says of itself the same of both."""
    found: dict[str, dict[str, Any]] = {}
    for shard, said in parts:
        for each in said["alarms"]:
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
    """An object that says of which shards it has nothing."""
    return {**join(parts), "missing": sorted(missing)}
