"""Handed over: what a broker without listeners gives to whoever receives its clients.

The rule: it is there while the broker serves and gone with it; who hands clients over asks each
time. Nothing of the cluster is known here, which is the one that has such a broker.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from arneb_core.api.placement import Placements

if TYPE_CHECKING:
    from arneb.http.server import HttpServer
    from arneb_amqp.server.admitted import Admitting
    from arneb_pulsar.server import PulsarServer

GOODBYE_S: Final = 0.3
"""How long clients of AMQP that were told to go are waited for. Another node waits for the end of
it, and all clients with it; many of them answer only when they are about something else again."""


@dataclass(slots=True)
class HandedOver:
    """The ways into one broker after the other, of one node."""

    node: str
    """What the node is called in its cluster."""
    placements: Placements
    """Who serves what."""
    admitting: "Admitting"
    """The way in for clients of AMQP."""
    figures: Callable[[], str]
    """Metrics of the node beside those of the broker."""
    membership: Callable[[], dict[str, Any]]
    """How the node does in its cluster, for operators."""
    goodbye_s: float = GOODBYE_S
    pulsar: "PulsarServer | None" = None
    http: "dict[str, HttpServer]" = field(default_factory=dict)
    """By the names of listeners."""

    def serving(self, name: str) -> "Callable[[HttpServer | None], None]":
        """What is told the HTTP server of a listener, and None when it takes no more."""
        return partial(self._serves, name)

    def _serves(self, name: str, server: "HttpServer | None") -> None:
        if server is None:
            self.http.pop(name, None)
        else:
            self.http[name] = server
