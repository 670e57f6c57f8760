"""Leaders: which node leads each shard, as this node knows it, and which shard a namespace is in.

The rule: whoever follows the commit topics says who leads, and everybody else asks here. What is
said here is a hint: a node that is asked to serve looks at its own leadership.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from arneb_core.api.callbacks import call
from arneb_core.api.placement import NOBODY, Elsewhere, Here, Nobody, Placement

EVERYTHING_ELSE: Final = "*"
"""In the place of a namespace: those that no shard names."""


class Leaders:
    """Who leads. Fulfils :class:`~arneb_core.api.placement.Placements`."""

    def __init__(self, shard_of: Mapping[str, str]) -> None:
        """``shard_of``: the shard of each namespace; that of :data:`EVERYTHING_ELSE` has all
        others."""
        self._shard_of = dict(shard_of)
        self._placements: dict[str, Placement] = {}
        self._listeners: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        led = ", ".join(f"{shard}: {_shown(each)}" for shard, each in self._placements.items())
        return f"<Leaders {led or 'of nothing'}>"

    def shard_of(self, namespace: str) -> str | None:
        """The shard that a namespace is in, if it is in one."""
        return self._shard_of.get(namespace, self._shard_of.get(EVERYTHING_ELSE))

    def of(self, namespace: str) -> Placement:
        """Who serves it at this instant."""
        shard = self.shard_of(namespace)
        return NOBODY if shard is None else self._placements.get(shard, NOBODY)

    def of_shard(self, shard: str) -> Placement:
        """Who leads a shard at this instant."""
        return self._placements.get(shard, NOBODY)

    def say(self, shard: str, placement: Placement) -> None:
        """From now on it is led there. Whoever listens is told if that is news."""
        if self.of_shard(shard) == placement:
            return
        self._placements[shard] = placement
        for listener in list(self._listeners):
            call(listener)

    def listen(self, changed: Callable[[], None]) -> None:
        """Call it whenever an answer may be another."""
        self._listeners.append(changed)

    def leave(self, changed: Callable[[], None]) -> None:
        """Call it no more."""
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
