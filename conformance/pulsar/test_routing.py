"""Partitioned topics as clients see them: where a message goes, and reading all partitions."""

import time

import pulsar
import pytest
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import Connect
from conformance.pulsar.helpers import WITHIN_MS, assert_gets, gather, numbers, payloads, send, take

PARTITIONS = 4
EARLIEST = pulsar.InitialPosition.Earliest


@pytest.fixture
def parted(admin: Admin, topic: str) -> str:
    """A partitioned topic."""
    admin.put(f"{local(topic)}/partitions", PARTITIONS)
    return topic


def publishers(admin: Admin, topic: str) -> list[int]:
    """The number of producers of each partition."""
    stats = (admin.get(f"{local(topic)}-partition-{n}/stats") for n in range(PARTITIONS))
    return [len(each["publishers"]) for each in stats]


def test_messages_without_a_key_may_have_one_partition(
    client: pulsar.Client, admin: Admin, parted: str
) -> None:
    consumer = client.subscribe(parted, "s")
    producer = client.create_producer(
        parted, message_routing_mode=pulsar.PartitionsRoutingMode.UseSinglePartition
    )
    send(producer, numbers(20))
    found = take(consumer, 20)
    assert payloads(found) == numbers(20)
    assert len({each.message_id().partition() for each in found}) == 1
    assert publishers(admin, parted) == [1] * PARTITIONS


def test_a_router_may_choose_the_partition(client: pulsar.Client, parted: str) -> None:
    consumer = client.subscribe(parted, "s")
    producer = client.create_producer(
        parted,
        batching_enabled=False,
        message_router=lambda message, count: int(message.properties()["to"]) % count,
    )
    for number in range(12):
        producer.send(b"%d" % number, properties={"to": str(number * 3)})
    found = take(consumer, 12)
    for message in found:
        assert message.message_id().partition() == int(message.data()) * 3 % PARTITIONS


def test_producers_of_partitions_may_come_when_they_are_needed(
    client: pulsar.Client, admin: Admin, parted: str
) -> None:
    producer = client.create_producer(
        parted,
        lazy_start_partitioned_producers=True,
        message_routing_mode=pulsar.PartitionsRoutingMode.UseSinglePartition,
    )
    assert sum(publishers(admin, parted)) <= 1
    for number in range(5):
        producer.send(b"%d" % number)
    assert sum(publishers(admin, parted)) == 1
    for number in range(40):
        producer.send(b"x", partition_key=f"key {number}")
    assert publishers(admin, parted) == [1] * PARTITIONS


def test_what_is_acknowledged_in_partitions_stays_so(connect: Connect, parted: str) -> None:
    client = connect()
    consumer = client.subscribe(parted, "s", batch_index_ack_enabled=True)
    producer = client.create_producer(
        parted, batching_enabled=True, batching_max_publish_delay_ms=200
    )
    for number in range(80):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % 16}")
    producer.flush()
    kept = []
    for message in take(consumer, 80):
        if int(message.data()) % 3:
            consumer.acknowledge(message)
        else:
            kept.append(message.data())
    client.close()
    again = connect().subscribe(parted, "s", batch_index_ack_enabled=True)
    assert sorted(payloads(gather([again], len(kept))[0])) == sorted(kept)


def test_seeking_in_all_partitions(client: pulsar.Client, parted: str) -> None:
    consumer = client.subscribe(parted, "s")
    producer = client.create_producer(parted, batching_enabled=False)
    send(producer, numbers(12))
    time.sleep(0.05)
    between = int(time.time() * 1000)
    time.sleep(0.05)
    send(producer, numbers(12, first=12))
    take(consumer, 24)
    consumer.seek(pulsar.MessageId.earliest)
    assert sorted(payloads(take(consumer, 24))) == sorted(numbers(24))
    consumer.seek(between)
    assert sorted(payloads(take(consumer, 12))) == sorted(numbers(12, first=12))
    consumer.seek(pulsar.MessageId.latest)
    assert_gets(consumer, [])
    send(producer, [b"new"])
    assert_gets(consumer, [b"new"])


def test_a_reader_reads_all_partitions_to_the_end(client: pulsar.Client, parted: str) -> None:
    producer = client.create_producer(parted, batching_enabled=False)
    send(producer, numbers(20))
    reader = client.create_reader(parted, pulsar.MessageId.earliest)

    def rest() -> list[bytes]:
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(WITHIN_MS).data())
        return sorted(found)

    assert rest() == sorted(numbers(20))
    send(producer, numbers(5, first=20))
    assert rest() == sorted(numbers(5, first=20))
    reader.seek(pulsar.MessageId.earliest)
    assert rest() == sorted(numbers(25))
    latest = client.create_reader(parted, pulsar.MessageId.latest)
    assert not latest.has_message_available()
    send(producer, [b"new"])
    assert latest.read_next(WITHIN_MS).data() == b"new"


def test_a_key_keeps_its_partition_whichever_client_sends(connect: Connect, parted: str) -> None:
    consumer = connect().subscribe(parted, "s")
    for _ in range(2):
        producer = connect().create_producer(parted)
        for number in range(32):
            producer.send_async(b"x", None, partition_key=f"key {number}")
        producer.flush()
    places: dict[str, set[int]] = {}
    for message in take(consumer, 64):
        places.setdefault(message.partition_key(), set()).add(message.message_id().partition())
    assert len(places) == 32
    assert all(len(each) == 1 for each in places.values())
    assert {place for each in places.values() for place in each} == set(range(PARTITIONS))


@pytest.mark.parametrize(
    "kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared], ids=["shared", "keyed"]
)
def test_consumers_share_every_partition(
    connect: Connect, parted: str, kind: pulsar.ConsumerType
) -> None:
    consumers = [connect().subscribe(parted, "s", kind) for _ in range(2)]
    producer = connect().create_producer(parted, batching_enabled=False)
    for number in range(120):
        producer.send_async(b"%d" % number, None, partition_key=f"key {number % 40}")
    producer.flush()
    found = [payloads(each) for each in gather(consumers, 120)]
    assert all(found)
    assert sorted(found[0] + found[1]) == sorted(numbers(120))
    if kind is pulsar.ConsumerType.KeyShared:
        keys = [{int(body) % 40 for body in each} for each in found]
        assert not keys[0] & keys[1]
