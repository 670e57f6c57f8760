"""Leaders: which node leads each shard, as this node knows it.

The rule: the shards on this node report their leaders here, and everything else asks here. An
answer is a hint: a node that is asked to serve checks its own leadership.
"""

from collections.abc import Callable
from contextlib import suppress

from arneb_cluster.routing.division import Division
from arneb_core.api.nodes.placement import NOBODY, Elsewhere, Here, Nobody, Placement
from arneb_core.api.process.callbacks import call


class Leaders:
    """The leaders of all shards. Fulfils :class:`~arneb_core.api.nodes.placement.Placements`."""

    def __init__(self, division: Division) -> None:
        self.division = division
        self._placements: dict[str, Placement] = {}
        self._listeners: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        led = ", ".join(f"{shard}: {_shown(each)}" for shard, each in self._placements.items())
        return f"<Leaders {led or 'of nothing'}>"

    def of(self, namespace: str) -> Placement:
        """Return who serves a namespace at this instant."""
        return self.of_shard(self.division.shard_of(namespace))

    def of_shard(self, shard: str) -> Placement:
        """Return who leads a shard at this instant."""
        return self._placements.get(shard, NOBODY)

    def say(self, shard: str, placement: Placement) -> None:
        """Set a shard's leader; listeners are notified if it changed."""
        if self.of_shard(shard) == placement:
            return
        self._placements[shard] = placement
        for listener in list(self._listeners):
            call(listener)

    def listen(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever an answer may have changed."""
        self._listeners.append(changed)

    def leave(self, changed: Callable[[], None]) -> None:
        """Stop calling ``changed``."""
        with suppress(ValueError):
            self._listeners.remove(changed)


def _shown(placement: Placement) -> str:
    match placement:
        case Here():
            return "here"
        case Elsewhere(addresses, epoch):
            return f"{addresses.node} since epoch {epoch}"
        case Nobody(is_unheard):
            return "here, unheard" if is_unheard else "nobody"
