"""Placement: which node serves a namespace, and where that node is reached.

The rule: values and protocols only, so that a frontend learns of other nodes from whoever starts it
and knows nothing of how nodes agree. A single node has no placements.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

import trio


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """How others reach a node. An empty address is not served there, or not told to others."""

    node: str
    """Its name."""
    internal: str = ""
    """Where other nodes forward clients to it, as ``host:port``."""
    pulsar: str = ""
    """As ``pulsar://host:port``."""
    pulsar_tls: str = ""
    """As ``pulsar+ssl://host:port``."""
    http: str = ""
    """As ``http://host:port``: the management API and the data API."""
    http_pulsar: str = ""
    """Pulsar's admin API likewise."""


@dataclass(frozen=True, slots=True)
class Here:
    """This node serves the namespace."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Another node serves the namespace."""

    addresses: NodeAddresses
    epoch: int = 0
    """Numbers successive leaderships: the same node may lead again."""


@dataclass(frozen=True, slots=True)
class Nobody:
    """No node serves the namespace at the moment."""

    is_unheard: bool = False
    """This node leads but its log does not answer: another may lead without this one knowing."""


Placement = Here | Elsewhere | Nobody

HERE: Final = Here()
NOBODY: Final = Nobody()
UNHEARD: Final = Nobody(is_unheard=True)

UNHEARD_WAIT_S: Final = 2.0
"""Longest wait at a node that leads and is not heard. If only it is cut off, another node leads by
then, and a client that comes again finds that one."""


class NotServed(Exception):
    """No node serves it, or none that does can be reached. The text is for the client."""


class Placements(Protocol):
    """Says where namespaces are served. Belongs to the event loop."""

    def of(self, namespace: str) -> Placement:
        """Return who serves it at this instant."""
        ...

    def listen(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever an answer may have changed."""
        ...

    def leave(self, changed: Callable[[], None]) -> None:
        """Stop calling ``changed``."""
        ...


async def placement_within(placements: Placements, namespace: str, wait_s: float) -> Placement:
    """Return who serves it, now or after a wait of at most ``wait_s``: while one node takes over
    from another, waiting serves clients better than coming again and again."""
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
