"""A real server on a free loopback port, in its own thread, for blocking clients."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar
from unittest.mock import patch

import pika
import pytest
import trio

from arneb_amqp.config import AmqpConfig
from arneb_amqp.server import serve_amqp
from arneb_amqp.topology.seeding import open_catalogue
from arneb_amqp.topology.topology import Topology
from arneb_core.access.catalogue import Catalogue
from arneb_core.api.process.resource_alarms import Resource, ResourceAlarms
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.commit import inline_commits as inline_commits
from arneb_core.store.environment import Store
from arneb_core.testing.faults import FaultyStore
from arneb_core.testing.leases import GivenLease

T = TypeVar("T")


@dataclass
class Broker:
    """A running server."""

    port: int = 0
    engine: Engine = field(init=False)
    catalogue: Catalogue = field(init=False)
    topology: Topology = field(init=False)
    faults: FaultyStore = field(init=False)
    token: trio.lowlevel.TrioToken | None = None
    resource_alarms: ResourceAlarms = field(default_factory=ResourceAlarms)
    lease: GivenLease = field(default_factory=GivenLease)

    def call(self, function: Callable[..., Awaitable[T]], *arguments: object) -> T:
        """Run ``function`` in the broker's event loop."""
        return trio.from_thread.run(function, *arguments, trio_token=self.token)

    def run_short(self, *resources: Resource) -> None:
        """From now on the broker is short of these resources."""

        async def declare() -> None:
            self.resource_alarms.declare(frozenset(resources))

        self.call(declare)

    def lend(self, *, holds: bool, over: bool = False) -> None:
        """Set whether the broker may answer from now on."""

        async def say() -> None:
            self.lease.say(holds=holds, over=over)

        self.call(say)

    def connect(self, **parameters: object) -> pika.BlockingConnection:
        """A connection as pika makes one."""
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.port, **parameters)
        )


def serve_in_thread(
    path: Path, config: AmqpConfig | None = None, *, inline: bool = False
) -> Iterator[Broker]:
    """Run a server over ``path`` for as long as the caller holds the iterator open. With ``inline``
    it commits in the event loop whenever it may, however slow the disk is, and its store cannot be
    made to fail."""
    broker, ready, stop = Broker(), Event(), []
    failures: list[BaseException] = []

    async def serve() -> None:
        store = Store.open(path)
        broker.faults = FaultyStore(store)
        committing = None if inline else broker.faults
        async with open_engine(
            path, store=store, committing=committing, lease=broker.lease
        ) as engine:
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            broker.engine = engine
            settings = config or AmqpConfig()
            broker.catalogue = await open_catalogue(engine, settings)
            topology = await Topology.open(engine, broker.catalogue, settings)
            broker.topology = topology
            broker.token = trio.lowlevel.current_trio_token()
            broker.port = listeners[0].socket.getsockname()[1]
            with trio.CancelScope() as scope:
                stop.append(scope.cancel)
                async with trio.open_nursery() as nursery:

                    async def start(task_status: trio.TaskStatus[None]) -> None:
                        await serve_amqp(
                            engine,
                            listeners,
                            config=config,
                            topology=topology,
                            resource_alarms=broker.resource_alarms,
                            task_status=task_status,
                        )

                    await nursery.start(start)
                    ready.set()
            for listener in listeners:
                await listener.aclose()
        store.close()

    def main() -> None:
        try:
            trio.run(serve)
        except BaseException as error:
            failures.append(error)
        finally:
            ready.set()

    thread = Thread(target=main)
    patient = patch.multiple(inline_commits, FAST_S=60.0, STALL_S=60.0)
    with patient if inline else nullcontext():
        thread.start()
        ready.wait(10)
        try:
            if not failures:
                yield broker
        finally:
            if broker.token is not None and stop:
                broker.token.run_sync_soon(stop[0])
            thread.join(10)
            assert not thread.is_alive(), "the server did not stop"
            if failures:
                raise failures[0]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One server for all tests of a module; each test uses its own names."""
    yield from serve_in_thread(tmp_path_factory.mktemp("amqp") / "data")


@pytest.fixture
def channel(broker: Broker) -> Iterator[Any]:
    """A pika channel on a connection of its own."""
    connection = broker.connect()
    yield connection.channel()
    if connection.is_open:
        connection.close()


def wait(channel: Any, until: Callable[[], bool]) -> None:
    """Handle events until the condition holds; a loaded machine gets the time that it needs."""
    for _ in range(200):
        if until():
            return
        channel.connection.process_data_events(0.1)
    raise AssertionError("it never happened")
