"""Pulsar clients at a node that does not lead: the official client, ours, and raw commands."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
import trio
from tests.cluster.routing.nodes import Nodes, in_thread
from tests.cluster.routing.pulsar_nodes import PulsarNode, two_pulsar_nodes
from tests.pulsar_frontend.raw_client import RawClient

from arneb.clustered.ports.routing import PULSAR, PulsarClients
from arneb_cluster.routing.internal_protocol import Request
from arneb_core.api.nodes.placement import NotServed
from arneb_core.engine.engine import Engine
from arneb_core.testing.engine_kit import make_entry
from arneb_pulsar.client import connect
from arneb_pulsar.wire.proto import pulsar_pb2 as pb


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with in_thread(two_pulsar_nodes(), tmp_path_factory.mktemp("nodes")) as nodes:
        yield nodes


@pytest.fixture
def nodes(both: Nodes) -> Nodes:
    both.lead(both.first)
    return both


def client(node: PulsarNode) -> pulsar.Client:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    return pulsar.Client(node.url, logger=quiet, operation_timeout_seconds=20)


def topics(node: PulsarNode) -> set[str]:
    return {each.rpartition("/")[2] for each in node.engine.topics}


def test_the_official_client_is_directed_to_the_leader(nodes: Nodes) -> None:
    here = client(nodes.second)
    producer = here.create_producer("led")
    consumer = here.subscribe("led", "s", pulsar.ConsumerType.Shared)
    for number in range(100):
        producer.send(str(number).encode())
    assert [int(consumer.receive(5000).data()) for _ in range(100)] == [*range(100)]
    assert "led" in topics(nodes.first)
    assert "led" not in topics(nodes.second)
    assert here.get_topic_partitions("led") == ["persistent://public/default/led"]
    (carried,) = nodes.second.relays.carried
    assert carried.relay.up_bytes < 2_000, "what is sent goes to the leader directly"
    here.close()


def test_the_official_client_follows_a_change_of_leader(nodes: Nodes) -> None:
    here = client(nodes.second)
    producer = here.create_producer("moving", send_timeout_millis=20_000)
    consumer = here.subscribe("moving", "s", pulsar.ConsumerType.Failover)
    producer.send(b"at the first")
    message = consumer.receive(5000)
    assert message.data() == b"at the first"
    consumer.acknowledge(message)
    nodes.call(have_consumed_one, nodes.second.engine, "persistent://public/default/moving")
    nodes.lead(nodes.second)
    producer.send(b"at the second")
    assert "moving" in topics(nodes.second)
    found = consumer.receive(10_000)
    assert found.data() == b"at the second"
    here.close()


async def have_consumed_one(engine: Engine, name: str) -> None:
    """Store what another node of a cluster has at this moment; here each node has its own store.
    Without the message, the next one would get its id, and count as acknowledged with it. Without
    the subscription, one that the client creates when it reconnects might begin behind that
    message."""
    topic = await engine.create_topic(name)
    done = trio.Event()
    engine.append(topic, [make_entry(b"at the first")], lambda *_: done.set())
    await done.wait()
    await topic.subscribe("s")


def test_without_an_advertised_address_clients_stay_with_the_node_that_they_reached(
    tmp_path: Path,
) -> None:
    with in_thread(two_pulsar_nodes(advertises=False), tmp_path) as nodes:
        here = client(nodes.second)
        producer = here.create_producer("proxied")
        consumer = here.subscribe("proxied", "s")
        for _ in range(20):
            producer.send(bytes(10_000))
        for _ in range(20):
            consumer.acknowledge(consumer.receive(5000))
        assert "proxied" in topics(nodes.first)
        assert sum(each.relay.up_bytes for each in nodes.second.relays.carried) > 200_000
        here.close()


async def connected(port: int) -> RawClient:
    """A connection after CONNECT."""
    raw = RawClient(await trio.open_tcp_stream("127.0.0.1", port))
    await raw.send(pb.CommandConnect(client_version="raw", protocol_version=21))
    await raw.expect(pb.CommandConnected)
    return raw


LOOKUP = pb.CommandLookupTopic(topic="persistent://public/default/t", request_id=7)
PRODUCER = pb.CommandProducer(topic="persistent://public/default/t", producer_id=1, request_id=8)
SUBSCRIBE = pb.CommandSubscribe(
    topic="persistent://public/default/t", subscription="s", consumer_id=2, request_id=9,
    subType=pb.CommandSubscribe.Shared,
)  # fmt: skip


@pytest.mark.real_time
async def test_a_lookup_at_another_node_returns_the_leader_and_nothing_else(nodes: Nodes) -> None:
    raw = await connected(nodes.second.port)
    await raw.send(LOOKUP)
    found = await raw.expect(pb.CommandLookupTopicResponse)
    assert found.response == pb.CommandLookupTopicResponse.Connect
    assert found.brokerServiceUrl == nodes.first.url
    assert found.authoritative
    assert not found.proxy_through_service_url
    await raw.send(pb.CommandPartitionedTopicMetadata(topic=LOOKUP.topic, request_id=3))
    partitions = await raw.expect(pb.CommandPartitionedTopicMetadataResponse)
    assert partitions.response == pb.CommandPartitionedTopicMetadataResponse.Success
    await raw.stream.aclose()


@pytest.mark.real_time
@pytest.mark.parametrize("command", [PRODUCER, SUBSCRIBE], ids=["producer", "consumer"])
async def test_topics_cannot_be_used_at_another_node(nodes: Nodes, command: Any) -> None:
    raw = await connected(nodes.second.port)
    await raw.send(command)
    refused = await raw.expect(pb.CommandError)
    assert refused.request_id == command.request_id
    assert refused.error == pb.ServiceNotReady
    assert refused.message == (
        "Namespace bundle for topic (persistent://public/default/t) not served by this "
        "instance:first. Please redo the lookup. Request is denied: namespace=public/default"
    )
    await raw.stream.aclose()


@pytest.mark.real_time
async def test_when_the_leader_changes_clients_are_told_the_new_one(nodes: Nodes) -> None:
    raw = await connected(nodes.first.port)
    await raw.send(PRODUCER)
    await raw.expect(pb.CommandProducerSuccess)
    await raw.send(SUBSCRIBE)
    await raw.expect(pb.CommandSuccess)
    await trio.to_thread.run_sync(nodes.lead, nodes.second)
    closed = await raw.expect(pb.CommandCloseProducer)
    assert (closed.producer_id, closed.assignedBrokerServiceUrl) == (1, nodes.second.url)
    assert not closed.HasField("assignedBrokerServiceUrlTls")
    left = await raw.expect(pb.CommandCloseConsumer)
    assert (left.consumer_id, left.assignedBrokerServiceUrl) == (2, nodes.second.url)
    await raw.send(LOOKUP)
    found = await raw.expect(pb.CommandLookupTopicResponse)
    assert found.brokerServiceUrl == nodes.second.url
    for command in (PRODUCER, SUBSCRIBE):
        await raw.send(command)
        assert (await raw.expect(pb.CommandError)).error == pb.ServiceNotReady
    await raw.stream.aclose()


@pytest.mark.real_time
async def test_without_a_leader_clients_are_told_to_look_up_again(nodes: Nodes) -> None:
    raw = await connected(nodes.first.port)
    await raw.send(PRODUCER)
    await raw.expect(pb.CommandProducerSuccess)
    await trio.to_thread.run_sync(nodes.lead, None)
    closed = await raw.expect(pb.CommandCloseProducer)
    assert not closed.HasField("assignedBrokerServiceUrl")
    await raw.send(LOOKUP)
    found = await raw.expect(pb.CommandLookupTopicResponse)
    assert found.response == pb.CommandLookupTopicResponse.Failed
    assert found.error == pb.ServiceNotReady
    await raw.send(pb.CommandPartitionedTopicMetadata(topic=LOOKUP.topic, request_id=3))
    partitions = await raw.expect(pb.CommandPartitionedTopicMetadataResponse)
    assert partitions.error == pb.ServiceNotReady
    await raw.stream.aclose()


@pytest.mark.real_time
async def test_our_own_client_is_directed_and_follows(nodes: Nodes) -> None:
    async with connect(nodes.second.url) as ours:
        producer = await ours.create_producer("own")
        consumer = await ours.subscribe("own", "s")
        await producer.send(b"one")
        assert (await consumer.receive()).value == b"one"
        await trio.to_thread.run_sync(nodes.lead, nodes.second)
        await producer.send(b"two")
        assert "own" in topics(nodes.second)


@pytest.mark.parametrize(
    "document",
    [b"", b"[]", b"{}", b'{"address": 1}', b"[" * 50_000,
     b'{"address": "a", "service_url": "b", "shown": []}'],
)  # fmt: skip
def test_an_invalid_document_is_refused(nodes: Nodes, document: bytes) -> None:
    clients = PulsarClients(
        nodes.first.addresses, nodes.first.leaders, lambda _: nodes.first.server, must_prove=False
    )
    with pytest.raises(NotServed, match="expected"):
        clients.prepare(Request(PULSAR, "*", document))
