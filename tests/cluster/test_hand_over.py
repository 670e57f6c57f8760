"""A leader is told to hand over: clients continue at the named node, and soon."""

from pathlib import Path

import pika
import pika.exceptions
import pytest
from tests.cluster.member_kit import (
    SECRET,
    Cluster,
    OneNode,
    blocking,
    cluster_of,
    consume,
    publish,
    until,
)

from arneb.clustered import member
from arneb.clustered.shards.hand_overs import HAND_OVER, HandOvers
from arneb.control.serving import NotPossible
from arneb.ctl.calling import Answer
from arneb.ctl.exits import ExitCode
from arneb.ctl.program import run
from arneb_cluster.protocol.entries import Record, parse_entry
from arneb_cluster.routing.calling import call
from arneb_cluster.routing.internal_protocol import Request, Secret
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_core.api.nodes.placement import NodeAddresses, NotServed
from arneb_pulsar.client import ConsumerOptions, InitialPosition, connect
from arneb_pulsar.client.testing.subscription import Entry
from arneb_pulsar.wire.checksum import split_body

pytestmark = pytest.mark.real_time

TOPIC = "persistent://public/arneb/main"
SECRET_OF_NODES = Secret(SECRET.encode())


async def heard_of(cluster: Cluster, leader: OneNode, other: OneNode) -> None:
    """Wait until the leader has had a report of that node."""
    assert leader.node is not None
    node = leader.node

    def has_heard() -> bool:
        assert node.cluster is not None
        return other.name in [each["node"] for each in node.cluster()["members"]]

    await until(has_heard)


def command(*words: str) -> tuple[ExitCode, list[str], list[object]]:
    """What ``arneb ctl`` prints, and what it asks of the process."""
    lines: list[str] = []
    asked: list[object] = []

    class Asked:
        is_trusted = True

        def call(self, method: str, path: str, body: object, _: object) -> Answer:
            asked.append((method, path, body))
            return Answer(200, {"shard": "main", "node": "n2", "epoch": 7, "took_s": 0.25})

    code = run(
        ["cluster", *words], write=lines.append, complain=lines.append,
        connect=lambda line, environment: Asked(),
    )  # fmt: skip
    return code, lines, asked


async def test_the_named_node_leads_and_clients_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch, 3) as cluster:
        leader = await cluster.leader()
        others = [each for each in cluster.nodes if each is not leader]
        for each in others:
            await heard_of(cluster, leader, each)
        # The last of them is the one that Pulsar would never have made active by itself.
        chosen = max(others, key=lambda each: each.name)
        await blocking(publish, leader, b"a")
        assert leader.node is not None
        done = await leader.node.hand_over("main", chosen.name)
        assert (done["shard"], done["node"]) == ("main", chosen.name)
        assert await cluster.leader() is chosen
        assert await blocking(consume, leader, 1) == [b"a"]
        assert leader.node.is_ready
        assert resigned_for(cluster) == [chosen.name]


async def test_a_follower_can_be_asked_to_lead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch, 3) as cluster:
        leader = await cluster.leader()
        chosen = cluster.other(leader)
        await heard_of(cluster, leader, chosen)
        assert chosen.node is not None
        done = await chosen.node.hand_over("", chosen.name)
        assert (done["shard"], done["node"], done["epoch"]) == ("main", chosen.name, 1)
        assert await cluster.leader() is chosen


@pytest.mark.parametrize(
    "document", [b"", b"[]", b"{}", b'{"shard": "main"}', b"[" * 50_000, b"\xff"]
)
def test_an_invalid_document_is_refused(document: bytes) -> None:
    hand_overs = HandOvers(InternalSettings("n1", SECRET_OF_NODES), [])
    with pytest.raises(NotServed, match="expected the successor's name"):
        hand_overs.prepare(Request(HAND_OVER, "main", document))


async def test_a_node_that_does_not_lead_cannot_hand_over_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        other = cluster.other(leader)
        where = NodeAddresses(other.name, f"127.0.0.1:{other.ports['internal']}")
        settings = InternalSettings("n9", SECRET_OF_NODES)
        request = Request(HAND_OVER, "main", b'{"shard": "main", "to": ""}')
        with pytest.raises(NotServed, match=f"node '{other.name}' does not lead shard 'main'"):
            await call(settings, where, request)
        assert leader.leads


async def test_garbage_collection_after_a_broker_waits_until_no_client_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search blocks the loop, and the next leader waits for the resignation."""
    looked: list[str] = []
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        await heard_of(cluster, leader, cluster.other(leader))
        assert leader.node is not None
        assert leader.node.cluster is not None
        about = leader.node.cluster

        def thaw() -> None:
            looked.append(about()["state"])

        monkeypatch.setattr(member, "thaw", thaw)
        monkeypatch.setattr(member, "THAW_AFTER_S", 0.0)
        await leader.node.hand_over("", "")
        await until(lambda: bool(looked))
    assert looked == ["following"]


async def test_leadership_goes_round_and_the_chosen_node_is_followed_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        first = await cluster.leader()
        second = cluster.other(first)
        for leader, other in ((first, second), (second, first)):
            await until(lambda leader=leader: leader.leads)
            await heard_of(cluster, leader, other)
            assert leader.node is not None
            assert (await leader.node.hand_over("", ""))["node"] == other.name
        assert await cluster.leader() is first
        # The node that hands over prints so, and a killed one is followed as usual.
        await first.kill()
        assert await cluster.leader(other_than=first) is second


async def test_nothing_of_an_exclusive_queue_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those queues belong to connections, which are gone, and nothing of them is in the log."""

    def declare_own(node: OneNode) -> pika.BlockingConnection:
        connection = node.connect()
        channel = connection.channel()
        channel.exchange_declare("news", "fanout", durable=True)
        channel.queue_declare("kept", durable=True)
        channel.queue_declare("own", durable=True, exclusive=True)
        channel.queue_declare("passing", exclusive=True)
        for queue in ("kept", "own", "passing"):
            channel.queue_bind(queue, "news")
        channel.confirm_delivery()
        channel.basic_publish("news", "", b"a", pika.BasicProperties(delivery_mode=2))
        return connection

    def found(node: OneNode) -> dict[str, bool]:
        there: dict[str, bool] = {}
        for queue in ("kept", "own", "passing"):
            connection = node.connect()
            try:
                connection.channel().queue_declare(queue, passive=True)
                there[queue] = True
            except pika.exceptions.ChannelClosedByBroker as error:
                assert error.reply_code == 404
                there[queue] = False
            connection.close()
        return there

    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        other = cluster.other(leader)
        await heard_of(cluster, leader, other)
        connection = await blocking(declare_own, leader)
        assert leader.node is not None
        await leader.node.hand_over("", "")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
            await blocking(connection.sleep, 10)
        await cluster.leader()
        assert await blocking(found, other) == {"kept": True, "own": False, "passing": False}
        assert other.node is not None
        assert other.node.shared is not None
        shared = other.node.shared
        # Nothing of them is in what was replicated, either.
        assert sorted(name.rpartition("/")[2] for name in shared.core.topics) == ["kept"]
        rows = shared.core.metadata("amqp/")
        assert not [key for key in rows if "own" in key or "passing" in key]


async def test_pulsar_clients_continue_with_the_named_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        other = cluster.other(leader)
        await heard_of(cluster, leader, other)
        url = f"pulsar://127.0.0.1:{leader.ports['pulsar']}"
        options = ConsumerOptions(initial_position=InitialPosition.EARLIEST)
        async with connect(url) as client:
            producer = await client.create_producer("invoices")
            consumer = await client.subscribe("invoices", "audit", options)
            await producer.send(b"a")
            first = await consumer.receive(20)
            consumer.acknowledge(first)
            assert leader.node is not None
            await leader.node.hand_over("", "")
            await producer.send(b"b")
            assert (await consumer.receive(20)).data == b"b"
        assert other.leads


async def test_a_leader_that_stops_names_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        first = await cluster.leader()
        second = cluster.other(first)
        await heard_of(cluster, first, second)
        await first.stop()
        assert await cluster.leader() is second
        assert resigned_for(cluster) == [second.name]


async def test_a_leader_that_cannot_hand_over_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster_of(tmp_path, monkeypatch) as cluster:
        leader = await cluster.leader()
        other = cluster.other(leader)
        await heard_of(cluster, leader, other)
        assert leader.node is not None
        assert other.node is not None
        epoch = epoch_of(leader)
        for shard, to, text in (
            ("main", "n9", "expected one of its other members, which are"),
            ("main", leader.name, "leads already"),
            ("orders", other.name, "expected the shard 'main' of this node, got 'orders'"),
        ):
            with pytest.raises(NotPossible, match=text):
                await leader.node.hand_over(shard, to)
            # The leader's answer is the same when it is asked through another node.
            with pytest.raises(NotPossible, match=text):
                await other.node.hand_over(shard, to)
        assert leader.leads
        assert epoch_of(leader) == epoch


def epoch_of(node: OneNode) -> int:
    assert node.node is not None
    assert node.node.cluster is not None
    found = node.node.cluster()["epoch"]
    assert isinstance(found, int)
    return found


def test_the_command_asks_the_process() -> None:
    code, lines, asked = command("hand-over", "orders", "--to", "n2")
    assert code is ExitCode.OK
    assert asked == [("POST", "/ctl/hand-over", {"shard": "orders", "to": "n2"})]
    assert lines == ["Handing orders over to n2 ...", "n2 leads main in epoch 7, 0.25 s later"]
    _, _, asked = command("hand-over")
    assert asked == [("POST", "/ctl/hand-over", {"shard": "", "to": ""})]


@pytest.mark.parametrize("words", [["status", "--to", "n2"], ["status", "main"], ["pass-on"]])
def test_an_invalid_command_asks_nobody(words: list[str]) -> None:
    code, _, asked = command(*words)
    assert code is ExitCode.USAGE
    assert asked == []


def resigned_for(cluster: Cluster) -> list[str]:
    """The nodes that the resignations in the log name."""
    entries = map(parsed, cluster.service.broker.topic(TOPIC).entries)
    return [each.successor for each in entries if isinstance(each, Record) and each.is_resignation]


def parsed(entry: Entry) -> object:
    return parse_entry(entry.body[split_body(entry.body)[1] :])
