"""Handing over: a leader passes leadership to an up-to-date node, and waits until that node leads.

The rule: nothing is given up before the successor is known. From then on no clients are admitted,
everything under way is stored, and the last record names the successor, which need not wait for any
lease.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import trio

from arneb_cluster.protocol.leadership import State
from arneb_cluster.protocol.successor import NoSuccessor, successor_of
from arneb_cluster.shard import Shard
from arneb_core.api.nodes.placement import Elsewhere

RESIGN_S: Final = 10.0
"""What is not stored by then is abandoned, and the next leader waits for silence."""

FOLLOWED_S: Final = 20.0
"""The time by which some node leads again, even if not the successor, or none will."""

HEAR_S: Final = 0.2
"""The interval at which a new leader checks which nodes have reported."""


class NotHandedOver(Exception):
    """This node leads as before, or no leader is known; the text is for the operator."""


class HandedOver(NamedTuple):
    """Another node leads."""

    node: str
    epoch: int
    took_s: float
    """From the end of admission at this node until it read that the other leads."""


async def hand_over(shard: Shard, wanted: str, now_ms: Callable[[], int]) -> HandedOver:
    """Hand a shard over to that node, or if empty to the most up-to-date one. Raises
    :class:`NotHandedOver`."""
    name, own = shard.settings.shard, shard.settings.node
    successor = await _successor(shard, wanted, now_ms)
    epoch = shard.node.reader.epoch
    begun = trio.current_time()
    await shard.resign(f"handed over to {successor}", RESIGN_S, successor)
    with trio.move_on_after(FOLLOWED_S):
        while not (isinstance(found := shard.placement, Elsewhere) and found.epoch > epoch):
            await shard.changed()
        return HandedOver(found.addresses.node, found.epoch, trio.current_time() - begun)
    raise NotHandedOver(f"nobody leads shard '{name}' {FOLLOWED_S:g} s after node '{own}' resigned")


async def _successor(shard: Shard, wanted: str, now_ms: Callable[[], int]) -> str:
    """Choose the successor. A new leader knows the others from its directory, up to a minute old;
    each reports within seconds."""
    name, own = shard.settings.shard, shard.settings.node
    while shard.state is State.LEADING:
        members, number = shard.membership.members, shard.replica.applied.link.number
        try:
            return successor_of(members, own, wanted, number, now_ms())
        except NoSuccessor as error:
            if not error.may_pass or shard.membership.is_settled:
                text = f"shard '{name}' stays with node '{own}': {error}"
                raise NotHandedOver(text) from error
        await trio.sleep(HEAR_S)
    raise NotHandedOver(f"node '{own}' does not lead shard '{name}'{_who(shard)}")


def _who(shard: Shard) -> str:
    found = shard.placement
    return f": ask node '{found.addresses.node}'" if isinstance(found, Elsewhere) else ""
