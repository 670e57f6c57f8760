"""Nodes of a cluster in this process, as ``arneb serve`` creates them, and an in-memory Pulsar
service that answers admin calls."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pika
import pytest
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from arneb.clustered import member
from arneb.clustered.shards.pulsar_service import client_options
from arneb.control.serving import NotPossible
from arneb.http.server.server import serve_http
from arneb.listening.listeners import Listeners
from arneb.node.node import Node, listens
from arneb.settings.config import Config, load_config
from arneb.settings.shards import ClusterShardTable
from arneb_pulsar.client import ClientOptions
from arneb_pulsar.client.testing import FakeBroker

T = TypeVar("T")

SECRET = "the secret of the nodes of a test, which is long enough"
WITHIN_S = 30.0

GOOD: Mapping[str, Any] = {"deduplicationEnabled": True}
GOOD_BROKER: Mapping[str, str] = {"brokerDeleteInactiveTopicsEnabled": "false"}


@dataclass
class Service:
    """A Pulsar service."""

    broker: FakeBroker = field(default_factory=lambda: FakeBroker(deduplication=True))
    policies: dict[str, Any] = field(default_factory=lambda: dict(GOOD))
    settings: dict[str, str] = field(default_factory=lambda: dict(GOOD_BROKER))
    statuses: list[int] = field(default_factory=list)
    """Answers that the next admin calls get, before they are answered properly."""
    admin_url: str = ""

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Answer admin calls until cancelled."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.admin_url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        routes = [
            Route("/admin/v2/namespaces/public/arneb", self._policies),
            Route("/admin/v2/brokers/configuration/runtime", self._settings),
        ]
        await serve_http(Starlette(routes=routes), listeners, task_status=task_status)

    async def _policies(self, request: Request) -> Response:
        if self.statuses:
            return JSONResponse({"reason": "not now"}, self.statuses.pop(0))
        return JSONResponse(self.policies)

    async def _settings(self, request: Request) -> Response:
        return JSONResponse(self.settings)


class OneNode:
    """A node, started and stopped as a process would be."""

    def __init__(self, cluster: "Cluster", name: str, extra: str = "") -> None:
        self.cluster = cluster
        self.name = name
        self.extra = extra
        self.own = ""
        """Keys of ``[cluster]`` itself."""
        self.first = ""
        """Keys before all tables."""
        self.printed: list[str] = []
        self.node: Node | None = None
        self.ports: dict[str, int] = {}
        self._scope = trio.CancelScope()
        self.ended = trio.Event()

    def config(self) -> Config:
        """Its settings, from a file."""
        path, service = self.cluster.path / self.name, self.cluster.service
        path.mkdir(exist_ok=True)
        (path / "secret").write_text(SECRET)
        listen = "".join(
            f'[{table}]\nlisten = "127.0.0.1:{self.ports.get(name, 0)}"\n'
            for table, name in (
                ("amqp", "amqp"), ("pulsar", "pulsar"), ("http", "http"),
                ("http_pulsar", "http-pulsar"), ("cluster.internal", "internal"),
            )
        )  # fmt: skip
        (path / "arneb.toml").write_text(
            f'data_dir = "data"\n{self.first}{listen}secret_file = "secret"\n'
            f'[cluster]\nnode = "{self.name}"\n{self.own}'
            f'[cluster.pulsar]\nurl = "{service.broker.url}"\n'
            f'admin_url = "{service.admin_url}"\n{self.extra}'
        )
        return load_config(path / "arneb.toml")

    async def run(self) -> None:
        """Run until :meth:`stop` is called or an error ends it."""
        self._scope, self.ended = trio.CancelScope(), trio.Event()
        config = self.config()
        listeners = await Listeners.bind(listens(config))
        self.ports = {name: listeners.addresses(name)[0].port for name in listeners.by_name}
        self.node = Node(config, self.printed.append)
        try:
            with self._scope:
                await self.node.run(listeners)
        finally:
            self.node = None
            self.ended.set()

    async def stop(self) -> None:
        """As by a signal."""
        if self.node is not None:
            await self.node.leave()
            await self.ended.wait()

    async def kill(self) -> None:
        """End at once, without notice to Pulsar or the others."""
        self.cluster.service.broker.cut()
        self._scope.cancel()
        await self.ended.wait()

    @property
    def leads(self) -> bool:
        """Whether it serves clients with its own broker."""
        return self.node is not None and self.node.shared is not None

    def leads_shard(self, shard: str) -> bool:
        """The same for a shard that is not the first."""
        return self.node is not None and shard in self.node.others

    def connect(
        self, vhost: str = "/", user: str = "guest", password: str = "guest"
    ) -> pika.BlockingConnection:
        """An AMQP client, in a thread."""
        login = pika.PlainCredentials(user, password)
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.ports["amqp"], vhost, credentials=login)
        )

    def url(self, path: str, port: str = "http") -> str:
        return f"http://127.0.0.1:{self.ports[port]}{path}"


class Cluster:
    """Some nodes and their service."""

    def __init__(self, path: Path, service: Service, nursery: trio.Nursery, count: int) -> None:
        self.path = path
        self.service = service
        self.nursery = nursery
        self.nodes = [OneNode(self, f"n{number}") for number in range(1, count + 1)]

    def start(self) -> None:
        for each in self.nodes:
            self.nursery.start_soon(each.run)

    async def leader(self, other_than: OneNode | None = None) -> OneNode:
        """The node that serves."""
        found: list[OneNode] = []

        def look() -> bool:
            found[:] = [each for each in self.nodes if each.leads and each is not other_than]
            return bool(found)

        await until(look)
        return found[0]

    async def leader_of(self, shard: str, other_than: OneNode | None = None) -> OneNode:
        """The node that serves a shard other than the first."""
        found: list[OneNode] = []

        def look() -> bool:
            found[:] = [
                each for each in self.nodes if each.leads_shard(shard) and each is not other_than
            ]
            return bool(found)

        await until(look)
        return found[0]

    async def led_by(self, shard: str, wanted: OneNode) -> None:
        """Make a node lead, even if another one was asked first."""
        first = self.nodes[0].config().cluster.shard

        async def leader() -> OneNode:
            return await (self.leader() if shard == first else self.leader_of(shard))

        async def leads() -> bool:
            found = await leader()
            if found is not wanted and found.node is not None:
                with suppress(NotPossible):  # it has not received a report of the other node yet
                    await found.node.hand_over(shard, wanted.name)
            return found is wanted

        await until_it_does(leads)

    def other(self, leader: OneNode) -> OneNode:
        """A node that does not lead."""
        return next(each for each in self.nodes if each is not leader and each.node is not None)


def publish(node: OneNode, *bodies: bytes, vhost: str = "/") -> None:
    """Publish, each confirmed."""
    connection = node.connect(vhost)
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", "orders", body, pika.BasicProperties(delivery_mode=2))
    connection.close()


def consume(node: OneNode, count: int, vhost: str = "/") -> list[bytes]:
    """Consume so many, each acknowledged."""
    connection = node.connect(vhost)
    channel = connection.channel()
    found = []
    for method, _, body in channel.consume("orders", inactivity_timeout=10):
        assert method is not None, found
        found.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    connection.close()
    return found


async def until(holds: Callable[[], bool], within_s: float = WITHIN_S) -> None:
    """Checked now and then, since threads and sockets send no notice."""
    with trio.fail_after(within_s):
        while not holds():  # noqa: ASYNC110
            await trio.sleep(0.02)


async def until_it_does(holds: Callable[[], Awaitable[bool]]) -> None:
    """The same for a check that takes a while."""
    with trio.fail_after(WITHIN_S):
        while not await holds():  # noqa: ASYNC110
            await trio.sleep(0.05)


async def blocking(function: Callable[..., T], *arguments: Any) -> T:
    """A blocking client, in a thread that can be abandoned."""
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)


@asynccontextmanager
async def service_of(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A service, and nodes of this process that can reach it."""
    service = Service()

    def options(table: Any) -> ClientOptions:
        made = client_options(table)
        return ClientOptions(dial=service.broker.dial, backoff_cap_s=made.backoff_cap_s)

    monkeypatch.setattr(member, "client_options", options)
    async with trio.open_nursery() as nursery:
        await nursery.start(service.serve)
        yield service
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def cluster_of(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int = 2,
    *,
    start: bool = True,
    shards: Sequence[ClusterShardTable] = (),
    own: str = "",
    settings: str = "",
) -> AsyncIterator[Cluster]:
    """Running nodes. ``shards`` are those beside the first; otherwise ``settings`` names them.
    ``own`` contains keys of ``[cluster]``."""
    if not settings:
        monkeypatch.setattr(member, "other_shards", lambda _: shards)
    async with service_of(monkeypatch) as service, trio.open_nursery() as nursery:
        cluster = Cluster(path, service, nursery, count)
        for each in cluster.nodes:
            each.own, each.extra = own, settings
        if start:
            cluster.start()
        yield cluster
        for each in cluster.nodes:
            await each.stop()
