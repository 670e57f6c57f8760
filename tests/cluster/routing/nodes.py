"""Two nodes in one process, each with its own broker behind a reception and an internal port, in a
thread for blocking clients. The test says which node leads."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

import pika
import trio

from arneb.clustered.ports.routing import AMQP, AmqpClients
from arneb_amqp.config import Adjustable, AmqpConfig
from arneb_amqp.server import serve_amqp
from arneb_amqp.server.admission.reception import serve_reception
from arneb_amqp.server.admitted import Admitting
from arneb_amqp.server.roster import Roster
from arneb_amqp.topology.seeding import open_catalogue
from arneb_amqp.topology.topology import Topology
from arneb_cluster.routing.division import Division
from arneb_cluster.routing.internal_port import InternalPort, serve_internal
from arneb_cluster.routing.internal_protocol import Secret
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.routing.leaders import Leaders
from arneb_cluster.routing.onward import OnwardByLeader
from arneb_cluster.routing.relaying import Relays
from arneb_core.access.authority import Authority
from arneb_core.access.internal import InternalBackend
from arneb_core.access.namespaces import proposed_namespace
from arneb_core.api.nodes.placement import HERE, NOBODY, Elsewhere, NodeAddresses
from arneb_core.engine.engine import Engine, open_engine

T = TypeVar("T")

SECRET = Secret(b"the secret of the nodes of a test, which is long enough")
SHARD = "main"


@dataclass
class Node:
    """One node."""

    name: str
    settings: InternalSettings
    wait_s: float = 0.3
    config: AmqpConfig = field(default_factory=AmqpConfig)
    leaders: Leaders = field(default_factory=lambda: Leaders(Division(SHARD)))
    admitting: Admitting = field(default_factory=Admitting)
    roster: Roster = field(default_factory=Roster)
    relays: Relays = field(default_factory=Relays)
    port: int = 0
    """Where clients connect."""
    internal_port: int = 0
    engine: Engine = field(init=False, repr=False)
    topology: Topology = field(init=False, repr=False)
    internal: InternalPort = field(init=False, repr=False)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    """The scope of everything that it does."""

    @property
    def addresses(self) -> NodeAddresses:
        return NodeAddresses(self.name, internal=f"127.0.0.1:{self.internal_port}")

    def connect(self, **parameters: object) -> pika.BlockingConnection:
        """A client of this node."""
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, **parameters)
        )

    async def run(self, path: Path, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve until cancelled."""
        with self.scope:
            async with open_engine(path) as engine, trio.open_nursery() as nursery:
                self.engine = engine
                catalogue = await open_catalogue(engine, self.config)
                self.topology = await Topology.open(engine, catalogue, self.config)
                adjustable = Adjustable(self.config)
                authority = Authority(
                    [InternalBackend(catalogue.tables)], adjustable.is_loopback_only
                )
                await nursery.start(
                    partial(
                        serve_amqp, engine, [], config=self.config, topology=self.topology,
                        authority=authority, roster=self.roster, admitting=self.admitting,
                    )
                )  # fmt: skip
                clients = AmqpClients(
                    self.name, self.leaders, proposed_namespace, lambda _: self.admitting
                )
                onward = OnwardByLeader(
                    self.settings, self.leaders, self.relays, clients.clients, self.wait_s
                )
                self.internal = InternalPort(self.settings, {AMQP: clients})
                internal = await trio.open_tcp_listeners(self.internal_port, host="127.0.0.1")
                self.internal_port = internal[0].socket.getsockname()[1]
                await nursery.start(serve_internal, self.internal, internal)
                listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
                self.port = listeners[0].socket.getsockname()[1]
                await nursery.start(serve_reception, listeners, onward, adjustable, authority)
                task_status.started()


@dataclass
class Nodes:
    """Both of them."""

    first: Node
    second: Node
    token: trio.lowlevel.TrioToken = field(init=False)

    def call(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Run ``function`` in the nodes' event loop."""
        return trio.from_thread.run(function, *arguments, trio_token=self.token)

    def do(self, function: Callable[..., T], *arguments: object) -> T:
        """The same for a function that does not wait."""
        return trio.from_thread.run_sync(function, *arguments, trio_token=self.token)

    def lead(self, leader: Node | None) -> None:
        """From now on that node leads, or none."""
        self.do(self.say, leader)

    def say(self, leader: Node | None, epoch: int = 0) -> None:
        """Like :meth:`lead`, in the nodes' event loop."""
        for node in (self.first, self.second):
            if leader is None:
                node.leaders.say(SHARD, NOBODY)
            elif leader is node:
                node.leaders.say(SHARD, HERE)
            else:
                node.leaders.say(SHARD, Elsewhere(leader.addresses, epoch))

    async def serve(self, path: Path, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve both until cancelled; the first leads."""
        async with trio.open_nursery() as nursery:
            for node in (self.first, self.second):
                await nursery.start(partial(node.run, path / node.name))
            self.say(self.first)
            task_status.started()


def two_nodes(**changed: Any) -> Nodes:
    """Two that are not started, with these settings."""
    settings = [InternalSettings(name, SECRET) for name in ("first", "second")]
    return Nodes(*(Node(each.node, each, **changed) for each in settings))


@contextmanager
def in_thread(nodes: Nodes, path: Path) -> Iterator[Nodes]:
    """Both serve in their own thread."""
    ready, failures = Event(), []
    scope: list[trio.CancelScope] = []

    async def main() -> None:
        nodes.token = trio.lowlevel.current_trio_token()
        with trio.CancelScope() as whole:
            scope.append(whole)
            async with trio.open_nursery() as nursery:
                await nursery.start(partial(nodes.serve, path))
                ready.set()

    def run() -> None:
        try:
            trio.run(main)
        except BaseException as error:
            failures.append(error)
        finally:
            ready.set()

    thread = Thread(target=run)
    thread.start()
    assert ready.wait(20)
    try:
        if not failures:
            yield nodes
    finally:
        if scope and not failures:
            nodes.token.run_sync_soon(scope[0].cancel)
        thread.join(20)
        assert not thread.is_alive(), "the nodes did not stop"
        if failures:
            raise failures[0]
