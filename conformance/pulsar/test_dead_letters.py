"""Dead letter topics: where messages go that no consumer could process, and what they carry
there."""

import time

import pulsar
import pytest
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import Connect
from conformance.pulsar.helpers import (
    WITHIN_MS,
    assert_gets,
    assert_silent,
    numbers,
    payloads,
    send,
    take,
)

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
KEY_SHARED = pulsar.ConsumerType.KeyShared

DEATHS = 2
"""How many times a message is redelivered."""


def mourning(
    client: pulsar.Client,
    topic: str,
    policy: pulsar.ConsumerDeadLetterPolicy,
    kind: pulsar.ConsumerType = SHARED,
) -> pulsar.Consumer:
    return client.subscribe(
        topic, "s", kind, negative_ack_redelivery_delay_ms=100, dead_letter_policy=policy
    )


def kill(consumer: pulsar.Consumer, messages: int) -> None:
    """Return this many messages until they are dead-lettered."""
    counts: dict[bytes, int] = {}
    for _ in range(messages * (DEATHS + 1)):
        message = consumer.receive(WITHIN_MS)
        assert message.redelivery_count() == counts.get(message.data(), 0)
        counts[message.data()] = message.redelivery_count() + 1
        consumer.negative_acknowledge(message)
    assert set(counts.values()) == {DEATHS + 1}


def close_when_silent(consumer: pulsar.Consumer) -> None:
    """Close the consumer after nothing more comes. The wheel crashes if a client is closed while a
    consumer of partitions is handling acknowledgements of dead letters."""
    assert_silent(consumer)
    consumer.close()


@pytest.mark.parametrize("kind", [SHARED, KEY_SHARED], ids=["shared", "keyed"])
def test_dead_letters_are_kept_for_later_consumers(
    connect: Connect, topic: str, kind: pulsar.ConsumerType
) -> None:
    """The dead letter topic is named after the topic and the subscription; the policy's initial
    subscription keeps its messages."""
    policy = pulsar.ConsumerDeadLetterPolicy(DEATHS, initial_subscription_name="graves")
    assert (policy.max_redeliver_count, policy.initial_subscription_name) == (DEATHS, "graves")
    consumer = mourning(connect(), topic, policy, kind)
    producer = connect().create_producer(topic)
    for number in range(3):
        producer.send(b"%d" % number, partition_key=f"k{number}", properties={"a": "1"})
    alive = consumer.receive(WITHIN_MS)
    consumer.acknowledge(alive)
    kill(consumer, 2)
    close_when_silent(consumer)
    dead = connect().subscribe(f"{topic}-s-DLQ", "graves", SHARED)
    found = take(dead, 2)
    assert sorted([alive.data(), *payloads(found)]) == numbers(3)
    for message in found:
        assert message.partition_key() == f"k{message.data().decode()}"
        assert message.properties()["a"] == "1"
        assert message.properties()["REAL_TOPIC"] == topic
    # Dead-lettered messages have been acknowledged.
    assert_gets(connect().subscribe(topic, "s", kind), [])


def test_without_a_subscription_they_are_not_kept(connect: Connect, topic: str) -> None:
    consumer = mourning(connect(), topic, pulsar.ConsumerDeadLetterPolicy(DEATHS, f"{topic}-dead"))
    producer = connect().create_producer(topic)
    producer.send(b"first")
    kill(consumer, 1)
    assert_silent(consumer)
    dead = connect().subscribe(f"{topic}-dead", "late")
    producer.send(b"second")
    kill(consumer, 1)
    assert dead.receive(WITHIN_MS).data() == b"second"
    close_when_silent(consumer)


def test_a_batch_dies_whole(connect: Connect, topic: str) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(DEATHS, initial_subscription_name="graves")
    consumer = mourning(connect(), topic, policy)
    producer = connect().create_producer(
        topic, batching_enabled=True, batching_max_messages=6, batching_max_publish_delay_ms=5_000
    )
    send(producer, numbers(6))
    kill(consumer, 6)
    dead = connect().subscribe(f"{topic}-s-DLQ", "graves", SHARED)
    assert sorted(payloads(take(dead, 6))) == numbers(6)
    close_when_silent(consumer)


def test_partitions_have_one_grave(connect: Connect, admin: Admin, topic: str) -> None:
    admin.put(f"{local(topic)}/partitions", 3)
    policy = pulsar.ConsumerDeadLetterPolicy(DEATHS, f"{topic}-dead", "graves")
    consumer = mourning(connect(), topic, policy)
    send(connect().create_producer(topic, batching_enabled=False), numbers(6))
    kill(consumer, 6)
    dead = connect().subscribe(f"{topic}-dead", "graves", SHARED)
    assert sorted(payloads(take(dead, 6))) == numbers(6)
    close_when_silent(consumer)


def test_what_is_given_back_without_a_word_dies_too(connect: Connect, topic: str) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(DEATHS, initial_subscription_name="graves")
    consumer = mourning(connect(), topic, policy)
    connect().create_producer(topic).send(b"x")
    for count in range(DEATHS + 1):
        message = consumer.receive(WITHIN_MS)
        assert message.redelivery_count() == count
        consumer.redeliver_unacknowledged_messages()
    dead = connect().subscribe(f"{topic}-s-DLQ", "graves", SHARED, initial_position=EARLIEST)
    assert dead.receive(WITHIN_MS).data() == b"x"
    close_when_silent(consumer)


def test_graves_are_dug_when_they_are_needed(connect: Connect, admin: Admin, topic: str) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(DEATHS, initial_subscription_name="graves")
    consumer = mourning(connect(), topic, policy)
    connect().create_producer(topic).send(b"x")
    for _ in range(DEATHS):
        consumer.negative_acknowledge(consumer.receive(WITHIN_MS))
    last = consumer.receive(WITHIN_MS)
    grave = f"{local(topic)}-s-DLQ"
    assert admin.get_if_there(f"{grave}/subscriptions") is None
    consumer.negative_acknowledge(last)
    end = time.monotonic() + WITHIN_MS / 1000
    while admin.get_if_there(f"{grave}/subscriptions") != ["graves"]:
        assert time.monotonic() < end
        time.sleep(0.05)
    close_when_silent(consumer)
