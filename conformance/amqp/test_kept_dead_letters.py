"""Dead letters of quorum queues with the strategy "at-least-once": they wait for queues that take
them."""

from typing import Any

import pytest
from conformance.amqp.conftest import Named
from conformance.amqp.helpers import publish, settle, take, wait_until
from pika.adapters.blocking_connection import BlockingChannel

AGAIN_S = 2.5
"""Both brokers send them again at least once in that time."""


def declare_at_least_once(channel: BlockingChannel, queue: str, exchange: str, **more: Any) -> str:
    """A quorum queue that keeps what no queue takes behind ``exchange``."""
    arguments = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": exchange,
        "x-dead-letter-strategy": "at-least-once",
        **more,
    }
    channel.queue_declare(queue, durable=True, arguments=arguments)
    return queue


def count(channel: BlockingChannel, queue: str) -> int:
    messages: int = channel.queue_declare(queue, passive=True).method.message_count
    return messages


def reject(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """Have these published to ``queue`` and rejected by a consumer."""
    for body in bodies:
        publish(channel, queue, body)
    for method, _, _ in take(channel, queue, len(bodies)):
        channel.basic_reject(method.delivery_tag, requeue=False)


def drained(channel: BlockingChannel, queue: str) -> list[tuple[bytes, Any, Any]]:
    """What is in ``queue``: each body, why it died, and how often."""
    found = []
    for method, properties, body in take(channel, queue, count(channel, queue)):
        channel.basic_ack(method.delivery_tag)
        [death] = (properties.headers or {})["x-death"]
        found.append((body, death["reason"], death["count"]))
    return sorted(found)


@pytest.mark.parametrize("how", ["rejected", "expired"])
def test_a_dead_letter_waits_until_its_exchange_routes_it(
    channel: BlockingChannel, name: Named, how: str
) -> None:
    exchange, dead = name("dlx"), name("dead")
    more = {"x-message-ttl": 1} if how == "expired" else {}
    queue = declare_at_least_once(channel, name("queue"), exchange, **more)
    if how == "rejected":
        reject(channel, queue, b"a", b"b")
    else:
        publish(channel, queue, b"a")
        publish(channel, queue, b"b")
        wait_until(channel.connection, lambda: not count(channel, queue))
    settle(channel.connection, AGAIN_S)
    channel.exchange_declare(exchange, "fanout", durable=True)
    channel.queue_declare(dead, durable=True)
    settle(channel.connection, AGAIN_S)
    assert (count(channel, queue), count(channel, dead)) == (0, 0)
    channel.queue_bind(dead, exchange)
    wait_until(channel.connection, lambda: count(channel, dead) == 2)
    assert drained(channel, dead) == [(b"a", how, 1), (b"b", how, 1)]
    settle(channel.connection, AGAIN_S)
    assert (count(channel, queue), count(channel, dead)) == (0, 0)


def test_a_full_queue_gets_a_dead_letter_later_and_no_other_gets_it_twice(
    channel: BlockingChannel, name: Named
) -> None:
    exchange, free, full = name("dlx"), name("free"), name("full")
    channel.exchange_declare(exchange, "fanout", durable=True)
    channel.queue_declare(free, durable=True)
    bounds = {"x-max-length": 1, "x-overflow": "reject-publish"}
    channel.queue_declare(full, durable=True, arguments=bounds)
    for each in (free, full):
        channel.queue_bind(each, exchange)
    publish(channel, full, b"first")
    queue = declare_at_least_once(channel, name("queue"), exchange)
    reject(channel, queue, b"a")
    wait_until(channel.connection, lambda: count(channel, free) == 1)
    settle(channel.connection, AGAIN_S)
    assert (count(channel, free), count(channel, full)) == (1, 1)
    channel.queue_purge(full)
    wait_until(channel.connection, lambda: count(channel, full) == 1)
    settle(channel.connection, AGAIN_S)
    assert drained(channel, free) == drained(channel, full) == [(b"a", "rejected", 1)]
    assert count(channel, queue) == 0


def test_without_reject_publish_what_no_queue_takes_is_gone(
    channel: BlockingChannel, name: Named
) -> None:
    exchange, dead = name("dlx"), name("dead")
    queue = declare_at_least_once(channel, name("queue"), exchange, **{"x-overflow": "drop-head"})
    reject(channel, queue, b"a")
    settle(channel.connection, 0.5)
    channel.exchange_declare(exchange, "fanout", durable=True)
    channel.queue_declare(dead, durable=True)
    channel.queue_bind(dead, exchange)
    settle(channel.connection, AGAIN_S)
    assert (count(channel, queue), count(channel, dead)) == (0, 0)


def test_with_at_most_once_what_no_queue_takes_is_gone(
    channel: BlockingChannel, name: Named
) -> None:
    exchange, dead = name("dlx"), name("dead")
    queue = declare_at_least_once(
        channel, name("queue"), exchange, **{"x-dead-letter-strategy": "at-most-once"}
    )
    reject(channel, queue, b"a")
    settle(channel.connection, 0.5)
    channel.exchange_declare(exchange, "fanout", durable=True)
    channel.queue_declare(dead, durable=True)
    channel.queue_bind(dead, exchange)
    settle(channel.connection, AGAIN_S)
    assert (count(channel, queue), count(channel, dead)) == (0, 0)
