"""What only a cluster shows: a topic is at one of several brokers, and moves.

Played with ``--client-brokers cluster``.
"""

from collections.abc import Sequence
from functools import partial

import anyio
import anyio.to_thread
import httpx
import pytest
from conformance.brokers.pulsar_cluster import ClusterBroker, PulsarCluster
from tests.pulsar_client.conftest import Broker, until

from arneb_pulsar.client import ConsumerOptions, InitialPosition, ProducerOptions, connect
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.connection.dialling import parse_address
from arneb_pulsar.names import parse_topic
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandLookupTopic, CommandLookupTopicResponse

TOPICS = 8
EARLY = ConsumerOptions(initial_position=InitialPosition.EARLIEST)

pytestmark = pytest.mark.in_peace("says by itself what moves")


@pytest.fixture
def cluster(broker: Broker) -> PulsarCluster:
    if not isinstance(broker, PulsarCluster):
        pytest.skip("there is one broker")
    return broker


async def new_topics(cluster: PulsarCluster, topic: str, which: str = "") -> list[str]:
    """Topics of a namespace that no broker has yet."""
    namespace = f"public/{parse_topic(topic).local}{which}"
    async with administer(cluster.http_url) as admin:
        await admin.create_namespace(namespace)
    return [f"persistent://{namespace}/topic-{number}" for number in range(TOPICS)]


async def played_at(url: str, topics: Sequence[str]) -> set[str]:
    """Send and receive a message of each topic; which brokers had them."""
    seen = set()
    async with connect(url) as client:
        for each in topics:
            consumer = await client.subscribe(each, "s", EARLY)
            producer = await client.create_producer(each)
            await producer.send(each.encode())
            assert (await consumer.receive(30)).data == each.encode()
            connection = producer._attachment.connection  # type: ignore[attr-defined]
            seen.add(connection.machine.where)
            await consumer.unsubscribe()
    return seen


async def test_a_redirect_by_the_binary_protocol_is_followed(
    cluster: PulsarCluster, topic: str
) -> None:
    """A broker that is not to decide who gets a bundle sends to the one that is."""
    for broker in cluster.brokers:
        topics, redirects = await new_topics(cluster, topic, broker.name), 0
        async with connect(broker.pulsar_url) as client:
            connection = await client._context.pool.to(parse_address(broker.pulsar_url))
            for each in topics:
                ask = CommandLookupTopic(topic=each)
                reply = await connection.request(ask, "lookup", 30)
                redirects += reply.response == CommandLookupTopicResponse.Redirect
        if redirects:
            assert await played_at(broker.pulsar_url, topics)
            return
    raise AssertionError("expected one of two brokers to redirect")


async def test_a_redirect_by_http_is_followed(cluster: PulsarCluster, topic: str) -> None:
    for broker in cluster.brokers:
        topics, redirects = await new_topics(cluster, topic, broker.name), 0
        async with httpx.AsyncClient(base_url=broker.http_url, timeout=30) as http:
            for each in topics:
                answer = await http.get(f"/lookup/v2/topic/{each.replace('://', '/')}")
                redirects += answer.status_code == httpx.codes.TEMPORARY_REDIRECT
        if redirects:
            assert await played_at(broker.http_url, topics)
            return
    raise AssertionError("expected one of two brokers to redirect")


async def test_any_broker_leads_to_the_one_that_has_a_topic(
    cluster: PulsarCluster, topic: str
) -> None:
    topics = await new_topics(cluster, topic)
    first = await played_at(cluster.pulsar_url, topics)
    assert first == await played_at(cluster.brokers[0].pulsar_url, topics)
    assert first == await played_at(cluster.brokers[1].http_url, topics)
    assert first == await played_at(cluster.http_service_url, topics)


async def moved(cluster: PulsarCluster, topic: str) -> None:
    """Have the other broker take the bundle of a topic over."""
    async with administer(cluster.http_url) as admin:
        owner = await admin.lookup(topic)
    (other,) = [each for each in cluster.brokers if each.pulsar_url != owner]
    (mine,) = [each for each in cluster.brokers if each.pulsar_url == owner]
    name = parse_topic(topic)
    async with httpx.AsyncClient(base_url=mine.http_url, timeout=30, follow_redirects=True) as http:
        found = await http.get(f"/lookup/v2/topic/{topic.replace('://', '/')}/bundle")
        bundle = found.raise_for_status().text
        where = f"/admin/v2/namespaces/{name.namespace}/{bundle}/unload"
        query = {"destinationBroker": str(other.http_address)}
        (await http.put(where, params=query)).raise_for_status()


async def test_producers_and_consumers_follow_a_topic_to_another_broker(
    cluster: PulsarCluster, topic: str
) -> None:
    (mine, *_) = await new_topics(cluster, topic)
    async with connect(cluster.pulsar_url) as client:
        consumer = await client.subscribe(mine, "s", EARLY)
        producer = await client.create_producer(mine, ProducerOptions(send_timeout_s=0))
        seen = []
        for number in range(4):
            await producer.send(b"%d" % number)
            message = await consumer.receive(30)
            await consumer.acknowledge_stored(message)
            seen.append(int(message.data))
            await moved(cluster, mine)
        assert seen == [0, 1, 2, 3]


async def test_a_broker_that_dies_takes_nothing_with_it(cluster: PulsarCluster, topic: str) -> None:
    (mine, *_) = await new_topics(cluster, topic)
    killed: ClusterBroker | None = None
    try:
        async with connect(cluster.pulsar_url) as client:
            consumer = await client.subscribe(mine, "s", EARLY)
            producer = await client.create_producer(mine, ProducerOptions(send_timeout_s=0))
            sent = [await producer.send(b"%d" % number) for number in range(20)]
            where = producer._attachment.connection.machine.where  # type: ignore[attr-defined]
            (killed,) = [each for each in cluster.brokers if each.pulsar_url == where]
            killed.kill()
            sent += [await producer.send(b"%d" % number) for number in range(20, 40)]
            found = set()
            while len(found) < 40:
                found.add(int((await consumer.receive(60)).data))
            assert len({each.entry for each in sent}) == 40
    finally:
        if killed is not None:
            killed.spawn()
            await anyio.to_thread.run_sync(partial(killed.wait_ready))
            await until(lambda: killed.running)
