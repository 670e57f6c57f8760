"""Handed over: the entry points of a broker without listeners, for whoever accepts its clients.

The rule: an entry point exists only while the broker serves, so it is looked up for each client.
Only a cluster has such brokers, but nothing here knows the cluster.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from arneb_core.api.nodes.placement import Placements

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
"""How long to wait for AMQP clients that were told to close. Another node and all clients wait
meanwhile, and many clients answer only when they next use the connection."""


class Share(Protocol):
    """One broker's share of vhosts, namespaces and users, where there can be several brokers."""

    @property
    def belonging(self) -> "Belonging":
        """Return the share as the access catalogue sees it."""
        ...

    def misplaced(self, namespace: str) -> str:
        """Return why a namespace belongs to another broker; empty if it does not."""
        ...

    async def seed(self, wanted: "Seed") -> "Seed":
        """Return which of the settings' vhosts and users its catalogue begins with."""
        ...

    def check(self, catalogue: "Catalogue", topics: Iterable[str]) -> None:
        """Raise :class:`ValueError` if something stored here belongs to another broker."""
        ...

    async def catch_up(self) -> None:
        """Wait until all users that other brokers made before this call are known here. Raises
        :class:`.UsersUnknown`."""
        ...

    async def begin(self, catalogue: "Catalogue", nursery: trio.Nursery) -> None:
        """Copy the users that other brokers know, now and from now on."""
        ...

    async def begin_tenants(self, context: "BrokerContext", nursery: trio.Nursery) -> None:
        """Do the same for Pulsar's tenants, and for what else belongs to no namespace."""
        ...

    async def load_definitions(
        self, catalogue: "Catalogue", topology: "Topology", path: Path
    ) -> None:
        """Import this broker's part of the definitions that the settings name. Raises
        :class:`ValueError`."""
        ...


@dataclass(slots=True)
class HandedOver:
    """The entry points of one node's broker, and of each broker after it."""

    node: str
    """The node's name in its cluster."""
    placements: Placements
    """Who serves what."""
    admitting: "Admitting"
    """The entry point for AMQP clients."""
    figures: Callable[[], str]
    """Returns the node's own metrics, beside the broker's."""
    membership: Callable[[], dict[str, Any]]
    """Returns the node's state in its cluster, for operators."""
    share: Share
    """The broker's share of the vhosts, namespaces and users."""
    collecting: trio.Lock = field(default_factory=trio.Lock)
    """Held by the one broker that collects garbage in this process, where there can be several."""
    occupancy: "list[Occupancy]" = field(default_factory=list)
    """The AMQP connections of each broker of this node."""
    label: str = ""
    """The shard's name in logs, where there are several shards."""
    goodbye_s: float = GOODBYE_S
    pulsar: "PulsarServer | None" = None
    everywhere: "ASGIApp | None" = None
    """The HTTP application that answers for all shards; only the first of several shards has it."""
    http: "dict[str, HttpServer]" = field(default_factory=dict)
    """HTTP servers by listener name."""

    def serving(self, name: str) -> "Callable[[HttpServer | None], None]":
        """Return a callback for the HTTP server of a listener, and for None when it closes."""
        return partial(self._serves, name)

    def _serves(self, name: str, server: "HttpServer | None") -> None:
        if server is None:
            self.http.pop(name, None)
        else:
            self.http[name] = server
