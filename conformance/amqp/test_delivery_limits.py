"""Quorum queues: how often a message was returned, and how often it may be."""

from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import publish, settle, take, wait_until
from pika.adapters.blocking_connection import BlockingChannel

COUNT = "x-delivery-count"


def declare(channel: BlockingChannel, queue: str, **arguments: Any) -> str:
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": "quorum", **named})
    return queue


@pytest.fixture
def pair(channel: BlockingChannel, name: Named) -> tuple[str, str]:
    """A queue that delivers a message at most three times, and its dead letter queue."""
    dead, queue = name("dead"), name("queue")
    channel.queue_declare(dead, durable=True)
    declare(
        channel, queue, delivery_limit=2,
        dead_letter_exchange="", dead_letter_routing_key=dead,
    )  # fmt: skip
    return queue, dead


def counts_and_deaths(properties: pika.BasicProperties) -> tuple[Any, Any]:
    headers = properties.headers or {}
    death = headers["x-death"][0]
    return headers.get(COUNT), (death["reason"], death["queue"], death["count"])


def test_a_nacked_message_comes_as_often_as_the_limit_says(
    channel: BlockingChannel, pair: tuple[str, str]
) -> None:
    queue, dead = pair
    publish(channel, queue, b"a")
    for count in range(3):
        method, properties, _ = take(channel, queue, 1)[0]
        assert (method.redelivered, (properties.headers or {})[COUNT]) == (count > 0, count)
        channel.basic_nack(method.delivery_tag, requeue=True)
    _, properties, body = take(channel, dead, 1)[0]
    assert body == b"a"
    assert counts_and_deaths(properties) == (None, ("delivery_limit", queue, 1))


def test_a_message_that_kills_its_consumers_comes_to_its_limit(
    connect: Connect, channel: BlockingChannel, pair: tuple[str, str]
) -> None:
    queue, dead = pair
    publish(channel, queue, b"a")
    for count in range(3):
        victim = connect()
        ours = victim.channel()
        _, properties, _ = take(ours, queue, 1)[0]
        assert (properties.headers or {})[COUNT] == count
        if count:
            victim.close()
        else:
            ours.close()
    _, properties, _ = take(channel, dead, 1)[0]
    assert counts_and_deaths(properties) == (None, ("delivery_limit", queue, 1))


def test_a_delivery_says_what_was_counted(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"))
    publish(channel, queue, b"a")
    seen: list[Any] = []

    def deliver(_: Any, method: Any, properties: Any, body: bytes) -> None:
        seen.append((body, method.redelivered, (properties.headers or {}).get(COUNT)))
        if len(seen) < 3:
            channel.basic_nack(method.delivery_tag, requeue=True)

    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(queue, deliver)
    wait_until(channel.connection, lambda: len(seen) == 3)
    assert seen == [(b"a", False, None), (b"a", True, 1), (b"a", True, 2)]


def test_headers_of_the_publisher_stay(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"))
    properties = pika.BasicProperties(headers={"k": 1}, content_type="text/plain")
    channel.basic_publish("", queue, b"a", properties)
    _, found, _ = take(channel, queue, 1)[0]
    assert (found.headers, found.content_type) == ({"k": 1, COUNT: 0}, "text/plain")


def test_a_rejected_message_does_not_wait_for_the_limit(
    channel: BlockingChannel, pair: tuple[str, str]
) -> None:
    queue, dead = pair
    publish(channel, queue, b"a")
    channel.basic_reject(take(channel, queue, 1)[0][0].delivery_tag, requeue=False)
    _, properties, _ = take(channel, dead, 1)[0]
    assert counts_and_deaths(properties) == (None, ("rejected", queue, 1))
    settle(channel.connection, 0.1)
    assert channel.basic_get(queue)[0] is None
