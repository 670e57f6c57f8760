"""Settings: a shard, a node's part in it, and its clock."""

import time
from dataclasses import dataclass, field

from arneb_cluster.protocol.members import Copies


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """One shard, and this node's part in it."""

    shard: str
    node: str
    topic: str
    """The full name of the log topic."""
    addresses: dict[str, str] = field(default_factory=dict)
    """The addresses for clients: fields of
    :class:`~arneb_core.api.nodes.placement.NodeAddresses`."""
    copies: Copies = field(default_factory=Copies)
    priority: int = 0
    """The order among nodes that may lead; the lowest comes first."""

    @property
    def election_topic(self) -> str:
        return f"{self.topic}-election"

    @property
    def members_topic(self) -> str:
        """The topic of members' reports."""
        return f"{self.topic}-members"


def boot_s() -> float:
    """Return a clock that continues while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
