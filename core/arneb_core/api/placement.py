"""Placement: which node serves a namespace, and where that node is reached.

The rule: values and protocols only, so that a frontend can be told of other nodes by whoever starts
it and knows nothing of how nodes agree. A node that is alone is not asked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import trio


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """How others reach a node. What is empty is not served there, or not told to others."""

    node: str
    """Its name."""
    internal: str = ""
    """Where other nodes bring it clients, as ``host:port``."""
    pulsar: str = ""
    """As ``pulsar://host:port``."""
    pulsar_tls: str = ""
    """As ``pulsar+ssl://host:port``."""
    http: str = ""
    """As ``http://host:port``: the management API and the data API."""
    http_pulsar: str = ""
    """The same of Pulsar's admin API."""


@dataclass(frozen=True, slots=True)
class Here:
    """This node serves it."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another node serves it."""

    addresses: NodeAddresses
    epoch: int = 0
    """Which of the leaderships that followed one another: the same node may lead again."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """No node serves it at the moment."""

    is_unheard: bool = False
    """This node leads, and its log does not answer: another one may lead, and this one would not
    know."""


Placement = Here | Elsewhere | Nobody

HERE: Final = Here()
NOBODY: Final = Nobody()
UNHEARD: Final = Nobody(is_unheard=True)

UNHEARD_WAIT_S: Final = 2.0
"""How long one waits at the most at a node that leads and is not heard. If it is cut off by itself
another leads by then, and who comes again finds that one."""


class NotServed(Exception):
    """Nobody serves it, or nobody who does can be reached. The text is for the client."""


class Placements(Protocol):
    """Says where namespaces are served. Belongs to the event loop."""

    def of(self, namespace: str) -> Placement:
        """Who serves it at this instant."""
        ...

    def listen(self, changed: Callable[[], None]) -> None:
        """Call it whenever an answer may be another."""
        ...

    def leave(self, changed: Callable[[], None]) -> None:
        """Call it no more."""
        ...


async def placement_within(placements: Placements, namespace: str, wait_s: float) -> Placement:
    """Who serves it, or will after a wait of so long at the most: while one node takes over from
    another, clients that wait are better served than clients that come again and again."""
    found = placements.of(namespace)
    if not isinstance(found, Nobody):
        return found
    changed, began = trio.Event(), trio.current_time()

    def note() -> None:
        changed.set()

    placements.listen(note)
    try:
        with trio.CancelScope() as scope:
            while isinstance(found, Nobody):
                changed = trio.Event()
                found = placements.of(namespace)
                if isinstance(found, Nobody):
                    longest_s = UNHEARD_WAIT_S if found.is_unheard else wait_s
                    scope.deadline = began + min(wait_s, longest_s)
                    await changed.wait()
    finally:
        placements.leave(note)
    return found
