"""Settings: what a shard is, a node's part in it, and by which clock it goes."""

import time
from dataclasses import dataclass, field

from arneb_cluster.protocol.members import Copies


@dataclass(frozen=True, slots=True)
class ShardSettings:
    """One shard, and this node's part in it."""

    shard: str
    node: str
    topic: str
    """The complete name of the log topic."""
    addresses: dict[str, str] = field(default_factory=dict)
    """Where clients are to go: fields of :class:`~arneb_core.api.placement.NodeAddresses`."""
    copies: Copies = field(default_factory=Copies)
    priority: int = 0
    """Among the nodes that may lead; the lowest is asked first."""

    @property
    def election_topic(self) -> str:
        return f"{self.topic}-election"

    @property
    def members_topic(self) -> str:
        """By which members tell what they have."""
        return f"{self.topic}-members"


def boot_s() -> float:
    """A clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
