"""Membership: a node's state in its cluster, as shown to operators.

The rule: this is what the node itself knows at that instant, whether it leads or not; each alarm
says what to do about it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

BEHIND_S: Final = 10.0
"""The age from which a directory counts as behind: with a heartbeat each second, it lacks more."""

STOPPED: Final = "stopped"

OF_NODE: Final = ("node", "carried", "others")
"""The keys that describe the node and not a shard."""


def membership(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node's document, from the state of its part in each shard."""
    shards = shards_of(about)
    return {
        "node": about["node"],
        "carried": about["carried"],
        "shards": [
            {name: value for name, value in each.items() if name not in OF_NODE} for each in shards
        ],
        "alarms": [alarm for each in shards for alarm in alarms_of(each)],
    }


def shards_of(about: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the state of a node's part in each shard, the first shard's first."""
    return [about, *about.get("others", ())]


def alarms_of(about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what is stopped or wrong in a shard, as this node sees it."""
    node, shard = about["node"], about["shard"]

    def alarm(name: str, text: str, advice: str) -> dict[str, Any]:
        named = f"{name} {node} {shard}"
        return {"name": named, "text": text, "advice": advice, "is": 0, "limit": 0}

    if about["state"] == STOPPED:
        yield alarm(
            "stopped",
            f"Node {node} takes no part in {shard} any more: {about['why']}.",
            "It cannot take over. See its log, and the guide's page on clusters.",
        )
        return
    if about["leads"] and not about["serves"]:
        yield alarm(
            "lease",
            f"The log of {shard} does not answer node {node}, which leads it: nothing is "
            "confirmed, delivered or answered.",
            "Look at Pulsar's brokers and bookies. All continues by itself once they answer.",
        )
    elif not about["led_by"]:
        yield alarm(
            "nobody",
            f"Nobody leads {shard} at the moment, as far as node {node} knows: nothing is "
            "confirmed or delivered.",
            "Another node takes over within seconds. If none does, look whether Pulsar answers, "
            "and what the logs of the nodes say.",
        )
    elif not about["leads"] and about["lag_s"] > BEHIND_S:
        yield alarm(
            "behind",
            f"Node {node} is {about['lag_s']:.0f} s behind the leader of {shard}.",
            "It would need that long to take over. Look at its disk, and at its way to Pulsar.",
        )
    if about["differs"]:
        yield alarm(
            "differs",
            f"Node {about['leader']} leads {shard} by settings that have other shards than those "
            f"of node {node}.",
            "Have the same shards on all nodes, and start those again that differ: they bring "
            "clients to the wrong leader.",
        )
    if trims := about["trim_alarm"]:
        yield alarm(
            "trim",
            f"Shard {shard}: {trims}.",
            "Pulsar keeps records until enough nodes have them on disk: start those that are away.",
        )
    if about["skew_alarm"]:
        ahead = about["skew_ms"]
        direction = "ahead of" if ahead > 0 else "behind"
        yield alarm(
            "clock",
            f"The clock of node {node} is {abs(ahead)} ms {direction} the leader's.",
            "Times to live and delays would move by that much if it led: set the clocks of all "
            "nodes by the same time servers.",
        )
