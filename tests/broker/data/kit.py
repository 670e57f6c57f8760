"""What the data API's tests share: a broker's HTTP port, over an engine, with its clients in
threads."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio
from tests.amqp_frontend.opening import open_topology

from arneb.data.rights import RightsOf, everything
from arneb.data.service import DataService
from arneb.http.app import http_app
from arneb.http.server import serve_http
from arneb_amqp.config import AmqpConfig
from arneb_core.api.clock import wall_clock_ms
from arneb_core.engine.engine import Engine, open_engine
from pyspark_arneb.service.connection import Address, ask, close_connections

T = TypeVar("T")


class Served:
    """A broker's engine, its data API and where that is."""

    def __init__(self, engine: Engine, data: DataService, address: Address) -> None:
        self.engine = engine
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
) -> AsyncIterator[Served]:
    """The data API over a data directory, while the block runs."""
    async with open_engine(path) as engine:
        topology = await open_topology(engine, AmqpConfig(vhosts=("/", "other")))
        data = DataService(engine, topology, rights_of, now_ms)
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_http, http_app(engine, more=data.routes), listeners)
            yield Served(engine, data, Address(f"http://127.0.0.1:{port}"))
            nursery.cancel_scope.cancel()
