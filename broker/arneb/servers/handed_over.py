"""Handed over: what a broker without listeners gives to whoever receives its clients.

The rule: it is there while the broker serves and gone with it; who hands clients over asks each
time. Nothing of the cluster is known here, which is the one that has such a broker.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from arneb_core.api.placement import Placements

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from arneb.http.server.server import HttpServer
    from arneb_amqp.server.admission.occupancy import Occupancy
    from arneb_amqp.server.admitted import Admitting
    from arneb_amqp.topology.topology import Topology
    from arneb_core.access.belonging import Belonging
    from arneb_core.access.catalogue import Catalogue
    from arneb_core.access.seed import Seed
    from arneb_pulsar.server import PulsarServer
    from arneb_pulsar.services.context import BrokerContext

GOODBYE_S: Final = 0.3
"""How long clients of AMQP that were told to go are waited for. Another node waits for the end of
it, and all clients with it; many of them answer only when they are about something else again."""


class Share(Protocol):
    """What of everything one broker has, where there can be several."""

    @property
    def belonging(self) -> "Belonging":
        """The same for its catalogue."""
        ...

    def misplaced(self, namespace: str) -> str:
        """Why a namespace is another's; empty: it is not."""
        ...

    async def seed(self, wanted: "Seed") -> "Seed":
        """What of the settings' vhosts and users its catalogue begins with."""
        ...

    def check(self, catalogue: "Catalogue", topics: Iterable[str]) -> None:
        """Raise :class:`ValueError` for what is stored here and is another's."""
        ...

    async def catch_up(self) -> None:
        """Know whoever was made elsewhere before this was asked. Raises
        :class:`.UsersUnknown`."""
        ...

    async def begin(self, catalogue: "Catalogue", nursery: trio.Nursery) -> None:
        """Have whoever is known elsewhere known here, and from now on."""
        ...

    async def begin_tenants(self, context: "BrokerContext", nursery: trio.Nursery) -> None:
        """The same of tenants of Pulsar's, and of what else is no namespace's."""
        ...

    async def load_definitions(
        self, catalogue: "Catalogue", topology: "Topology", path: Path
    ) -> None:
        """Take in what of the settings' definitions is this broker's. Raises
        :class:`ValueError`."""
        ...


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
    share: Share
    """What of everything the broker has."""
    collecting: trio.Lock = field(default_factory=trio.Lock)
    """Of whoever looks for garbage in this process, where there can be several brokers."""
    occupancy: "list[Occupancy]" = field(default_factory=list)
    """Who is in by AMQP, at each broker of this node."""
    label: str = ""
    """The shard's name as logs have it, where there are several."""
    goodbye_s: float = GOODBYE_S
    pulsar: "PulsarServer | None" = None
    everywhere: "ASGIApp | None" = None
    """What answers over HTTP for all shards, of the first of several."""
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
