"""Limits on unacknowledged messages, and permits: a consumer with too many unacknowledged messages
gets no more."""

import time

import pulsar
import pytest
from conformance.pulsar.conftest import Connect
from conformance.pulsar.helpers import assert_silent, numbers, payloads, send

UNACKED_MAX = 50_000
"""Apache Pulsar's default of ``maxUnackedMessagesPerConsumer``."""

BATCH = 500


def receive_all(consumer: pulsar.Consumer) -> list[pulsar.Message]:
    found = []
    while True:
        try:
            found.append(consumer.receive(1500))
        except pulsar.Timeout:
            return found


def test_a_consumer_at_its_limit_waits_until_half_is_acknowledged(
    connect: Connect, topic: str
) -> None:
    client = connect()
    shared = pulsar.ConsumerType.Shared
    consumer = client.subscribe(topic, "s", shared, receiver_queue_size=60_000)
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=BATCH,
        batching_max_publish_delay_ms=1000,
        block_if_queue_full=True,
    )
    for number in range(UNACKED_MAX + 10 * BATCH):
        producer.send_async(b"%d" % number, lambda *_: None)
    producer.flush()
    held = receive_all(consumer)
    assert len(held) == UNACKED_MAX
    for message in held[: UNACKED_MAX // 2 - BATCH]:
        consumer.acknowledge(message)
    time.sleep(0.5)
    assert_silent(consumer)
    for message in held[UNACKED_MAX // 2 - BATCH : UNACKED_MAX // 2]:
        consumer.acknowledge(message)
    assert len(receive_all(consumer)) == 10 * BATCH


@pytest.mark.parametrize(
    "kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared], ids=["shared", "keyed"]
)
def test_no_more_comes_than_was_asked_for(
    connect: Connect, topic: str, kind: pulsar.ConsumerType
) -> None:
    """Messages that do not fit into one consumer's small queue are available to another."""
    one = connect().subscribe(topic, "s", kind, receiver_queue_size=10)
    send(connect().create_producer(topic), numbers(50))
    time.sleep(0.3)
    two = connect().subscribe(topic, "s", kind, receiver_queue_size=1000)
    found = payloads(receive_all(two))
    if kind is pulsar.ConsumerType.Shared:
        assert len(found) >= 30
    assert sorted(found + payloads(receive_all(one)), key=int) == numbers(50)


def test_a_consumer_without_a_queue_gets_one_at_a_time(connect: Connect, topic: str) -> None:
    """So two such consumers share evenly, whichever of them came first."""
    one, two = (
        connect().subscribe(topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=0)
        for _ in range(2)
    )
    send(connect().create_producer(topic), numbers(6))
    # Without a queue, the client does not support a timeout here.
    assert [each.receive().data() for each in (one, one, two, one, two, two)] == numbers(6)
