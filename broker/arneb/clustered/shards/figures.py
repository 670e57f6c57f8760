"""Figures of a cluster: metrics of this node's part in it, whether it leads or not."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Protocol, TypeVar

from arneb.metrics.text import Metric, labelled
from arneb_cluster.copies.taker import CopyStatistics
from arneb_cluster.observing import MemberStatistics, ShardStatistics
from arneb_cluster.routing.internal_port import InternalPort
from arneb_cluster.routing.relaying import Relays
from arneb_cluster.settings import ShardSettings
from arneb_cluster.shard import Shard
from arneb_core.api.nodes.placement import Elsewhere, Here, Placement

ShownT = TypeVar("ShownT")


class HasRelays(Protocol):
    """The ports of a node."""

    @property
    def relays(self) -> Relays:
        """The connections that the node relays."""
        ...


PREFIX: Final = "arneb_cluster_"

DIVISION: Final = "division"
"""The key, beside a leader's addresses, of the division that it leads by, if there are several
shards."""

SHARD_FIGURES: Final[Sequence[tuple[Metric, Callable[[ShardStatistics], float]]]] = (
    (Metric("leads", "1 while this node leads the shard"), lambda found: found.leads),
    (Metric("serves", "1 while this node leads and its lease lasts"), lambda found: found.serves),
    (Metric("epoch", "Epoch of the last leadership known here"), lambda found: found.epoch),
    (Metric("number", "Number of the last record in the directory"), lambda found: found.number),
    (Metric("under_way", "A leader's records without a receipt"), lambda found: found.under_way),
    (Metric("lag_records", "Read and not in the directory"), lambda found: found.lag_records),
    (Metric("lag_bytes", "Of commits read, not in the directory"), lambda found: found.lag_bytes),
    (Metric("lag_seconds", "Age of what the directory has"), lambda found: found.lag_s),
    (Metric("skew_seconds", "Clock ahead of the leader's"), lambda found: found.skew_ms / 1_000),
    (Metric("skew_alarm", "1 while clocks are too far apart"), lambda found: found.skew_alarm),
    (Metric("members", "Nodes with a copy or given one"), lambda found: len(found.members)),
    (
        Metric("trim_alarm", "1 while the log topic is not trimmed any more"),
        lambda found: bool(found.trim_alarm),
    ),
)

MEMBER_FIGURES: Final[Sequence[tuple[Metric, Callable[[MemberStatistics], float]]]] = (
    (Metric("member_number", "Last record a member has on disk"), lambda member: member.number),
    (Metric("member_heard_seconds", "Since a member was heard of"), lambda member: member.heard_s),
    (Metric("member_copying", "1 while given a copy"), lambda member: member.is_copying),
)

RELAY_FIGURES: Final[Sequence[tuple[Metric, Callable[[Relays], float]]]] = (
    (Metric("carried", "Clients that are carried to another node"), lambda all_: len(all_.carried)),
    (Metric("carried_total", "Clients that were carried"), lambda all_: all_.carried_total),
    (Metric("lost_total", "Carried clients whose leader was lost"), lambda all_: all_.lost_total),
    (Metric("up_bytes_total", "Said by carried clients, bytes"), lambda all_: all_.up_bytes),
    (Metric("down_bytes_total", "Told to carried clients, bytes"), lambda all_: all_.down_bytes),
)

INTERNAL_FIGURES: Final[Sequence[tuple[Metric, Callable[[InternalPort], float]]]] = (
    (Metric("brought_total", "Clients that others have brought"), lambda port: port.accepted_total),
    (Metric("refused_total", "Refused by the internal port"), lambda port: port.refused_total),
)


def cluster_figures(shards: Sequence[Shard], relays: Relays, internal: InternalPort) -> str:
    """Return all metrics in Prometheus' text format."""
    found = [each.statistics() for each in shards]
    labels = [labelled(shard=each.shard, node=each.node) for each in found]
    node = [labelled(node=found[0].node)]
    return "".join(
        (
            *_lines(SHARD_FIGURES, found, labels),
            *_member_lines(found),
            *_lines(RELAY_FIGURES, [relays], node),
            *_lines(INTERNAL_FIGURES, [internal], node),
        )
    )


def about(shards: Sequence[Shard], ports: HasRelays) -> dict[str, Any]:
    """Return the same for people and JSON: the first shard's, and the others' if there are any."""
    first, *others = map(_about_shard, shards)
    carried = {"carried": len(ports.relays.carried)}
    return {**first, **carried, "others": others} if others else {**first, **carried}


def _about_shard(shard: Shard) -> dict[str, Any]:
    found = shard.statistics()
    led_by = _led_by(shard.placement, found.node)
    return {**asdict(found), "led_by": led_by, "differs": _differs(shard)}


def _differs(shard: Shard) -> bool:
    """Whether the leader's settings divide the cluster into shards differently from this node's."""
    leader, own = shard.node.reader.leader, shard.settings
    if leader is None or leader.take.node == own.node:
        return False
    return dict(leader.addresses).get(DIVISION) != own.addresses.get(DIVISION)


def _led_by(placement: Placement, node: str) -> str:
    """Return the node to which clients go now; empty if there is none."""
    match placement:
        case Here():
            return node
        case Elsewhere(addresses):
            return addresses.node
        case _:
            return ""


def about_copy(found: CopyStatistics, settings: ShardSettings) -> Mapping[str, Any]:
    """Return the state of a node that takes a copy before it takes part."""
    return {
        "node": settings.node, "shard": settings.shard, "state": "copying", **asdict(found),
    }  # fmt: skip


def _member_lines(found: Sequence[ShardStatistics]) -> Iterator[str]:
    """Yield the lines of all members, each family's head once."""
    members = [(each, member) for each in found for member in each.members]
    labels = [
        labelled(shard=each.shard, node=each.node, member=member.node) for each, member in members
    ]
    yield from _lines(MEMBER_FIGURES, [member for _, member in members], labels)


def _lines(
    figures: Sequence[tuple[Metric, Callable[[ShownT], float]]],
    shown: Sequence[ShownT],
    labels: Sequence[str],
) -> Iterator[str]:
    for metric, value_of in figures:
        yield metric.head(PREFIX)
        for each, labelling in zip(shown, labels, strict=True):
            yield f"{PREFIX}{metric.name}{labelling} {float(value_of(each)):g}\n"
