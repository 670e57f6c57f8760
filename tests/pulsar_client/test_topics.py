"""Partitions, several topics, patterns and table views."""

from itertools import count

import anyio
import httpx
import pytest
from tests.pulsar_client.conftest import CHECK_INTERVAL_S, Broker, until

from arneb_pulsar.client import (
    Batching,
    ConsumerOptions,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.codec.schemas.schema import StringSchema
from arneb_pulsar.client.consumer.multi_topic import MultiTopicConsumer
from arneb_pulsar.client.producer.partitioned import PartitionedProducer
from arneb_pulsar.client.trackers.routing import (
    Hashing,
    RoundRobin,
    Router,
    SinglePartition,
    java_string_hash,
    murmur3_32,
)
from arneb_pulsar.names import parse_topic

OPTIONS = ConsumerOptions(
    type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST, partition_poll_s=0.2
)

NUMBERS = count(1)


async def make_partitions(broker: Broker, topic: str, count: int, *, more: bool = False) -> None:
    name = parse_topic(topic)
    url = f"{broker.http_url}/admin/v2/persistent/{name.namespace}/{name.local}/partitions"
    async with httpx.AsyncClient() as http:
        call = http.post if more else http.put
        for _ in range(400):
            try:
                answer = await call(
                    url, content=str(count), headers={"Content-Type": "application/json"}
                )
            except httpx.TransportError:
                await anyio.sleep(CHECK_INTERVAL_S)  # its broker was killed
                continue
            if answer.is_server_error:
                await anyio.sleep(CHECK_INTERVAL_S)  # the other was, which has some of them
                continue
            if answer.status_code != httpx.codes.CONFLICT:  # of an answer that was lost
                answer.raise_for_status()
            return
    raise AssertionError("expected an answer by now")


async def test_partitions_are_one_topic(broker: Broker, topic: str) -> None:
    await make_partitions(broker, topic, 3)
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", OPTIONS)
        options = ProducerOptions(batching=Batching(delay_s=0.001))
        producer = await client.create_producer(topic, options, partition_poll_s=0.2)
        assert isinstance(producer, PartitionedProducer)
        assert isinstance(consumer, MultiTopicConsumer)
        seen: dict[str, set[str]] = {}
        for number in range(60):
            await producer.send(b"%d" % number, key=f"key-{number % 12}")
        for _ in range(60):
            message = await consumer.receive(10)
            consumer.acknowledge(message)
            seen.setdefault(message.key or "", set()).add(message.topic)
            assert message.id.topic == message.topic
        assert len(seen) == 12
        assert all(len(topics) == 1 for topics in seen.values())
        assert len(set.union(*seen.values())) == 3
        await make_partitions(broker, topic, 5, more=True)
        await until(lambda: len(producer.partitions) == len(consumer.topics) == 5)
        await producer.partitions[4].send(b"new")
        assert (await consumer.receive(10)).topic.endswith("-partition-4")


class Last:
    """A router of the application's own."""

    def choose(self, key: str | None, partitions: int, now: float) -> int:
        return partitions - 1


@pytest.mark.in_peace("counts what each partition has")
@pytest.mark.lean("where a message goes is the same on both")
async def test_a_router_chooses_the_partition(broker: Broker, topic: str) -> None:
    """Always one, one after the other, by the key's hash, or as the application says."""
    await make_partitions(broker, topic, 3)
    keys = [f"key-{number}-\U0001f600" for number in range(12)]
    turns = ["0", "1", "2", "3", "4", "5"]
    routers: dict[bytes, Router] = {
        b"one": SinglePartition(1),
        b"turns": RoundRobin(2),
        b"murmur": RoundRobin(0, hashing=Hashing.MURMUR3),
        b"own": Last(),
    }
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", OPTIONS)
        single = ProducerOptions(batching=None)
        for data, router in routers.items():
            producer = await client.create_producer(topic, single, router=router)
            for number in turns:
                await producer.send(data, properties={"number": number})
            for key in keys:
                await producer.send(data, key=key)
        seen: dict[bytes, dict[str, int]] = {data: {} for data in routers}
        for _ in range(len(routers) * (len(keys) + len(turns))):
            message = await consumer.receive(20)
            seen[message.data][message.key or message.properties["number"]] = message.id.partition
    by_java = {key: java_string_hash(key) % 3 for key in keys}
    by_murmur = {key: murmur3_32(key.encode()) % 3 for key in keys}
    one_by_one = {number: int(number) % 3 for number in turns}
    assert seen == {
        b"one": by_java | dict.fromkeys(turns, 1),
        b"turns": by_java | {number: (2 + place) % 3 for number, place in one_by_one.items()},
        b"murmur": by_murmur | one_by_one,
        b"own": dict.fromkeys([*keys, *turns], 2),
    }
    assert set(by_java.values()) == set(by_murmur.values()) == {0, 1, 2} and by_java != by_murmur


@pytest.mark.in_peace("the receipt of an acknowledgement is lost with its connection")
async def test_several_topics_take_turns(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        topics = [f"{topic}-{letter}" for letter in "abc"]
        consumer = await client.subscribe(topics, "s", OPTIONS)
        for one in topics:
            producer = await client.create_producer(one)
            for number in range(5):
                await producer.send(b"%d" % number)
        found = [await consumer.receive(10) for _ in range(15)]
        for one in topics:
            numbers = [int(each.data) for each in found if each.topic == one]
            assert numbers == list(range(5))
        for message in found:
            await consumer.acknowledge_stored(message)


async def test_a_pattern_means_topics_that_come_and_go(broker: Broker, topic: str) -> None:
    local = parse_topic(topic).local
    async with connect(broker.pulsar_url) as client:
        first = await client.create_producer(f"{topic}-one")
        consumer = await client.subscribe_pattern(f"public/default/{local}-.*", "s", OPTIONS)
        await first.send(b"1")
        assert (await consumer.receive(10)).data == b"1"
        second = await client.create_producer(f"{topic}-two")
        await client.create_producer(f"{topic}other")
        await second.send(b"2")
        assert (await consumer.receive(10)).data == b"2"
        assert isinstance(consumer, MultiTopicConsumer)
        assert set(consumer.topics) == {f"{topic}-one", f"{topic}-two"}


@pytest.mark.in_peace("the receipt of what is there already names no place")
async def test_a_table_view_has_the_last_value_of_each_key(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic, schema=StringSchema())
        for number in range(30):
            await producer.send(str(number), key=f"k{number % 3}")
        await producer.send(None, key="k1")
        view = await client.create_table_view(topic, schema=StringSchema())
        assert dict(view.items()) == {"k0": "27", "k2": "29"}
        changes: list[tuple[str, str | None]] = []
        view.for_each_and_listen(lambda key, value: changes.append((key, value)))
        found = await producer.send("new", key="k1")
        await producer.send(None, key="k0")
        await view.refresh()
        assert dict(view.items()) == {"k1": "new", "k2": "29"}
        assert changes == [("k0", "27"), ("k2", "29"), ("k1", "new"), ("k0", None)]
        assert view.position_of("k1") == found


async def test_http_finds_brokers_too(broker: Broker, topic: str) -> None:
    await make_partitions(broker, topic, 2)
    # All brokers of a cluster: by the address of one alone nothing is found while that is killed.
    url = getattr(broker, "http_service_url", broker.http_url)
    async with connect(url) as client:
        consumer = await client.subscribe(topic, "s", OPTIONS)
        producer = await client.create_producer(topic)
        sent = await producer.send(b"x")
        assert (await consumer.receive(10)).id == sent


async def test_a_subscription_is_made_with_the_topic(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        options = ProducerOptions(initial_subscription="first")
        await (await client.create_producer(topic, options)).send(b"x")
        consumer = await client.subscribe(topic, "first")
        assert (await consumer.receive(20)).data == b"x"


@pytest.mark.in_peace("what is compacted is looked at once")
async def test_of_a_compacted_topic_only_the_last_of_each_key_comes(
    broker: Broker, topic: str
) -> None:
    options = ConsumerOptions(initial_position=InitialPosition.EARLIEST, read_compacted=True)
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        producer = await client.create_producer(topic, ProducerOptions(batching=None))
        for number in range(6):
            await producer.send(b"%d" % number, key=f"k{number % 2}")
        await admin.compact(topic)

        async def found() -> list[bytes]:
            got = []
            async with await client.subscribe(topic, f"s{next(NUMBERS)}", options) as consumer:
                while not got or got[-1] != b"5":
                    got.append((await consumer.receive(20)).data)
            return got

        with anyio.fail_after(60):
            while (got := await found()) != [b"4", b"5"]:
                assert got == [b"%d" % number for number in range(6)], (
                    "expected all messages, or the compacted ones"
                )
