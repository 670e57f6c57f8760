"""Producing and consuming: order, fields, batches, compression, receipts."""

from itertools import pairwise

import pulsar
import pytest
from conformance.pulsar.conftest import Connect, Named
from conformance.pulsar.helpers import (
    WITHIN_MS,
    assert_gets,
    assert_silent,
    gather,
    numbers,
    payloads,
    send,
    take,
)

COMPRESSIONS = [
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
]


def test_messages_come_in_the_order_of_sending(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbers(500))
    assert payloads(take(consumer, 500)) == numbers(500)


def test_receipts_count_up_and_are_the_ids_of_the_deliveries(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    ids = send(client.create_producer(topic), numbers(50))
    assert all(earlier < later for earlier, later in pairwise(ids))
    assert [message.message_id() for message in take(consumer, 50)] == ids


def test_a_message_keeps_key_properties_event_time_and_producer(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, producer_name="me")
    producer.send(
        b"x",
        partition_key="key",
        ordering_key="order",
        properties={"a": "1", "é": "ü"},
        event_timestamp=1_700_000_000_123,
        sequence_id=77,
    )
    message = consumer.receive(WITHIN_MS)
    assert message.partition_key() == "key"
    assert message.ordering_key() == "order"
    assert message.properties() == {"a": "1", "é": "ü"}
    assert message.event_timestamp() == 1_700_000_000_123
    assert message.publish_timestamp() > 1_700_000_000_000
    assert message.topic_name() == topic
    assert message.redelivery_count() == 0
    assert producer.last_sequence_id() == 77


def test_an_empty_payload_is_a_message(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"")
    assert consumer.receive(WITHIN_MS).data() == b""


@pytest.mark.parametrize("size", [1, 4095, 4096, 300_000, 5 * 1024 * 1024 - 100])
def test_a_payload_of_any_size_comes_whole(client: pulsar.Client, topic: str, size: int) -> None:
    consumer = client.subscribe(topic, "s")
    payload = bytes(range(256)) * (size // 256) + bytes(size % 256)
    client.create_producer(topic).send(payload)
    assert consumer.receive(WITHIN_MS).data() == payload


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=str)
@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_compressed_messages_come_as_they_were(
    client: pulsar.Client, topic: str, compression: pulsar.CompressionType, batching: bool
) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, compression_type=compression, batching_enabled=batching
    )
    sent = [payload * 500 for payload in numbers(20)]
    send(producer, sent)
    assert payloads(take(consumer, 20)) == sent


def test_a_batch_is_one_entry_with_indexes(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=10, batching_max_publish_delay_ms=1000
    )
    send(producer, numbers(30))
    ids = [message.message_id() for message in take(consumer, 30)]
    assert [each.batch_index() for each in ids] == [*range(10)] * 3
    assert len({(each.ledger_id(), each.entry_id()) for each in ids}) == 3


def test_batches_by_key_come_with_their_keys(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(
        topic, batching_enabled=True, batching_type=pulsar.BatchingType.KeyBased
    )
    for number in range(30):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % 3}")
    producer.flush()
    by_key: dict[str, list[int]] = {}
    for message in take(consumer, 30):
        by_key.setdefault(message.partition_key(), []).append(int(message.data()))
    assert by_key == {f"k{key}": list(range(key, 30, 3)) for key in range(3)}


def test_two_subscriptions_get_every_message_each(client: pulsar.Client, topic: str) -> None:
    first, second = client.subscribe(topic, "a"), client.subscribe(topic, "b")
    send(client.create_producer(topic), numbers(20))
    for consumer in (first, second):
        assert_gets(consumer, numbers(20))


def test_a_new_subscription_starts_at_the_end_unless_told(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    producer.send(b"before")
    latest = client.subscribe(topic, "latest")
    earliest = client.subscribe(topic, "earliest", initial_position=pulsar.InitialPosition.Earliest)
    producer.send(b"after")
    assert_gets(latest, [b"after"])
    assert_gets(earliest, [b"before", b"after"])


def test_a_subscription_goes_on_where_it_was_left(connect: Connect, topic: str) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbers(10))
    for message in take(consumer, 4):
        consumer.acknowledge(message)
    client.close()
    assert_gets(connect().subscribe(topic, "s"), numbers(6, first=4))


def test_a_thousand_messages_through_a_queue_of_one(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=1)
    send(client.create_producer(topic), numbers(1000))
    for expected in numbers(1000):
        message = consumer.receive(WITHIN_MS)
        assert message.data() == expected
        consumer.acknowledge(message)


def test_a_consumer_without_a_queue_asks_for_each_message(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=0)
    producer = client.create_producer(topic)
    send(producer, numbers(5))
    assert [consumer.receive().data() for _ in range(5)] == numbers(5)


def test_no_more_comes_than_the_receiver_queue_holds(client: pulsar.Client, topic: str) -> None:
    """Permits: what one consumer does not request, another gets."""
    options = {"consumer_type": pulsar.ConsumerType.Shared, "receiver_queue_size": 10}
    idle = client.subscribe(topic, "s", **options)
    send(client.create_producer(topic), numbers(100))
    busy = client.subscribe(topic, "s", **options)
    for consumer, count in ((busy, 90), (idle, 10)):
        gather([consumer], count, acknowledge=True)


def test_chunks_of_a_large_message_come_together(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, chunking_enabled=True)
    payload = bytes(range(256)) * 50_000
    producer.send(payload)
    assert consumer.receive(WITHIN_MS).data() == payload
    assert_silent(consumer)


def test_a_name_in_use_is_refused_at_once(connect: Connect, topic: str) -> None:
    kept = connect().create_producer(topic, producer_name="me")
    with pytest.raises(pulsar.ProducerBusy):
        connect().create_producer(topic, producer_name="me")
    kept.close()
    connect().create_producer(topic, producer_name="me")


def test_a_producer_without_a_name_gets_one(client: pulsar.Client, topic: str) -> None:
    names = {client.create_producer(topic).producer_name() for _ in range(3)}
    assert len(names) == 3
    assert all(names)


def test_many_producers_and_topics_on_one_connection(client: pulsar.Client, name: Named) -> None:
    topics = [name("many") for _ in range(20)]
    consumers = [client.subscribe(topic, "s") for topic in topics]
    producers = [client.create_producer(topic) for topic in topics]
    for number in range(10):
        for producer in producers:
            producer.send_async(b"%d" % number, None)
    for producer, consumer in zip(producers, consumers, strict=True):
        producer.flush()
        assert payloads(take(consumer, 10)) == numbers(10)
