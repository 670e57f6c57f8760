"""Observing: what others are told of a shard on this node: who leads it, and how it does.

The rule: nothing is decided here; what is told is what the machine knows at that instant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

from arneb_cluster.membership import Membership
from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.node import Node
from arneb_cluster.protocol.values import Applied
from arneb_cluster.settings import ShardSettings
from arneb_core.api.placement import HERE, NOBODY, UNHEARD, Elsewhere, NodeAddresses, Placement

NODE_ADDRESSES: Final = {each.name for each in fields(NodeAddresses)} - {"node"}
"""What is understood of where a leader is; later versions may tell more."""


@dataclass(frozen=True, slots=True)
class MemberStatistics:
    """A member, as this node knows it."""

    node: str
    number: int
    """Of the last record that it has on disk, or that its copy will have at least."""
    is_copying: bool
    """It has nothing yet, and is being given a copy."""
    heard_s: float
    """When it was heard of last, ago."""


@dataclass(frozen=True, slots=True)
class ShardStatistics:
    """How a shard does on this node."""

    shard: str
    node: str
    state: str
    """Where this node stands, as :class:`.State` calls it."""
    leads: bool
    serves: bool
    """It may deliver and answer."""
    leader: str
    """The node that wrote the last TAKE that counts; empty before the first."""
    epoch: int
    """Of that; -1 before the first."""
    number: int
    """Of the last record that the directory has."""
    under_way: int
    """Records of a leader that have no receipt yet."""
    lag_records: int
    """That count, as far as this node has read, and are not in the directory."""
    lag_bytes: int
    """Of the commits among those."""
    lag_s: float
    """How old what the directory has is by this node's clock, from the leader's stamp on; of a
    leader 0. Heartbeats come each second."""
    skew_ms: int
    """How far this node's clock is ahead of the leader's; negative: behind; of a leader 0."""
    skew_alarm: bool
    """They are further apart than times to live and delays should move when another leads."""
    why: str
    """Why this node stopped, or led no more, the last time that it did."""
    trim_alarm: str
    """Why the topic is not trimmed any more; empty if nothing is wrong."""
    members: Sequence[MemberStatistics]
    """Who has a copy, or is being given one; what a leader is told, and others know a minute
    later."""


def statistics_of(
    node: Node,
    settings: ShardSettings,
    applied: Applied,
    membership: Membership,
    now: float,
    clock_ms: int,
    unapplied: int,
) -> ShardStatistics:
    """A node's part at this instant. ``unapplied``: bytes of commits that were read and are not in
    the directory."""
    standing, window = node.reader.standing, node.window
    is_following = window is None and applied.link.number > 0
    lag_ms = max(0, clock_ms - applied.stamp_ms) if is_following else 0
    return ShardStatistics(
        shard=settings.shard,
        node=settings.node,
        state=node.state.name.lower(),
        leads=node.state is State.LEADING,
        serves=node.serves(now),
        leader="" if standing is None else standing.take.node,
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
    """Who leads, as the node of that name knows it. ``lets_in``: its own broker takes clients."""
    if node.window is not None or node.state is State.CLOSING:
        if not lets_in or node.state is not State.LEADING:
            return NOBODY
        return HERE if node.serves(now) else UNHEARD
    standing = node.reader.standing
    if standing is None or node.leadership.silence.is_over(now):
        return NOBODY
    take = standing.take
    if take.node == name:
        return NOBODY  # it was this node, in a life before
    told = {each: at for each, at in standing.addresses if each in NODE_ADDRESSES}
    return Elsewhere(NodeAddresses(take.node, **told), take.epoch)
