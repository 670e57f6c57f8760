"""The exchange type x-consistent-hash of RabbitMQ's plugin."""

from collections import Counter
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import refused
from pika.adapters.blocking_connection import BlockingChannel

COUNT = 600


def hashing(
    channel: BlockingChannel, name: Named, weights: tuple[int, ...], **arguments: Any
) -> tuple[str, list[str]]:
    """An exchange with a queue for each weight; the result is its name and the queues'."""
    exchange = name("hash")
    channel.exchange_declare(exchange, "x-consistent-hash", arguments=arguments)
    queues = []
    for weight in weights:
        queues.append(name("queue"))
        channel.queue_declare(queues[-1])
        channel.queue_bind(queues[-1], exchange, str(weight))
    return exchange, queues


def counts(channel: BlockingChannel, queues: list[str]) -> list[int]:
    return [channel.queue_declare(each, passive=True).method.message_count for each in queues]


def test_keys_are_spread_by_weight(channel: BlockingChannel, name: Named) -> None:
    exchange, queues = hashing(channel, name, (1, 3))
    channel.confirm_delivery()
    for number in range(COUNT):
        channel.basic_publish(exchange, f"key-{number}", b"x")
    light, heavy = counts(channel, queues)
    assert light + heavy == COUNT
    assert COUNT * 0.1 < light < COUNT * 0.4


def test_the_same_key_goes_to_the_same_queue(channel: BlockingChannel, name: Named) -> None:
    exchange, queues = hashing(channel, name, (1, 1, 1))
    channel.confirm_delivery()
    for _ in range(20):
        channel.basic_publish(exchange, "the key", b"x")
    assert Counter(counts(channel, queues)) == {0: 2, 20: 1}


@pytest.mark.parametrize(
    ("arguments", "properties"),
    [
        ({"hash-header": "h"}, pika.BasicProperties(headers={"h": "same"})),
        ({"hash-property": "message_id"}, pika.BasicProperties(message_id="same")),
        ({"hash-property": "correlation_id"}, pika.BasicProperties(correlation_id="same")),
    ],
)
def test_something_else_may_be_hashed(
    channel: BlockingChannel,
    name: Named,
    arguments: dict[str, str],
    properties: pika.BasicProperties,
) -> None:
    exchange, queues = hashing(channel, name, (1, 1, 1), **arguments)
    channel.confirm_delivery()
    for number in range(20):
        channel.basic_publish(exchange, f"key-{number}", b"x", properties)
    assert Counter(counts(channel, queues)) == {0: 2, 20: 1}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("abc", 'The binding key must be an integer: <<"abc">>'),
        ("0", "The binding key must be greater than 0"),
    ],
)
def test_a_binding_key_is_a_weight(connect: Connect, name: Named, key: str, text: str) -> None:
    channel = connect().channel()
    exchange, queues = hashing(channel, name, (1,))
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        channel.queue_bind(queues[0], exchange, key)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"hash-property": "app_id"}, "Unsupported property: app_id"),
        (
            {"hash-property": "message_id", "hash-header": "h"},
            "hash-header and hash-property are mutually exclusive",
        ),
    ],
)
def test_arguments_that_mean_nothing(
    connect: Connect, name: Named, arguments: dict[str, str], text: str
) -> None:
    channel = connect().channel()
    with refused(406, f"PRECONDITION_FAILED - {text}"):
        channel.exchange_declare(name("hash"), "x-consistent-hash", arguments=arguments)
