"""Two nodes that serve Pulsar, each with its own broker, in a thread for blocking clients. The test
says which node leads."""

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio
from tests.cluster.routing.nodes import SECRET, Node, Nodes

from arneb.clustered.ports.routing import PULSAR, PulsarClients
from arneb_cluster.routing.internal_port import InternalPort, serve_internal
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.routing.onward import OnwardByLeader
from arneb_core.api.connections.listening import serve_listeners
from arneb_core.api.nodes.placement import NodeAddresses
from arneb_core.engine.engine import open_engine
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.server import PulsarServer
from arneb_pulsar.server.arrivals import arrive
from arneb_pulsar.services.context import make_context


@dataclass
class PulsarNode(Node):
    """One node."""

    pulsar: PulsarConfig = field(default_factory=PulsarConfig)
    server: PulsarServer | None = None
    advertises: bool = True
    """The address that clients are given."""

    @property
    def addresses(self) -> NodeAddresses:
        url = f"pulsar://127.0.0.1:{self.port}" if self.advertises else ""
        return NodeAddresses(self.name, f"127.0.0.1:{self.internal_port}", url)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"pulsar://127.0.0.1:{self.port}"

    async def run(self, path: Path, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled."""
        with self.scope:
            async with open_engine(path) as engine, trio.open_nursery() as nursery:
                self.engine = engine
                context = make_context(engine, self.pulsar)
                context.ownership.follow(self.leaders, self.name)
                self.server = PulsarServer(context)
                await nursery.start(self.server.serve, [])
                listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
                self.port = listeners[0].socket.getsockname()[1]
                internal = await trio.open_tcp_listeners(self.internal_port, host="127.0.0.1")
                self.internal_port = internal[0].socket.getsockname()[1]
                clients = PulsarClients(
                    self.addresses, self.leaders, lambda _: self.server, must_prove=False
                )
                onward = OnwardByLeader(
                    self.settings, self.leaders, self.relays, clients.clients, self.wait_s
                )
                self.internal = InternalPort(self.settings, {PULSAR: clients})
                await nursery.start(serve_internal, self.internal, internal)

                async def accepted(stream: trio.SocketStream) -> None:
                    await arrive(stream, self.pulsar, partial(clients.receive, onward))

                await nursery.start(serve_listeners, accepted, listeners)
                task_status.started()


def two_pulsar_nodes(*, advertises: bool = True) -> Nodes:
    """Two that are not started."""
    names = "first", "second"
    return Nodes(
        *(PulsarNode(name, InternalSettings(name, SECRET), advertises=advertises) for name in names)
    )
