"""A topology over a real engine in a temporary directory, whose store can be made to fail."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.amqp_frontend.opening import open_topology

from arneb_amqp.topology.queues.declaration import ConnectionId, Declaration
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_amqp.wire.tables import Table
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.engine.engine import Engine, open_engine
from arneb_core.store.environment import Store
from arneb_core.testing.faults import FaultyStore

ME, OTHER = ConnectionId(1), ConnectionId(2)


@dataclass
class RunningVhost:
    """One vhost of a broker that runs during a test."""

    engine: Engine
    topology: Topology
    faults: FaultyStore
    vhost: Vhost

    async def declare(
        self,
        name: str = "q",
        *,
        owner: ConnectionId = ME,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Table | None = None,
    ) -> Queue:
        wanted = Declaration(
            owner, name, durable and not exclusive, exclusive, auto_delete, arguments or {}
        )
        async with self.topology.changing():
            return await self.vhost.queues.declare(wanted)


@dataclass
class Box:
    """A sink that keeps what it gets."""

    runs: list[Deliveries] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def deliver(self, run: Deliveries) -> None:
        self.runs.append(run)

    def active_changed(self, active: bool) -> None:
        """The tests never ask."""

    def closed_by_core(self, reason: str) -> None:
        self.closed.append(reason)


Opener = Callable[[], AbstractAsyncContextManager[RunningVhost]]


@pytest.fixture
def broker(tmp_path: Path) -> Opener:
    """Opens the same directory each time it is called, as after a restart."""

    @asynccontextmanager
    async def open_vhost() -> AsyncIterator[RunningVhost]:
        store = Store.open(tmp_path / "data")
        try:
            faults = FaultyStore(store)
            async with open_engine(tmp_path / "data", store=store, committing=faults) as engine:
                topology = await open_topology(engine)
                vhost = topology.vhost("/")
                assert vhost is not None
                yield RunningVhost(engine, topology, faults, vhost)
        finally:
            store.close()

    return open_vhost
