"""Nodes of a cluster as ``arneb serve`` creates them: clients can use any node, and if one is lost
another takes over."""

from pathlib import Path

import httpx
import pika
import pika.exceptions
import pytest
import trio
from tests.cluster.member_kit import (
    WITHIN_S,
    Cluster,
    OneNode,
    blocking,
    cluster_of,
    consume,
    publish,
    service_of,
    until,
    until_it_does,
)

from arneb.ctl.calling import Answer
from arneb.ctl.exits import ExitCode
from arneb.ctl.program import run
from arneb.runtime import ending
from arneb.runtime.ending import STOP_WITHIN_S
from arneb_cluster.protocol.entries import Record, parse_entry
from arneb_core.api.core import Unit
from arneb_core.api.errors import EngineBroken, StoreUnusable
from arneb_core.api.process.supervision import sole_error
from arneb_core.api.topics.settings import Retention
from arneb_core.engine.engine import open_engine
from arneb_core.store.checking.check import check
from arneb_pulsar.client import ConsumerOptions, InitialPosition, connect
from arneb_pulsar.client.testing.subscription import Entry
from arneb_pulsar.wire.checksum import split_body

pytestmark = pytest.mark.real_time


async def test_clients_publish_and_consume_through_any_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        other = cluster.other(leader)
        await blocking(publish, other, b"a", b"b")
        await blocking(publish, leader, b"c")
        assert await blocking(consume, other, 3) == [b"a", b"b", b"c"]
    for each in cluster.nodes:
        assert check(each.config().data_dir) == []


async def test_what_was_confirmed_is_there_after_another_node_has_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch, 3) as cluster:
        first = await cluster.leader()
        await blocking(publish, cluster.other(first), b"a", b"b")
        await first.kill()
        second = await cluster.leader(other_than=first)
        await blocking(publish, second, b"c")
        cluster.nursery.start_soon(first.run)
        await until(lambda: first.node is not None and first.node.is_ready)
        assert await blocking(consume, first, 3) == [b"a", b"b", b"c"]


async def test_a_leader_that_stops_hands_over_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        first = await cluster.leader()
        second = cluster.other(first)
        await blocking(publish, second, b"a")
        await first.stop()
        await cluster.leader(other_than=first)
        assert await blocking(consume, second, 1) == [b"a"]
        written = cluster.service.broker.topic("persistent://public/arneb/main").entries
        records = [parse_entry(payload_of(each)) for each in written]
        assert any(isinstance(each, Record) and each.is_resignation for each in records)


async def test_every_node_answers_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster, httpx.AsyncClient(timeout=20) as http:
        leader = await cluster.leader()
        other = cluster.other(leader)
        await blocking(publish, leader, b"a")
        guest = ("guest", "guest")
        for each in (leader, other):
            found = await http.get(each.url("/api/queues/%2F/orders"), auth=guest)
            assert found.json()["name"] == "orders"
            assert (await http.get(each.url("/healthz"))).json()["status"] == "ok"
            assert (await http.get(each.url("/readyz"))).status_code == 200
            figures = await http.get(each.url("/metrics"), auth=guest)
            leads = f'arneb_cluster_leads{{shard="main",node="{each.name}"}}'
            assert f"{leads} {int(each is leader)}\n" in figures.text
        assert (await http.get(other.url("/metrics"))).status_code == 401
        assert (await http.get(other.url("/admin/v2/brokers/health", "http-pulsar"))).text == "ok"
        tenants = await http.get(other.url("/admin/v2/tenants", "http-pulsar"))
        assert tenants.json() == ["public", "pulsar"]


async def test_pulsar_clients_reach_the_leader_through_any_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        url = f"pulsar://127.0.0.1:{cluster.other(leader).ports['pulsar']}"
        options = ConsumerOptions(initial_position=InitialPosition.EARLIEST)
        async with connect(url) as client:
            producer = await client.create_producer("invoices")
            await producer.send(b"a")
            consumer = await client.subscribe("invoices", "audit", options)
            assert (await consumer.receive(20)).data == b"a"


async def test_a_leaders_engine_is_opened_as_the_settings_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch, 1) as cluster:
        cluster.nodes[0].extra = "[retention]\ntime_s = 60\n[delayed]\ntick_ms = 7\n"
        leader = await cluster.leader()
        assert leader.node is not None
        assert leader.node.shared is not None
        core = leader.node.shared.core
        assert core.retention == Retention(60_000, -1)
        assert core.delays.tick_ms == 7


async def test_the_preferred_node_leads_when_both_could(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service_of(monkeypatch) as service, trio.open_nursery() as nursery:
        cluster = Cluster(tmp_path, service, nursery, 2)
        for each in cluster.nodes:
            each.own = 'prefer = ["n9", "n2"]\n'
        cluster.start()
        assert await cluster.leader() is cluster.nodes[1]
        for each in cluster.nodes:
            await each.stop()


async def test_every_node_reports_its_state_as_a_member(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        other = cluster.other(leader)
        await blocking(publish, leader, b"a")

        async def has_caught_up() -> bool:
            return "Lag: 0 records, 0 bytes, " in await blocking(status, other)

        await until_it_does(has_caught_up)  # the list of members is a record, too
        shown = {each.name: await blocking(status, each) for each in (leader, other)}
    assert f"Leader: {leader.name}, epoch 0\n" in shown[leader.name]
    assert "State: leading\n" in shown[leader.name]
    assert "Lease: holds\n" in shown[leader.name]
    assert f"Leader: {leader.name}, epoch 0\n" in shown[other.name]
    assert "State: following\n" in shown[other.name]


def status(node: OneNode) -> str:
    """What ``arneb ctl cluster status`` prints."""
    lines: list[str] = []
    assert node.node is not None
    about = node.node.about()

    class Asked:
        is_trusted = True

        def call(self, *asked: object) -> Answer:
            return Answer(200, about)

    code = run(
        ["cluster", "status"], write=lines.append, complain=lines.append,
        connect=lambda line, environment: Asked(),
    )  # fmt: skip
    assert code is ExitCode.OK, lines
    return "\n".join(lines)


async def test_users_are_known_on_nodes_that_do_not_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster, httpx.AsyncClient(timeout=20) as http:
        leader = await cluster.leader()
        other = cluster.other(leader)

        def log_in(password: str) -> None:
            login = pika.PlainCredentials("anna", password)
            parameters = pika.ConnectionParameters(
                "127.0.0.1", other.ports["amqp"], "shop", credentials=login
            )
            pika.BlockingConnection(parameters).close()

        async def say(path: str, document: dict[str, str]) -> None:
            answer = await http.put(other.url(path), json=document, auth=("guest", "guest"))
            answer.raise_for_status()

        async def admits(password: str) -> bool:
            try:
                await blocking(log_in, password)
            except pika.exceptions.AMQPConnectionError:
                return False
            return True

        assert not await admits("one")
        await say("/api/vhosts/shop", {})
        await say("/api/users/anna", {"password": "one", "tags": ""})
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        await say("/api/permissions/shop/anna", rights)
        await until_it_does(lambda: admits("one"))
        await say("/api/users/anna", {"password": "two", "tags": ""})
        await until_it_does(lambda: admits("two"))
        assert not await admits("one")


UNMET = {
    "deduplication": ({"deduplicationEnabled": False}, {}),
    "message TTL to 0; it is 60 s": ({"message_ttl_in_seconds": 60}, {}),
    "backlog quota": ({"backlog_quota_map": {"destination_storage": {}}}, {}),
    "inactive topics": ({}, {"brokerDeleteInactiveTopicsEnabled": "true"}),
    "subscription expiration": ({"subscription_expiration_time_minutes": 5}, {}),
    "ack quorum to 2 or more; it is 1": ({"persistence": {"bookkeeperAckQuorum": 1}}, {}),
}


@pytest.mark.parametrize("expected", UNMET)
async def test_a_service_that_could_lose_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: str
) -> None:
    policies, settings = UNMET[expected]
    async with service_of(monkeypatch) as service, trio.open_nursery() as nursery:
        service.policies |= policies
        service.settings |= settings
        node = Cluster(tmp_path, service, nursery, 1).nodes[0]
        await refused(node, expected)
        assert not (tmp_path / "n1" / "data" / "data.mdb").exists()


def payload_of(entry: Entry) -> bytes:
    """What was sent."""
    return entry.body[split_body(entry.body)[1] :]


async def refused(node: OneNode, expected: str) -> None:
    """It ends with one line."""
    try:
        with trio.fail_after(20):
            await node.run()
    except BaseExceptionGroup as group:
        error = sole_error(group)
        assert isinstance(error, StoreUnusable)
        assert expected in str(error)
        assert "\n" not in str(error)
    else:
        pytest.fail(f"expected {expected}")


async def test_a_service_that_is_starting_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service_of(monkeypatch) as service, trio.open_nursery() as nursery:
        service.statuses = [503, 500]
        cluster = Cluster(tmp_path, service, nursery, 1)
        cluster.start()
        await (await cluster.leader()).stop()
        assert service.statuses == []


async def test_a_missing_namespace_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service_of(monkeypatch) as service, trio.open_nursery() as nursery:
        service.statuses = [404]
        node = Cluster(tmp_path, service, nursery, 1).nodes[0]
        await refused(node, "public/arneb")


async def test_a_directory_with_messages_of_its_own_does_not_begin_a_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service_of(monkeypatch) as service, trio.open_nursery() as nursery:
        node = Cluster(tmp_path, service, nursery, 1).nodes[0]
        async with open_engine(node.config().data_dir) as core:
            await core.create_topic("orders")
        await refused(node, "begins with an empty directory")


async def test_a_topic_that_was_created_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with service_of(monkeypatch) as service, trio.open_nursery() as nursery:
        cluster = Cluster(tmp_path, service, nursery, 1)
        cluster.start()
        node = await cluster.leader()
        await blocking(publish, node, b"a")
        await node.stop()
        service.broker.topic("persistent://public/arneb/main").entries.clear()
        await refused(node, "was recreated, or has lost entries")


async def test_an_error_in_a_leaders_commit_path_ends_its_node_and_another_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients may wait for ever for what was in flight, so the process soon ends in any case."""
    ended: list[BaseException] = []
    broken_off: list[float] = []
    monkeypatch.setattr(ending, "break_off_after", lambda within_s, _: broken_off.append(within_s))

    async def run(node: OneNode) -> None:
        try:
            await node.run()
        except BaseExceptionGroup as group:
            ended.append(sole_error(group))

    def fail(*_: object) -> None:
        raise RuntimeError("an error of ours")

    async with service_of(monkeypatch) as service, trio.open_nursery() as nursery:
        cluster = Cluster(tmp_path, service, nursery, 2)
        for each in cluster.nodes:
            nursery.start_soon(run, each)
        leader = await cluster.leader()
        other = cluster.other(leader)
        await blocking(publish, leader, b"a")
        assert leader.node is not None
        assert leader.node.shared is not None
        core = leader.node.shared.core
        monkeypatch.setattr(core.catalog, "metadata_changed", fail)
        nursery.start_soon(core.committed, Unit(metadata=[("of a test", b"")]))
        with trio.fail_after(WITHIN_S):
            await leader.ended.wait()
        assert isinstance(ended[0], EngineBroken)
        assert broken_off == [STOP_WITHIN_S]
        assert await cluster.leader(other_than=leader) is other
        assert await blocking(consume, other, 1) == [b"a"]
        await other.stop()
        nursery.cancel_scope.cancel()
