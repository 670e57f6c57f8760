"""Observing: a shard's leader and statistics, as this node reports them.

The rule: nothing is decided here; everything is the machine's state at that instant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from arneb_cluster.membership import Membership
from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.node import Node
from arneb_cluster.protocol.values import Applied
from arneb_cluster.settings import ShardSettings
from arneb_core.api.nodes.placement import (
    HERE,
    NOBODY,
    UNHEARD,
    Elsewhere,
    NodeAddresses,
    Placement,
)

NODE_ADDRESSES: Final = {each.name for each in fields(NodeAddresses)} - {"node"}
"""The known fields of a leader's addresses; later versions may have more."""


@dataclass(frozen=True, slots=True)
class MemberStatistics:
    """A member, as this node knows it."""

    node: str
    number: int
    """The number of the last record that it has on disk, or that its copy will at least have."""
    is_copying: bool
    """Whether it has nothing yet and is being given a copy."""
    heard_s: float
    """Seconds since it was last heard from."""


@dataclass(frozen=True, slots=True)
class ShardStatistics:
    """The state of a shard on this node."""

    shard: str
    node: str
    state: str
    """This node's :class:`.State`."""
    leads: bool
    serves: bool
    """Whether it may deliver and answer."""
    leader: str
    """The author of the last TAKE that counts; empty before the first."""
    epoch: int
    """The epoch of that; -1 before the first."""
    number: int
    """The number of the last record in the directory."""
    under_way: int
    """A leader's records without a receipt."""
    lag_records: int
    """Records that count, have been read by this node, and are not in the directory."""
    lag_bytes: int
    """The bytes of the commits among those."""
    lag_s: float
    """The age of the directory's content by this node's clock, counted from the leader's stamp; 0
    on a leader. Heartbeats come every second."""
    skew_ms: int
    """How far this node's clock is ahead of the leader's; negative: behind; 0 on a leader."""
    skew_alarm: bool
    """Whether the clocks are so far apart that times to live and delays would shift when another
    node leads."""
    why: str
    """Why this node last stopped, or lost leadership."""
    trim_alarm: str
    """Why the topic is no longer trimmed; empty if nothing is wrong."""
    members: Sequence[MemberStatistics]
    """The nodes that have a copy or are being given one; a leader knows by reports, the others a
    minute later."""


def statistics_of(
    node: Node,
    settings: ShardSettings,
    applied: Applied,
    membership: Membership,
    now: float,
    clock_ms: int,
    unapplied: int,
) -> ShardStatistics:
    """Return a node's statistics at this instant. ``unapplied``: bytes of commits that were read
    and are not in the directory."""
    leader, window = node.reader.leader, node.window
    is_following = window is None and applied.link.number > 0
    lag_ms = max(0, clock_ms - applied.stamp_ms) if is_following else 0
    return ShardStatistics(
        shard=settings.shard,
        node=settings.node,
        state=node.state.name.lower(),
        leads=node.state is State.LEADING,
        serves=node.serves(now),
        leader="" if leader is None else leader.take.node,
        epoch=node.reader.epoch,
        number=applied.link.number,
        under_way=0 if window is None else window.under_way,
        lag_records=0 if window is not None else node.reader.link.number - applied.link.number,
        lag_bytes=unapplied,
        lag_s=lag_ms / 1_000,
        skew_ms=0 if window is not None else node.skew.skew_ms,
        skew_alarm=window is None and node.skew.is_alarming,
        why=node.leadership.why,
        trim_alarm=membership.alarm,
        members=[
            MemberStatistics(
                name, each.report.number, each.report.is_copying,
                max(0, clock_ms - each.heard_ms) / 1_000,
            )
            for name, each in sorted(membership.members.by_node.items())
        ],
    )  # fmt: skip


def who_leads(node: Node, name: str, now: float, *, lets_in: bool) -> Placement:
    """Return who leads, as the node of that name knows it. ``lets_in``: its own broker admits
    clients."""
    if node.window is not None or node.state is State.CLOSING:
        if not lets_in or node.state is not State.LEADING:
            return NOBODY
        return HERE if node.serves(now) else UNHEARD
    leader = node.reader.leader
    if leader is None or node.leadership.silence.is_over(now):
        return NOBODY
    take = leader.take
    if take.node == name:
        return NOBODY  # it was this node, in an earlier run
    addresses = {each: at for each, at in leader.addresses if each in NODE_ADDRESSES}
    return Elsewhere(NodeAddresses(take.node, **addresses), take.epoch)
