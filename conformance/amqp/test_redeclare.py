"""Redeclaring: which arguments must be equal to the original ones, and which are ignored.

In RabbitMQ each queue type has its own list of arguments that are compared; of exchanges only one
argument is compared.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import refused
from conformance.conftest import Target
from pika.adapters.blocking_connection import BlockingChannel

DLX = {"x-dead-letter-exchange": "amq.direct"}
TYPES: Mapping[str, dict[str, Any]] = {
    "classic": {},
    "quorum": {"x-queue-type": "quorum"},
    "stream": {"x-queue-type": "stream"},
}

LENGTHS = [
    ("x-expires", 100_000, 200_000),
    ("x-message-ttl", 1_000, 2_000),
    ("x-max-length", 10, 20),
    ("x-max-length-bytes", 1_000, 2_000),
    ("x-overflow", "drop-head", "reject-publish"),
    ("x-single-active-consumer", True, False),
    ("x-dead-letter-exchange", "amq.direct", "amq.fanout"),
]
COMPARED = {
    "classic": [
        *LENGTHS,
        ("x-max-priority", 3, 4),
        ("x-queue-mode", "default", "lazy"),
        ("x-queue-version", 1, 2),
        ("x-queue-master-locator", "client-local", "min-masters"),
    ],
    "quorum": [
        *LENGTHS,
        ("x-dead-letter-strategy", "at-most-once", "at-least-once"),
        ("x-max-in-memory-length", 10, 20),
        ("x-max-in-memory-bytes", 1_000, 2_000),
        ("x-quorum-initial-group-size", 1, 2),
        ("x-delivery-limit", 3, 4),
        ("x-queue-leader-locator", "client-local", "balanced"),
    ],
    "stream": [
        ("x-max-length-bytes", 1_000_000, 2_000_000),
        ("x-max-age", "1D", "2D"),
        ("x-stream-max-segment-size-bytes", 100_000, 200_000),
        ("x-initial-cluster-size", 1, 2),
        ("x-queue-leader-locator", "client-local", "balanced"),
    ],
}
PASSED_OVER = [
    ("x-consumer-timeout", 60_000, 120_000),
    ("x-somebody-elses", "a", "b"),
]
COMPARED_CASES = [(kind, *case) for kind, cases in COMPARED.items() for case in cases]
PASSED_OVER_CASES = [
    *((kind, *case) for kind in TYPES for case in PASSED_OVER),
    ("stream", "x-stream-filter-size-bytes", 32, 64),
    ("classic", "x-stream-filter-size-bytes", 32, 64),
]


def shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.parametrize(("kind", "argument", "first", "second"), COMPARED_CASES)
def test_a_queue_is_not_declared_again_with_another_value(
    connect: Connect, name: Named, kind: str, argument: str, first: Any, second: Any
) -> None:
    queue = name("again")
    connect().channel().queue_declare(
        queue, durable=True, arguments=TYPES[kind] | {argument: first}
    )
    again = TYPES[kind] | {argument: first}
    connect().channel().queue_declare(queue, durable=True, arguments=again)
    words = (
        f"PRECONDITION_FAILED - inequivalent arg '{argument}' for queue '{queue}' in vhost '/': "
    )
    with refused(406, f"{words}received '{shown(second)}' but current is '{shown(first)}'"):
        other = TYPES[kind] | {argument: second}
        connect().channel().queue_declare(queue, durable=True, arguments=other)
    erlang = {str: "longstr", bool: "bool", int: "signedint"}[type(first)]
    current = f"the value '{shown(first)}' of type '{erlang}'"
    with refused(406, f"{words}received none but current is {current}"):
        connect().channel().queue_declare(queue, durable=True, arguments=TYPES[kind])


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_a_dead_letter_routing_key_is_compared(connect: Connect, name: Named, kind: str) -> None:
    queue = name("again")
    key = "x-dead-letter-routing-key"
    connect().channel().queue_declare(queue, durable=True, arguments=TYPES[kind] | DLX | {key: "a"})
    words = f"PRECONDITION_FAILED - inequivalent arg '{key}' for queue '{queue}' in vhost '/': "
    with refused(406, f"{words}received 'b' but current is 'a'"):
        other = TYPES[kind] | DLX | {key: "b"}
        connect().channel().queue_declare(queue, durable=True, arguments=other)


@pytest.mark.parametrize(("kind", "argument", "first", "second"), PASSED_OVER_CASES)
def test_some_arguments_are_not_compared(
    channel: BlockingChannel, name: Named, kind: str, argument: str, first: Any, second: Any
) -> None:
    """The declarations have one value, another, or none, in any order."""
    queue, later = name("again"), name("again")
    for value in (first, second):
        arguments = TYPES[kind] | {argument: value}
        channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.queue_declare(queue, durable=True, arguments=TYPES[kind])
    channel.queue_declare(later, durable=True, arguments=TYPES[kind])
    channel.queue_declare(later, durable=True, arguments=TYPES[kind] | {argument: first})


def test_numbers_are_the_same_in_every_width(channel: BlockingChannel, name: Named) -> None:
    queue = name("again")
    channel.queue_declare(queue, arguments={"x-max-length": 1 << 40})
    channel.queue_declare(queue, arguments={"x-max-length": 1 << 40})
    with refused(
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue '{queue}' in vhost '/': "
        f"received '7' but current is '{1 << 40}'",
    ):
        channel.queue_declare(queue, arguments={"x-max-length": 7})


def test_no_type_is_the_classic_type(channel: BlockingChannel, name: Named) -> None:
    first, second = name("again"), name("again")
    channel.queue_declare(first)
    channel.queue_declare(first, arguments={"x-queue-type": "classic"})
    channel.queue_declare(second, arguments={"x-queue-type": "classic"})
    channel.queue_declare(second)


def test_of_an_exchange_the_alternate_is_compared_and_nothing_else(
    connect: Connect, channel: BlockingChannel, name: Named
) -> None:
    exchange = name("again")
    first = {"alternate-exchange": "amq.fanout", "x-somebody-elses": 1}
    channel.exchange_declare(exchange, "topic", arguments=first)
    channel.exchange_declare(exchange, "topic", arguments=first | {"x-somebody-elses": 2})
    channel.exchange_declare(exchange, "topic", arguments={"alternate-exchange": "amq.fanout"})
    words = f"PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange '{exchange}'"
    with refused(406, f"{words} in vhost '/': received 'amq.topic' but current is 'amq.fanout'"):
        other = {"alternate-exchange": "amq.topic"}
        connect().channel().exchange_declare(exchange, "topic", arguments=other)
    with refused(
        406,
        f"{words} in vhost '/': received none but current is the value 'amq.fanout' "
        "of type 'longstr'",
    ):
        connect().channel().exchange_declare(exchange, "topic")


def test_arguments_of_a_streams_consumers_are_passed_over_by_other_queues(
    broker: Target, channel: BlockingChannel, name: Named
) -> None:
    queue = name("again")
    channel.queue_declare(queue)
    arguments = {"x-stream-filter": "a", "x-stream-match-unfiltered": True}
    channel.basic_consume(queue, lambda *_: None, arguments=arguments)


def test_nothing_as_a_value_is_shown_as_no_value(connect: Connect, name: Named) -> None:
    queue = name("again")
    connect().channel().queue_declare(queue, arguments={"x-expires": 60_000})
    words = f"inequivalent arg 'x-expires' for queue '{queue}' in vhost '/'"
    with refused(406, f"PRECONDITION_FAILED - {words}: received none but current is '60000'"):
        connect().channel().queue_declare(queue, arguments={"x-expires": None})
