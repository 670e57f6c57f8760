"""The management page of a cluster with several shards: it covers all of them, at any node."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import h11
import httpx
import pytest
import trio
from tests.cluster.member_kit import (
    Cluster,
    OneNode,
    blocking,
    cluster_of,
    publish,
)
from tests.pulsar_frontend.raw_client import RawClient

from arneb.clustered.ports.asking_shards import url_of_shard
from arneb.settings.shards import ClusterShardTable
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

AUDIT = ClusterShardTable("audit", vhosts=("audit",), tenants=("books",), prefer=("n2", "n1"))
FIRST = 'prefer = ["n1", "n2"]\n'
MARK = {"x-arneb-page": "1"}
PROOF = {"username": "guest", "password": "guest"}


async def test_the_page_covers_all_shards_at_any_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        cluster_of(tmp_path, monkeypatch, 2, shards=(AUDIT,), own=FIRST) as cluster,
        httpx.AsyncClient(timeout=20, headers=MARK) as http,
    ):
        first, second = cluster.nodes
        await cluster.led_by("main", first)
        await cluster.led_by("audit", second)
        await blocking(publish, second, b"a", b"b")
        await blocking(partial(publish, first, b"c", vhost="audit"))
        for node in cluster.nodes:
            login = await http.post(node.url("/api/page/session"), json=PROOF)
            assert login.status_code == 200
            await its_lists_are_of_all(http, node)
            await its_stream_is_of_all(http, node)
            await one_shard_is_looked_at_alone(http, node)
        await what_counts_by_itself_is_named_with_its_shard(cluster, http)
        await it_is_whole_again_when_another_leads(cluster, http)


async def its_lists_are_of_all(http: httpx.AsyncClient, node: OneNode) -> None:
    async def asked(path: str) -> Any:
        answer = await http.get(node.url(f"/api/page/{path}"))
        assert answer.status_code == 200, answer.text
        return answer.json()

    found = await asked("topics?page=1&page_size=50&sort=messages&sort_reverse=true")
    rows = [(each["vhost"], each["messages"], each["shard"]) for each in found["items"]]
    assert rows[:2] == [("/", 2, "main"), ("audit", 1, "audit")]
    assert (found["total_count"], found["missing"]) == (len(rows), [])
    second = await asked("topics?page=2&page_size=1&sort=messages&sort_reverse=true")
    assert [each["vhost"] for each in second["items"]] == ["audit"]
    assert second["page_count"] == len(rows)
    [oldest, *_] = (await asked("topics?page=1&sort=age&sort_reverse=true"))["items"]
    assert oldest["vhost"] == "/"
    assert [each["vhost"] for each in (await asked("topics/audit?page=1"))["items"]] == ["audit"]

    shown = await asked("node")
    assert shown["shards"] == ["main", "audit"]
    assert [(each["shard"], each["node"]) for each in shown["leaders"]] == [
        ("main", "n1"), ("audit", "n2"),
    ]  # fmt: skip
    assert [each["node"] for each in shown["members"]] == ["n1", "n2"]
    assert shown["entries_total"] >= 3
    assert {each["name"].partition(" ")[0] for each in shown["alarms"]} <= {"trim"}  # just begun


async def its_stream_is_of_all(http: httpx.AsyncClient, node: OneNode) -> None:
    calls = {
        "list": "page/topics?page=1&page_size=50&sort=messages&sort_reverse=true",
        "overview": "overview",
        "queue": "queues/audit/orders",
    }
    async with watching(http, node, calls) as stream:
        found = dict([await stream.event() for _ in calls])
    assert [each["vhost"] for each in found["list"]["body"]["items"][:2]] == ["/", "audit"]
    assert found["overview"]["body"]["queue_totals"]["messages"] == 3
    assert found["queue"]["status"] == 200
    assert found["queue"]["body"]["messages"] == 1


class Watching:
    """A stream of the page, read as it arrives."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._wire = h11.Connection(h11.CLIENT)
        self._text = ""

    async def begin(self, target: str, cookie: str) -> None:
        headers = [("host", "node"), ("cookie", cookie)]
        asked = self._wire.send(h11.Request(method="GET", target=target, headers=headers))
        await self._stream.send_all((asked or b"") + (self._wire.send(h11.EndOfMessage()) or b""))
        answer = await self._next()
        assert isinstance(answer, h11.Response)
        assert answer.status_code == 200

    async def event(self) -> tuple[str, Any]:
        """The next answer to one of the calls, and which call it was."""
        while True:
            text, found, rest = self._text.partition("\n\n")
            if not found:
                piece = await self._next()
                assert isinstance(piece, h11.Data), piece
                self._text += bytes(piece.data).decode()
                continue
            self._text = rest
            lines = dict(each.split(": ", 1) for each in text.splitlines() if ": " in each)
            if "event" in lines:
                return lines["event"], json.loads(lines["data"])

    async def _next(self) -> Any:
        while (event := self._wire.next_event()) is h11.NEED_DATA:
            self._wire.receive_data(await self._stream.receive_some())
        return event


@asynccontextmanager
async def watching(
    http: httpx.AsyncClient, node: OneNode, calls: dict[str, str], below: str = ""
) -> AsyncIterator[Watching]:
    """A stream with the session of ``http``."""
    query = "&".join(f"{name}={quote(each, safe='')}" for name, each in calls.items())
    cookie = "; ".join(f"{name}={value}" for name, value in http.cookies.items())
    with trio.fail_after(30):
        stream = await trio.open_tcp_stream("127.0.0.1", node.ports["http"])
        async with stream:
            found = Watching(stream)
            await found.begin(f"{below}/api/page/stream?{query}", cookie)
            yield found


async def one_shard_is_looked_at_alone(http: httpx.AsyncClient, node: OneNode) -> None:
    """By its path, or by its name in a query of the page."""
    for shard, vhost in (("main", "/"), ("audit", "audit")):
        query = f"/api/page/topics?page=1&page_size=5&shard={shard}"
        [row] = (await http.get(node.url(query))).json()["items"]
        assert row["vhost"] == vhost
        calls = {"list": "page/topics?page=1&page_size=5"}
        page = httpx.AsyncClient(timeout=20, headers=MARK)
        async with page:
            below = f"/shards/{shard}"
            login = await page.post(
                node.url(f"{below}/api/page/session"), json={**PROOF, "path": "/"}
            )
            assert login.status_code == 200
            async with watching(page, node, calls, below) as stream:
                _, event = await stream.event()
        assert [each["vhost"] for each in event["body"]["items"]] == [vhost]
    refused = await http.get(node.url("/api/page/node?shard=nobody"))
    assert refused.status_code == 400
    assert refused.json()["reason"] == "expected shard main or audit, got 'nobody'"


async def what_counts_by_itself_is_named_with_its_shard(
    cluster: Cluster, http: httpx.AsyncClient
) -> None:
    """Pulsar's connections and transactions have the same numbers in each shard."""
    first = cluster.nodes[0]
    raws = [await at_shard(first, shard) for shard in ("main", "audit")]
    for raw in raws:
        await raw.send(pb.CommandNewTxn(request_id=1, tc_id=0, txn_ttl_seconds=600_000))
        await raw.expect(pb.CommandNewTxnResponse)
    url = first.url("/api/page/transactions")
    found = (await http.get(url)).json()
    assert found["pulsar_total"] == 2
    assert {each["shard"] for each in found["pulsar"]} == {"main", "audit"}
    [number] = {each["number"] for each in found["pulsar"]}
    place = first.url(f"/api/page/pulsar/transactions/{number}")
    refused = await http.delete(place)
    assert (refused.status_code, refused.json()["reason"]) == (
        400, "expected ?shard=NAME: each shard counts by itself",
    )  # fmt: skip
    assert (await http.delete(f"{place}?shard=audit")).status_code == 204
    assert [each["shard"] for each in (await http.get(url)).json()["pulsar"]] == ["main"]

    listed = (await http.get(first.url("/api/page/connections?page=1&page_size=50"))).json()
    clients = [(each["shard"], each["number"]) for each in listed["items"]]
    assert {shard for shard, _ in clients} == {"main", "audit"}
    assert len(clients) == listed["total_count"]
    number = next(each for shard, each in clients if shard == "audit")
    place = first.url(f"/api/page/pulsar/connections/{number}")
    assert (await http.get(place)).status_code == 400
    assert (await http.delete(f"{place}?shard=audit")).status_code == 204
    with trio.fail_after(10):
        assert await raws[1].stream.receive_some() == b""
    for raw in raws:
        await raw.stream.aclose()


async def at_shard(node: OneNode, shard: str) -> RawClient:
    """A client at a shard's broker, through a node."""
    raw = RawClient(await trio.open_tcp_stream("127.0.0.1", node.ports["pulsar"]))
    url = url_of_shard(shard, by_tls=False).removeprefix("pulsar://")
    await raw.send(pb.CommandConnect(client_version="raw", proxy_to_broker_url=url))
    await raw.expect(pb.CommandConnected)
    return raw


async def it_is_whole_again_when_another_leads(cluster: Cluster, http: httpx.AsyncClient) -> None:
    """As a page that was open meanwhile sees it."""
    first, second = cluster.nodes
    calls = {"list": "page/topics?page=1&page_size=50&sort=messages&sort_reverse=true"}
    async with watching(http, first, calls) as stream:
        await second.stop()
        is_whole = False
        while not is_whole:
            _, event = await stream.event()
            assert event["status"] == 200
            body = event["body"]
            assert body["missing"] in ([], ["audit"])
            is_whole = first.leads_shard("audit") and not body["missing"]
    assert [each["vhost"] for each in body["items"][:2]] == ["/", "audit"]
