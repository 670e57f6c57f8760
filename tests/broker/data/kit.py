"""What the data API's tests share: a broker's HTTP port, over an engine, with its clients in
threads."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio
from tests.amqp_frontend.opening import open_topology

from arneb.data.limits import DEFAULT_DATA_LIMITS, DataLimits
from arneb.data.rights import RightsOf, everything
from arneb.data.service import DataService
from arneb.http.app import http_app
from arneb.http.server import serve_http
from arneb_amqp.config import AmqpConfig
from arneb_amqp.topology.topology import Topology
from arneb_core.api.clock import wall_clock_ms
from arneb_core.engine.engine import Engine, open_engine
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.context import make_context
from pyspark_arneb.service.connection import Address, ask, close_connections

T = TypeVar("T")


class Served:
    """A broker's engine, its data API and where that is."""

    def __init__(
        self, engine: Engine, topology: Topology, data: DataService, address: Address
    ) -> None:
        self.engine = engine
        self.topology = topology
        self.data = data
        self.address = address

    async def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Have a client do something in a thread."""

        def calls() -> T:
            try:
                return function(*args, **kwargs)
            finally:
                close_connections()  # the thread may serve another test next

        return await trio.to_thread.run_sync(calls)

    async def ask(self, method: str, path: str, **what: Any) -> Any:
        """Send one request."""
        return await self.call(partial(ask, self.address, method, path, **what))


@asynccontextmanager
async def served(
    path: Path,
    *,
    rights_of: RightsOf = everything,
    now_ms: Callable[[], int] = wall_clock_ms,
    limits: DataLimits = DEFAULT_DATA_LIMITS,
) -> AsyncIterator[Served]:
    """The data API over a data directory, while the block runs."""
    async with open_engine(path) as engine:
        topology = await open_topology(engine, AmqpConfig(vhosts=("/", "other")))
        pulsar = make_context(engine, PulsarConfig())
        data = DataService(
            engine, topology, pulsar, limits=limits, rights_of=rights_of, now_ms=now_ms
        )
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            app = http_app(engine, more=data.routes)
            await nursery.start(partial(serve_http, app, listeners, larger=data.bodies))
            yield Served(engine, topology, data, Address(f"http://127.0.0.1:{port}"))
            nursery.cancel_scope.cancel()
