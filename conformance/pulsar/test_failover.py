"""Failover subscriptions: one consumer is active, and what happens when consumers come and go."""

import pulsar
import pytest
from conformance.pulsar.conftest import Connect
from conformance.pulsar.helpers import (
    assert_gets,
    assert_silent,
    gather,
    numbers,
    payloads,
    send,
    take,
)

FAILOVER = pulsar.ConsumerType.Failover


def subscribe(client: pulsar.Client, topic: str, name: str, **options: object) -> pulsar.Consumer:
    return client.subscribe(topic, "s", FAILOVER, consumer_name=name, **options)


def test_one_gets_everything_and_the_other_takes_over(connect: Connect, topic: str) -> None:
    client = connect()
    one = subscribe(client, topic, "a")
    two = subscribe(connect(), topic, "b")
    send(client.create_producer(topic), numbers(10))
    first, second = map(payloads, gather([one, two], 10))
    # The topic's name determines which of them is active.
    active, idle = (one, two) if first else (two, one)
    assert sorted([first, second]) == [[], numbers(10)]
    for message in take_again(active, 4):
        active.acknowledge(message)
    active.close()
    assert_gets(idle, numbers(6, first=4))


def take_again(consumer: pulsar.Consumer, count: int) -> list[pulsar.Message]:
    consumer.redeliver_unacknowledged_messages()
    return take(consumer, count)


def test_a_cumulative_ack_is_allowed(connect: Connect, topic: str) -> None:
    client = connect()
    consumer = subscribe(client, topic, "a")
    send(client.create_producer(topic), numbers(5))
    consumer.acknowledge_cumulative(take(consumer, 3)[-1])
    consumer.close()
    assert_gets(subscribe(client, topic, "a"), numbers(2, first=3))


@pytest.mark.parametrize("other", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.Exclusive])
def test_other_types_are_refused(connect: Connect, topic: str, other: pulsar.ConsumerType) -> None:
    subscribe(connect(), topic, "a")
    with pytest.raises(pulsar.ConsumerBusy):
        connect().subscribe(topic, "s", other)


def test_every_consumer_learns_which_one_is_active(connect: Connect, topic: str) -> None:
    notified: list[str] = []

    class Listener:
        def __init__(self, name: str) -> None:
            self.name = name

        def __call__(self, consumer: pulsar.Consumer, message: pulsar.Message) -> None:
            notified.append(self.name)
            consumer.acknowledge(message)

    client = connect()
    consumers = [
        subscribe(connect(), topic, name, message_listener=Listener(name)) for name in "abc"
    ]
    producer = client.create_producer(topic)
    send(producer, numbers(6))
    reader = connect().subscribe(topic, "watch", initial_position=pulsar.InitialPosition.Earliest)
    assert payloads(take(reader, 6)) == numbers(6)
    assert_silent(reader)
    assert len(set(notified)) == 1
    assert len(notified) == 6
    for consumer in consumers:
        consumer.close()
