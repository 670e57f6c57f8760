"""Requests at a node that does not serve what they are about: real ports, real requests."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest
import trio
from starlette.types import Receive, Scope, Send
from tests.cluster.routing.nodes import SECRET, SHARD

from arneb.clustered.ports.routing import HTTP, HttpClients
from arneb.http.routing.asked import Asker
from arneb.http.routing.routed import Routed, Target, Way
from arneb.http.routing.targets import management_target, pulsar_target
from arneb.http.server.server import HttpServer, serve_http
from arneb_cluster.routing.division import EVERYTHING_ELSE, Division
from arneb_cluster.routing.internal_port import InternalPort, serve_internal
from arneb_cluster.routing.internal_protocol import Request
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.routing.leaders import Leaders
from arneb_core.access.namespaces import proposed_namespace
from arneb_core.api.nodes.placement import HERE, NOBODY, Elsewhere, NodeAddresses, NotServed

pytestmark = pytest.mark.real_time

OTHER = "other"
SHARDS = Division(SHARD, {"public/other": OTHER})


class Site:
    """One node's HTTP port, which records for each request who answers it and what arrived."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.leaders = Leaders(SHARDS)
        self.settings = InternalSettings(name, SECRET)
        self.server: HttpServer | None = None
        self.clients = HttpClients(self.settings, self.leaders, lambda _: self.server)
        self.addresses = NodeAddresses(name)
        self.breaks_off = False

    def _serves(self, server: HttpServer | None) -> None:
        self.server = server

    async def serve(self, nursery: trio.Nursery) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        inner = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port, internal = (each[0].socket.getsockname()[1] for each in (listeners, inner))
        url = f"http://127.0.0.1:{port}"
        self.addresses = NodeAddresses(
            self.name, f"127.0.0.1:{internal}", http=url, http_pulsar=url
        )
        app = Routed(
            self.answer, self.leaders, self.target, lambda each: each.http, self.clients.ask
        )
        await nursery.start(partial(serve_http, app, listeners, serving=self._serves))
        port_of_nodes = InternalPort(self.settings, {HTTP: self.clients})
        await nursery.start(serve_internal, port_of_nodes, inner)

    def target(self, path: str) -> Target:
        if path.startswith(("/admin", "/lookup")):
            return pulsar_target(path)
        return management_target(path, proposed_namespace)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        came = {name.decode(): value.decode() for name, value in scope["headers"]}
        lines = [self.name, scope["method"], scope["raw_path"].decode(),
                 scope["query_string"].decode(), scope["client"][0], came.get("x-mine", ""),
                 came.get("authorization", ""), str(len(body))]  # fmt: skip
        text = "\n".join(lines).encode() + body
        headers = [(b"x-answered", b"yes"), (b"set-cookie", b"m=1"),
                   (b"content-length", str(len(text)).encode())]  # fmt: skip
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        half = len(text) // 2
        await send({"type": "http.response.body", "body": text[:half], "more_body": True})
        if self.breaks_off:
            raise RuntimeError("broken off")
        await send({"type": "http.response.body", "body": text[half:]})


@asynccontextmanager
async def two_sites() -> AsyncIterator[tuple[Site, Site, httpx.AsyncClient]]:
    """A leader, another node, and a client of the latter."""
    first, second = Site("first"), Site("second")
    async with trio.open_nursery() as nursery:
        for each in (first, second):
            await each.serve(nursery)
        for shard in (SHARD, OTHER):
            first.leaders.say(shard, HERE)
            second.leaders.say(shard, Elsewhere(first.addresses))
        async with httpx.AsyncClient(base_url=second.addresses.http, timeout=20) as client:
            yield first, second, client
        nursery.cancel_scope.cancel()


async def test_a_request_is_passed_to_the_leader_and_its_answer_returned() -> None:
    async with two_sites() as (_, _, client):
        answer = await client.put(
            "/api/queues/%2F/a%2Fb?x=1&y=%20", content=b"z" * 200_000,
            headers={"X-Mine": "yes"}, auth=("guest", "guest"),
        )  # fmt: skip
        assert answer.status_code == 201
        assert answer.headers["x-answered"] == "yes"
        assert answer.headers["set-cookie"] == "m=1"
        name, method, path, query, address, mine, proof, rest = answer.text.split("\n")
        assert (name, method, path, query) == ("first", "PUT", "/api/queues/%2F/a%2Fb", "x=1&y=%20")
        assert (address, mine) == ("127.0.0.1", "yes")
        assert proof.startswith("Basic ")
        assert rest == "200000" + "z" * 200_000
        again = await client.get("/api/overview")
        assert again.text.startswith("first\nGET\n/api/overview\n")


async def test_head_gets_the_length_of_the_answer() -> None:
    async with two_sites() as (_, _, client):
        answer = await client.head("/api/overview")
        assert (answer.status_code, answer.content) == (201, b"")
        assert int(answer.headers["content-length"]) > 20


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/admin/v2/brokers/health"])
async def test_a_node_reports_its_own_state_itself(path: str) -> None:
    async with two_sites() as (_, _, client):
        assert (await client.get(path)).text.startswith("second\n")


@pytest.mark.parametrize(
    "path",
    ["/admin/v2/persistent/public/default/t/stats?x=1", "/admin/v2/namespaces/public/default",
     "/lookup/v2/topic/persistent/public/default/t", "/admin/v2/clusters"],
)  # fmt: skip
async def test_pulsar_administrators_are_redirected_to_the_leader(path: str) -> None:
    async with two_sites() as (first, _, client):
        answer = await client.get(path)
        assert answer.status_code == 307
        assert answer.headers["location"] == first.addresses.http + path


async def test_each_namespace_has_its_own_leader() -> None:
    async with two_sites() as (_, second, client):
        second.leaders.say(OTHER, HERE)
        assert (await client.get("/api/queues/other/q")).text.startswith("second\n")
        assert (await client.get("/api/queues/%2F/q")).text.startswith("first\n")
        own = await client.get("/admin/v2/persistent/public/other/t/stats")
        assert own.text.startswith("second\n")


async def test_without_a_leader_the_answer_says_so_and_when_to_retry() -> None:
    async with two_sites() as (_, second, client):
        second.leaders.say(SHARD, NOBODY)
        answer = await client.get("/api/overview")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "no node leads" in answer.json()["reason"]


async def test_a_former_leader_is_a_503() -> None:
    async with two_sites() as (first, _, client):
        first.leaders.say(SHARD, NOBODY)
        answer = await client.get("/api/overview")
        assert answer.status_code == 503
        assert answer.json()["reason"] == "node 'first' refused: node 'first' does not lead *"


async def test_an_answer_that_breaks_off_is_not_passed_on_as_complete() -> None:
    async with two_sites() as (first, _, client):
        first.breaks_off = True
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/api/overview")
        first.breaks_off = False
        assert (await client.get("/api/overview")).status_code == 201


@pytest.mark.parametrize("document", [b"", b"{}", b"[1]", b'["a", "b", "c"]', b"[" * 60_000])
def test_an_invalid_document_is_refused(document: bytes) -> None:
    site = Site("first")
    with pytest.raises(NotServed, match="expected a description of the caller"):
        site.clients.prepare(Request(HTTP, EVERYTHING_ELSE, document))


async def test_what_arrived_by_tls_is_passed_on_by_tls_only() -> None:
    site = Site("first")
    with pytest.raises(NotServed, match="over TLS only"):
        await site.clients.ask("*", NodeAddresses("second"), Asker("a", 1, "https"))


@pytest.mark.parametrize(
    ("path", "namespace"),
    [("/api/queues/%2F/q", "public/default"), ("/api/queues/t%2Fn", "t/n"), ("/api/queues", "*"),
     ("/api/queues/", "*"), ("/", "*"), ("/api/users/x", "*"), ("/data/topics", "*")],
)  # fmt: skip
def test_paths_of_the_management_api(path: str, namespace: str) -> None:
    assert management_target(path, proposed_namespace) == Target(Way.ASKED, namespace)
