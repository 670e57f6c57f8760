"""Acknowledgement and redelivery: individual, cumulative, within batches, negative."""

import time

import pulsar
import pytest
from conformance.pulsar.conftest import Connect
from conformance.pulsar.helpers import (
    ACKS_SENT_S,
    WITHIN_MS,
    assert_gets,
    assert_silent,
    gather,
    numbers,
    payloads,
    send,
    take,
)

SHARED = pulsar.ConsumerType.Shared


def batches(client: pulsar.Client, topic: str, size: int) -> pulsar.Producer:
    return client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=size,
        batching_max_publish_delay_ms=1000,
    )


def test_what_is_not_acknowledged_comes_again_in_order(connect: Connect, topic: str) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s", SHARED)
    send(client.create_producer(topic), numbers(10))
    for message in take(consumer, 10)[1::2]:
        consumer.acknowledge(message)
    client.close()
    assert_gets(connect().subscribe(topic, "s", SHARED), numbers(10)[0::2])


def test_a_cumulative_ack_takes_all_before_it(connect: Connect, topic: str) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbers(10))
    consumer.acknowledge_cumulative(take(consumer, 7)[-1])
    client.close()
    assert_gets(connect().subscribe(topic, "s"), numbers(3, first=7))


def test_a_batch_comes_again_whole_without_index_acks(connect: Connect, topic: str) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s")
    send(batches(client, topic, 10), numbers(10))
    for message in take(consumer, 5):
        consumer.acknowledge(message)
    client.close()
    assert_gets(connect().subscribe(topic, "s"), numbers(10))


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, SHARED], ids=str)
@pytest.mark.parametrize("size", [10, 64, 65, 130])
def test_only_what_is_left_of_a_batch_comes_again(
    connect: Connect, topic: str, kind: pulsar.ConsumerType, size: int
) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s", kind, batch_index_ack_enabled=True)
    send(batches(client, topic, size), numbers(size))
    for message in take(consumer, size)[size // 3 :]:
        consumer.acknowledge(message)
    client.close()
    again = connect().subscribe(topic, "s", kind, batch_index_ack_enabled=True)
    assert_gets(again, numbers(size // 3))


def test_a_cumulative_ack_inside_a_batch(connect: Connect, topic: str) -> None:
    client = connect()
    consumer = client.subscribe(topic, "s", batch_index_ack_enabled=True)
    send(batches(client, topic, 10), numbers(30))
    consumer.acknowledge_cumulative(take(consumer, 15)[-1])
    client.close()
    again = connect().subscribe(topic, "s", batch_index_ack_enabled=True)
    assert_gets(again, numbers(15, first=15))


def test_a_batch_acknowledged_by_two_clients_is_done(connect: Connect, topic: str) -> None:
    for part in (slice(None, None, 2), slice(None)):
        client = connect()
        consumer = client.subscribe(topic, "s", SHARED, batch_index_ack_enabled=True)
        if part.step:
            send(batches(client, topic, 10), numbers(10))
            held = take(consumer, 10)
        else:
            held = take(consumer, 5)
            assert payloads(held) == numbers(10)[1::2]
        for message in held[part]:
            consumer.acknowledge(message)
        client.close()
    assert_silent(connect().subscribe(topic, "s", SHARED))


def test_a_negative_ack_brings_the_message_again_and_counts(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=100)
    send(client.create_producer(topic), numbers(3))
    held = take(consumer, 3)
    consumer.acknowledge(held[0])
    consumer.acknowledge(held[2])
    for count in (1, 2, 3):
        consumer.negative_acknowledge(held[1])
        held[1] = consumer.receive(WITHIN_MS)
        assert held[1].data() == b"1"
        assert held[1].redelivery_count() == count


def test_redelivery_of_all_on_an_exclusive_subscription_rewinds(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s")
    send(client.create_producer(topic), numbers(10))
    held = take(consumer, 10)
    consumer.acknowledge(held[0])
    consumer.acknowledge(held[3])
    time.sleep(ACKS_SENT_S)
    consumer.redeliver_unacknowledged_messages()
    expected = [payload for payload in numbers(10) if payload not in (b"0", b"3")]
    again = take(consumer, 8)
    assert payloads(again) == expected
    assert {message.redelivery_count() for message in again} == {0}


def test_redelivery_of_all_on_a_shared_subscription_counts(
    client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "s", SHARED)
    send(client.create_producer(topic), numbers(5))
    consumer.acknowledge(take(consumer, 5)[2])
    time.sleep(ACKS_SENT_S)
    consumer.redeliver_unacknowledged_messages()
    again = take(consumer, 4)
    assert payloads(again) == [b"0", b"1", b"3", b"4"]
    assert {message.redelivery_count() for message in again} == {1}


def test_a_leaving_consumers_messages_go_to_the_others_uncounted(
    connect: Connect, topic: str
) -> None:
    leaving, staying = connect(), connect()
    first = leaving.subscribe(topic, "s", SHARED, receiver_queue_size=5)
    send(leaving.create_producer(topic), numbers(5))
    take(first, 2)
    second = staying.subscribe(topic, "s", SHARED)
    assert_silent(second)
    leaving.close()
    again = take(second, 5)
    assert payloads(again) == numbers(5)
    assert {message.redelivery_count() for message in again} == {0}


def test_a_message_sent_back_often_goes_to_the_dead_letter_topic(
    client: pulsar.Client, topic: str
) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(2, f"{topic}-dead", "keep")
    consumer = client.subscribe(
        topic, "s", SHARED, negative_ack_redelivery_delay_ms=100, dead_letter_policy=policy
    )
    dead = client.subscribe(f"{topic}-dead", "s")
    client.create_producer(topic).send(b"poison")
    for _ in range(3):
        consumer.negative_acknowledge(consumer.receive(WITHIN_MS))
    assert dead.receive(WITHIN_MS).data() == b"poison"
    assert_silent(consumer)


def test_shared_consumers_get_each_message_once(connect: Connect, topic: str) -> None:
    clients = [connect() for _ in range(3)]
    consumers = [each.subscribe(topic, "s", SHARED, receiver_queue_size=20) for each in clients]
    send(connect().create_producer(topic), numbers(300))
    found = [payload for each in gather(consumers, 300) for payload in payloads(each)]
    assert sorted(found) == sorted(numbers(300))
