"""Observing: what others are told of a shard on this node: who leads it, and how it does.

The rule: nothing is decided here; what is told is what the machine knows at that instant.
"""

from dataclasses import dataclass, fields
from typing import Final

from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.node import Node
from arneb_cluster.protocol.values import Applied
from arneb_cluster.settings import ShardSettings
from arneb_core.api.placement import HERE, NOBODY, Elsewhere, NodeAddresses, Placement

NODE_ADDRESSES: Final = {each.name for each in fields(NodeAddresses)} - {"node"}
"""What is understood of where a leader is; later versions may tell more."""


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
    why: str
    """Why this node stopped, or led no more, the last time that it did."""


def statistics_of(
    node: Node, settings: ShardSettings, applied: Applied, now: float
) -> ShardStatistics:
    """A node's part at this instant."""
    standing = node.reader.standing
    return ShardStatistics(
        shard=settings.shard,
        node=settings.node,
        state=node.state.name.lower(),
        leads=node.state is State.LEADING,
        serves=node.serves(now),
        leader="" if standing is None else standing.take.node,
        epoch=node.reader.epoch,
        number=applied.link.number,
        why=node.leadership.why,
    )


def who_leads(node: Node, name: str, now: float, *, lets_in: bool) -> Placement:
    """Who leads, as the node of that name knows it. ``lets_in``: its own broker takes clients."""
    if node.window is not None or node.state is State.CLOSING:
        return HERE if lets_in and node.state is State.LEADING else NOBODY
    standing = node.reader.standing
    if standing is None or node.leadership.silence.may_try(now):
        return NOBODY
    take = standing.take
    if take.node == name:
        return NOBODY  # it was this node, in a life before
    told = {each: at for each, at in standing.addresses if each in NODE_ADDRESSES}
    return Elsewhere(NodeAddresses(take.node, **told), take.epoch)
