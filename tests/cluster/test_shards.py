"""Several shards in a cluster: each vhost is served by its shard's leader, whichever node a client
reaches."""

import json
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pika.exceptions
import pulsar
import pytest
import trio
from tests.cluster.member_kit import (
    Cluster,
    OneNode,
    blocking,
    cluster_of,
    consume,
    publish,
    until,
    until_it_does,
)
from tests.pulsar_frontend.raw_client import RawClient

from arneb.clustered import member
from arneb.clustered.ports.asking_shards import url_of_shard
from arneb.control.serving import NotPossible
from arneb.settings.shards import ClusterShardTable
from arneb_core.api.errors import StoreUnusable
from arneb_core.api.process.supervision import sole_error
from arneb_core.store.checking.check import check
from arneb_pulsar.client import ConsumerOptions, InitialPosition, connect
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

pytestmark = pytest.mark.real_time

AUDIT = ClusterShardTable("audit", vhosts=("audit",), tenants=("books",), prefer=("n2", "n3", "n1"))
FIRST = 'prefer = ["n1", "n2", "n3"]\n'

ALL = {"configure": ".*", "write": ".*", "read": ".*"}
GUEST = ("guest", "guest")


async def test_each_shard_has_its_leader_and_clients_reach_both_at_any_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        cluster_of(tmp_path, monkeypatch, 3, shards=(AUDIT,), own=FIRST) as cluster,
        httpx.AsyncClient(timeout=20, auth=GUEST) as http,
    ):
        first, second, third = cluster.nodes
        await cluster.led_by("main", first)
        await cluster.led_by("audit", second)

        # AMQP, through a node that leads neither, and through one that leads the other.
        await blocking(publish, third, b"a")
        await blocking(partial(publish, first, b"b", vhost="audit"))
        assert await blocking(consume, second, 1) == [b"a"]
        assert await blocking(partial(consume, third, 1, vhost="audit")) == [b"b"]

        await users_are_known_in_every_shard(cluster, http)
        await vhosts_are_made_where_they_belong(cluster, http)
        await clients_of_pulsar_use_the_topics_of_both(cluster)
        await lists_and_totals_are_of_all_shards(cluster, http)
        await definitions_are_cut_and_put_together(cluster, http)
        await a_leader_goes_and_the_other_shard_goes_on(cluster, http)
    for node in cluster.nodes:
        for path in (tmp_path / node.name / "data", tmp_path / node.name / "data/shards/audit"):
            assert check(path) == []


async def users_are_known_in_every_shard(cluster: Cluster, http: httpx.AsyncClient) -> None:
    """What is created at the first shard's leader applies at the other's as soon as it is granted
    something there, whichever node is asked."""
    third = cluster.nodes[2]
    anna = {"password": "one", "tags": ""}
    (await http.put(third.url("/api/users/anna"), json=anna)).raise_for_status()
    granted = await http.put(third.url("/api/permissions/audit/anna"), json=ALL)
    assert granted.status_code == 201
    assert await admits(third, "audit", "one")
    assert not await admits(third, "/", "one")  # nothing is granted there

    anna["password"] = "two"
    (await http.put(third.url("/api/users/anna"), json=anna)).raise_for_status()
    await until_it_does(lambda: admits(third, "audit", "two"))
    await until_it_does(lambda: refuses(third, "audit", "one"))

    leader = await cluster.leader_of("audit")
    assert leader.node is not None
    catalogue = leader.node.others["audit"].catalogue
    assert [each.user for each in permissions_of(catalogue)] == ["anna", "guest"]
    (await http.delete(third.url("/api/users/anna"))).raise_for_status()
    await until(lambda: [each.user for each in permissions_of(catalogue)] == ["guest"])
    assert await refuses(third, "audit", "two")


def permissions_of(catalogue: Any) -> list[Any]:
    from arneb_core.access.records import Permission

    found: list[Any] = catalogue.tables.rows(Permission)
    return found


async def vhosts_are_made_where_they_belong(cluster: Cluster, http: httpx.AsyncClient) -> None:
    """By their names; the catalogue of the broker refuses what belongs to another shard."""
    third = cluster.nodes[2]
    for name in ("books/old", "other"):
        quoted = name.replace("/", "%2F")
        (await http.put(third.url(f"/api/vhosts/{quoted}"))).raise_for_status()
        await blocking(partial(publish, third, b"c", vhost=name))
    brokers = cluster.nodes[0].node, cluster.nodes[1].node
    assert brokers[0] is not None
    assert brokers[0].shared is not None
    assert brokers[1] is not None
    catalogues = brokers[0].shared.catalogue, brokers[1].others["audit"].catalogue
    assert [each.vhost("books/old") is None for each in catalogues] == [True, False]
    assert [each.vhost("other") is None for each in catalogues] == [False, True]
    assert [each.vhost("/") is None for each in catalogues] == [False, True]


async def clients_of_pulsar_use_the_topics_of_both(cluster: Cluster) -> None:
    """By one service URL, which need not be a leader's."""
    first, second, third = cluster.nodes
    names = "persistent://public/default/t", "persistent://books/old/t"
    assert first.node is not None
    assert first.node.shared is not None
    assert second.node is not None
    cores = first.node.shared.core, second.node.others["audit"].core
    for node in cluster.nodes:
        async with connect(f"pulsar://127.0.0.1:{node.ports['pulsar']}") as client:
            for name in names:
                producer = await client.create_producer(name)
                options = ConsumerOptions(initial_position=InitialPosition.EARLIEST)
                consumer = await client.subscribe(name, node.name, options)
                await producer.send(node.name.encode())
                while (message := await consumer.receive(20)).data != node.name.encode():
                    consumer.acknowledge(message)
                await producer.close()
                await consumer.close()
        assert [[name in core.topics for name in names] for core in cores] == [
            [True, False], [False, True],
        ]  # fmt: skip
    await blocking(_use_the_official_client, third)
    refused = await _joining_of(third, "main", names[1])
    assert refused.error == pb.NotAllowedError
    assert refused.message.endswith("books/old is in shard 'audit', not in 'main'")
    for shard, wrong in (("audit", names[0]), ("main", names[1])):
        refused = await _refusal_at(third, shard, wrong)
        assert refused.error == pb.ServiceNotReady  # and must be looked up again
        assert "not served by this instance" in refused.message

    # What AMQP clients of a vhost there have published.
    async with connect(f"pulsar://127.0.0.1:{third.ports['pulsar']}") as client:
        options = ConsumerOptions(initial_position=InitialPosition.EARLIEST)
        consumer = await client.subscribe("persistent://books/old/orders", "amqp2", options)
        assert (await consumer.receive(20)).data == b"c"


async def _joining_of(node: OneNode, shard: str, topic: str) -> Any:
    """The answer to a client whose transaction at a shard is to include a topic of another."""
    raw = await _at_shard(node, shard)
    await raw.send(pb.CommandNewTxn(request_id=1, tc_id=0))
    made = await raw.expect(pb.CommandNewTxnResponse)
    await raw.send(
        pb.CommandAddPartitionToTxn(
            request_id=2,
            txnid_least_bits=made.txnid_least_bits,
            txnid_most_bits=made.txnid_most_bits,
            partitions=[topic],
        )
    )
    refused = await raw.expect(pb.CommandAddPartitionToTxnResponse)
    await raw.stream.aclose()
    return refused


async def _refusal_at(node: OneNode, shard: str, topic: str) -> Any:
    """The answer to a client that tries to produce to a topic at the broker of another shard."""
    raw = await _at_shard(node, shard)
    await raw.send(pb.CommandProducer(topic=topic, producer_id=1, request_id=8))
    refused = await raw.expect(pb.CommandError)
    await raw.stream.aclose()
    return refused


async def _at_shard(node: OneNode, shard: str) -> RawClient:
    """A client at a shard's broker, through a node."""
    raw = RawClient(await trio.open_tcp_stream("127.0.0.1", node.ports["pulsar"]))
    url = url_of_shard(shard, by_tls=False).removeprefix("pulsar://")
    await raw.send(pb.CommandConnect(client_version="raw", proxy_to_broker_url=url))
    await raw.expect(pb.CommandConnected)
    return raw


def _use_the_official_client(node: OneNode) -> None:
    client = pulsar.Client(f"pulsar://127.0.0.1:{node.ports['pulsar']}")
    for name in ("persistent://public/default/u", "persistent://books/old/u"):
        assert client.get_topic_partitions(name) == [name]
        consumer = client.subscribe(name, "s", schema=pulsar.schema.StringSchema())
        producer = client.create_producer(name, schema=pulsar.schema.StringSchema())
        producer.send("text")
        assert consumer.receive(10_000).value() == "text"
    found = client.subscribe(re.compile("persistent://books/old/.*"), "pattern")
    producer.send("more")
    assert found.receive(10_000).data() == b"more"
    client.close()


async def lists_and_totals_are_of_all_shards(cluster: Cluster, http: httpx.AsyncClient) -> None:
    """Whichever node is asked; pages are taken from the lists of all shards together."""
    for node in cluster.nodes:

        async def asked(path: str, node: OneNode = node) -> Any:
            answer = await http.get(node.url(path))
            assert answer.status_code == 200, answer.text
            return answer.json()

        queues = [(each["vhost"], each["name"]) for each in await asked("/api/queues")]
        of_amqp = [each for each in queues if each[1] == "orders"]
        assert of_amqp == [(each, "orders") for each in ("/", "audit", "books/old", "other")]
        whole = len(queues)
        page = await asked(
            "/api/queues?page=2&page_size=2&sort=vhost&sort_reverse=true&columns=name"
        )
        assert (page["total_count"], page["page_count"]) == (whole, -(-whole // 2))
        assert all(each.keys() == {"name"} for each in page["items"])
        assert len((await asked("/api/queues?page=1&name=orders"))["items"]) == 4
        names = [each["name"] for each in await asked("/api/vhosts")]
        assert names == ["/", "audit", "books/old", "other"]
        assert (await asked("/api/overview"))["object_totals"]["queues"] == whole
        permissions = await asked("/api/users/guest/permissions")
        assert [each["vhost"] for each in permissions] == names
        topics = [each["name"] for each in (await asked("/api/topics"))["topics"]]
        assert {"persistent://public/default/t", "persistent://books/old/t"} <= set(topics)
        assert (await asked("/api/health/checks/alarms"))["status"] == "ok"
        assert [each["name"] for each in await asked("/api/queues/audit")] == ["orders"]
        assert (await http.get(node.url("/api/queues"), auth=("guest", "x"))).status_code == 401

    await the_data_api_is_a_shards(cluster, http)
    await a_session_at_the_page_is_known_to_every_shard(cluster)
    await who_is_trusted_asks_the_brokers_of_the_node(cluster)
    await metrics_of_a_node_say_whose_they_are(cluster, http)
    third = cluster.nodes[2]
    connection = await blocking(lambda: third.connect("audit"))
    listed = (await http.get(third.url("/api/connections"))).json()
    [name] = [each["name"] for each in listed if each["vhost"] == "audit"]
    assert (await http.get(third.url(f"/api/connections/{quote(name)}"))).json()["name"] == name
    assert (await http.delete(third.url(f"/api/connections/{quote(name)}"))).status_code == 204
    assert (await http.get(third.url("/api/connections/nobody"))).status_code == 404
    with suppress(pika.exceptions.AMQPError):
        await blocking(connection.close)


async def the_data_api_is_a_shards(cluster: Cluster, http: httpx.AsyncClient) -> None:
    """Of the first shard, or of the one named in the path. What belongs to another is refused with
    the names of both."""
    main, audit = "persistent://public/default/t", "persistent://books/old/t"
    why = "books/old is in shard 'audit', not in 'main': ask below /shards/ and its name"
    for node in cluster.nodes:
        url = node.url("/data/v1/topics")
        below = node.url("/shards/audit/data/v1/topics")
        for where, name in ((url, main), (below, audit)):
            found = (await http.get(where, params={"topic": name})).json()
            assert [each["name"] for each in found["topics"]] == [name]
        for asked in (
            {"topic": audit},
            {"namespace": "books/old"},
            {"vhost": "books/old", "queue": "q"},
        ):
            answer = await http.get(url, params=asked)
            assert (answer.status_code, answer.json()["reason"]) == (409, why)
        for shard, vhosts in (("main", ["/", "other"]), ("audit", ["audit", "books/old"])):
            found = (await http.get(node.url(f"/shards/{shard}/api/vhosts"))).json()
            assert [each["name"] for each in found] == vhosts
        assert (await http.get(node.url("/shards/nobody/api/vhosts"))).status_code == 404


async def a_session_at_the_page_is_known_to_every_shard(cluster: Cluster) -> None:
    """Only the first shard's leader has the session: that leader vouches for it, and only while it
    lasts."""
    mark, proof = {"x-arneb-page": "1"}, {"username": "guest", "password": "guest"}
    for node in cluster.nodes:
        async with httpx.AsyncClient(timeout=20, headers=mark) as http:
            login = await http.post(node.url("/api/page/session"), json=proof)
            assert login.status_code == 200
            [queue] = (await http.get(node.url("/api/queues/audit"))).json()
            assert queue["name"] == "orders"
            assert len((await http.get(node.url("/api/vhosts"))).json()) == 4
            made = node.url(f"/api/queues/audit/made-by-{node.name}")
            assert (await http.put(made, json={}, headers={"x-arneb-page": ""})).is_success
            del http.headers["x-arneb-page"]  # as another site's script would ask
            assert (await http.delete(made)).status_code == 401
            http.headers.update(mark)
            assert (await http.delete(made)).status_code == 204
            assert (await http.delete(node.url("/api/page/session"))).is_success
            assert (await http.get(node.url("/api/queues/audit"))).status_code == 401


async def who_is_trusted_asks_the_brokers_of_the_node(cluster: Cluster) -> None:
    """By the control socket; for another node's directory the answer says where to ask."""
    second = cluster.nodes[1].node
    assert second is not None
    assert second.api is not None
    transport = httpx.ASGITransport(second.api)
    async with httpx.AsyncClient(transport=transport, base_url="http://control") as control:
        [queue] = (await control.get("/api/queues/audit")).json()
        assert queue["name"] == "orders"
        for path in ("/api/queues/%2F", "/api/queues", "/api/users"):
            answer = await control.get(path)
            assert answer.status_code == 503
            reason = "shard 'main' is not led by this node, node 'n1' leads it: ask there"
            assert answer.json()["reason"] == reason


async def metrics_of_a_node_say_whose_they_are(cluster: Cluster, http: httpx.AsyncClient) -> None:
    """Also of a node that does not lead the first shard."""
    for node, shard in zip(cluster.nodes, ("main", "audit", ""), strict=True):
        lines = (await http.get(node.url("/metrics"))).text.splitlines()
        topics = [each for each in lines if each.startswith("arneb_topics{")]
        assert [each.split('"')[1] for each in topics] == ([shard] if shard else [])
        heads = [each for each in lines if each.startswith("# TYPE ")]
        assert len(heads) == len(set(heads))
        leads = [each for each in lines if each.startswith("arneb_cluster_leads{")]
        assert len(leads) == 2


async def definitions_are_cut_and_put_together(cluster: Cluster, http: httpx.AsyncClient) -> None:
    """A file that is imported at any node sets in every shard what it says of that shard's vhosts.
    An export contains all of it once."""
    third = cluster.nodes[2]
    rights = {"configure": "", "write": "", "read": ".*"}
    file = {
        "users": [{"name": "carl", "password": "c", "tags": "", "limits": {}}],
        "vhosts": [{"name": "books/new"}, {"name": "shop"}],
        "permissions": [
            {"user": "carl", "vhost": each, **rights} for each in ("books/new", "shop")
        ],
        "queues": [
            {"name": "q", "vhost": each, "durable": True, "auto_delete": False, "arguments": {}}
            for each in ("books/new", "shop")
        ],
        "exchanges": [],
        "bindings": [],
    }
    answer = await http.post(third.url("/api/definitions"), json=file)
    assert answer.is_success, answer.text
    assert await admits(third, "books/new", "c", "carl")
    assert await admits(third, "shop", "c", "carl")
    written = (await http.get(third.url("/api/definitions"))).json()
    for kind in ("users", "vhosts", "permissions", "queues"):
        rows = [json.dumps(each, sort_keys=True) for each in written[kind]]
        assert len(rows) == len(set(rows))
    assert [each["name"] for each in written["users"]] == ["carl", "guest"]
    assert {"books/new", "shop", "audit", "/"} <= {each["name"] for each in written["vhosts"]}
    assert [each["vhost"] for each in written["queues"] if each["name"] == "q"] == [
        "shop", "books/new",
    ]  # fmt: skip

    # A shard's refusal names the shard, and what has been done already.
    file["permissions"].append({"user": "nobody", "vhost": "books/new", **rights})
    answer = await http.post(third.url("/api/definitions"), json=file)
    assert answer.status_code == 400
    assert answer.json()["reason"].startswith("shard 'audit': nothing was imported")
    assert answer.json()["reason"].endswith("; shard 'main' has taken in its part")


async def a_leader_goes_and_the_other_shard_goes_on(
    cluster: Cluster, http: httpx.AsyncClient
) -> None:
    """A shard that is handed over is followed by its clients; so is one whose leader is killed. A
    client of the other shard notices nothing, and the next leader knows what was changed about
    users meanwhile."""
    first, second, third = cluster.nodes

    def work(stop: list[bool]) -> int:
        connection = first.connect()
        channel = connection.channel()
        channel.queue_declare("orders", durable=True)
        channel.confirm_delivery()
        sent = 0
        while not stop:
            channel.basic_publish("", "orders", b"on")
            sent += 1
            connection.sleep(0.01)
        connection.close()
        return sent

    stop: list[bool] = []
    sent: list[int] = []

    async def works() -> None:
        sent.append(await blocking(work, stop))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(works)
        assert second.node is not None
        await until(lambda: len(second.node.cluster()["others"][0]["members"]) == 3)  # type: ignore[union-attr]
        assert first.node is not None
        done = await first.node.hand_over("audit", "n3")
        assert (done["shard"], done["node"]) == ("audit", "n3")
        assert await cluster.leader_of("audit") is third
        await blocking(partial(publish, second, b"d", vhost="audit"))

        await third.kill()
        (await http.put(first.url("/api/users/bert"), json={"password": "x", "tags": ""}))
        leader = await cluster.leader_of("audit", other_than=third)
        assert (await http.put(first.url("/api/permissions/audit/bert"), json=ALL)).is_success
        assert await admits(leader, "audit", "x", "bert")
        assert await blocking(partial(consume, leader, 1, vhost="audit")) == [b"d"]
        stop.append(True)
    assert sent[0] > 0
    assert first.leads


async def admits(node: OneNode, vhost: str, password: str, user: str = "anna") -> bool:
    try:
        await blocking(lambda: node.connect(vhost, user, password).close())
    except pika.exceptions.AMQPConnectionError:
        return False
    return True


async def refuses(node: OneNode, vhost: str, password: str) -> bool:
    return not await admits(node, vhost, password)


async def test_one_node_leads_several_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does when the others are away: each with its own broker, in one process."""
    async with (
        cluster_of(tmp_path, monkeypatch, 1, shards=(AUDIT,)) as cluster,
        httpx.AsyncClient(timeout=20, auth=GUEST) as http,
    ):
        [node] = cluster.nodes
        for again in (False, True):
            await cluster.leader()
            await cluster.leader_of("audit")
            assert node.node is not None
            for vhost, name in (("/", "public/default"), ("audit", "public/audit")):
                if again:
                    kept = await blocking(partial(consume, node, 1, vhost=vhost))
                    assert kept == [vhost.encode()]
                await blocking(partial(publish, node, vhost.encode(), vhost=vhost))
                async with connect(f"pulsar://127.0.0.1:{node.ports['pulsar']}") as client:
                    topic = f"persistent://{name}/orders"
                    options = ConsumerOptions(initial_position=InitialPosition.EARLIEST)
                    consumer = await client.subscribe(topic, "s", options)
                    message = await consumer.receive(20)
                    assert message.data == vhost.encode()
                    await consumer.acknowledge_stored(message.id)
                    await consumer.close()
            queues = (await http.get(node.url("/api/queues"))).json()
            assert [each["vhost"] for each in queues if each["name"] == "orders"] == ["/", "audit"]
            lines = (await http.get(node.url("/metrics"))).text.splitlines()
            topics = [each for each in lines if each.startswith("arneb_topics{")]
            assert [each.split('"')[1] for each in topics] == ["main", "audit"]
            about = node.node.about()["cluster"]
            assert [about["leads"], *(each["leads"] for each in about["others"])] == [True, True]
            with pytest.raises(NotPossible, match="expected the shard 'main' or 'audit'"):
                await node.node.hand_over("", "")
            if not again:
                await node.stop()
                cluster.nursery.start_soon(node.run)
                await until(lambda: node.node is not None)


async def test_a_node_whose_settings_divide_shards_differently_raises_an_alarm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch, 2, start=False, shards=(AUDIT,)) as cluster:
        first, second = cluster.nodes
        cluster.nursery.start_soon(first.run)
        await cluster.leader()
        monkeypatch.setattr(member, "other_shards", lambda _: ())
        cluster.nursery.start_soon(second.run)
        await until(lambda: second.node is not None and second.node.is_ready)
        assert second.node is not None
        assert first.node is not None
        nodes = first.node, second.node

        def differs() -> list[bool]:
            return [each.cluster()["differs"] for each in nodes if each.cluster is not None]

        await until(lambda: differs() == [False, True])


async def test_a_vhost_that_is_stored_in_another_shard_is_not_given_away_by_a_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch, 1) as cluster:
        [node] = cluster.nodes
        await cluster.leader()
        async with httpx.AsyncClient(auth=GUEST) as http:
            (await http.put(node.url("/api/vhosts/audit"))).raise_for_status()
        await node.stop()
        monkeypatch.setattr(member, "other_shards", lambda _: (AUDIT,))
        try:
            with trio.fail_after(30):
                await node.run()
        except BaseExceptionGroup as group:
            error = sole_error(group)
            assert isinstance(error, StoreUnusable)
            assert "'audit': public/audit is in shard 'audit', not in 'main'" in str(error)
        else:
            pytest.fail("expected that it stops")
