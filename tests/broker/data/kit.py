"""Shared by the data API's tests: a broker's HTTP port over an engine, with its clients in
threads."""

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from struct import pack
from typing import Any, TypeVar

import trio
from tests.amqp_frontend.opening import open_topology

from arneb.data.rights import RightsOf, everything
from arneb.data.service import DataService
from arneb.http.api.app import http_app
from arneb.http.server.server import serve_http
from arneb.settings.data_limits import DEFAULT_DATA_LIMITS, DataLimits
from arneb_amqp.config import AmqpConfig
from arneb_amqp.topology.topology import Topology
from arneb_core.api.entries.codec import Message, codecs
from arneb_core.api.entries.entry import Origin
from arneb_core.api.entries.position import Position, ledger_of, position_at
from arneb_core.api.process.clock import wall_clock_ms
from arneb_core.engine.engine import Engine, open_engine
from arneb_pulsar.config import PulsarConfig
from arneb_pulsar.services.context import make_context
from pyspark_arneb.service.connection import Address, ask, close_connections

T = TypeVar("T")


class Served:
    """A broker's engine, its data API and the address."""

    def __init__(
        self, engine: Engine, topology: Topology, data: DataService, address: Address
    ) -> None:
        self.engine = engine
        self.topology = topology
        self.data = data
        self.address = address

    async def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Make a client do something in a thread."""

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


def body_of(
    values: Sequence[bytes | None],
    targets: Sequence[Mapping[str, str]],
    keys: Sequence[bytes | None] = (),
    sets: Sequence[Mapping[str, Any]] = (),
    **numbers: Sequence[int],
) -> bytes:
    """Rows as a client writes them by hand."""
    names, parts = ["value"], [_texts(values)]
    if keys:
        names.append("key")
        parts.append(_texts(keys))
    codes = {"target": "I", "properties": "I", "priority": "B"}
    for name, column in numbers.items():
        names.append(name)
        parts.append(pack(f"<{len(column)}{codes.get(name, 'q')}", *column))
    head = json.dumps(
        {"rows": len(values), "columns": names, "targets": targets, "properties": sets}
    ).encode()
    return b"ARW1" + pack("<I", len(head)) + head + b"".join(parts)


def _texts(column: Sequence[bytes | None]) -> bytes:
    lengths = [-1 if each is None else len(each) for each in column]
    return pack(f"<{len(column)}i", *lengths) + b"".join(each or b"" for each in column)


async def messages(engine: Engine, name: str) -> list[Message]:
    """All messages of a topic."""
    topic, found = engine.topic(name), list[Message]()
    for info in topic.ledgers():
        place = position_at(info.id, 0)
        while ledger_of(place) == info.id and place < position_at(info.id, info.entries):
            for _, entries in await topic.read(place, 1 << 20):
                for entry in entries:
                    found += codecs()[Origin(entry[1])].decode(entry)
                place = Position(place + len(entries))
    return found


async def values(engine: Engine, name: str) -> list[bytes]:
    return [each.value for each in await messages(engine, name)]
