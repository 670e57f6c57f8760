"""Queues with priorities: which message is delivered first, and which is dropped when the queue is
full."""

import random
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Named
from conformance.amqp.helpers import Inbox, bodies_in, refused, settle, take, wait_until
from pika.adapters.blocking_connection import BlockingChannel

HIGHEST = 5


@pytest.fixture(params=[True, False], ids=["durable", "transient"])
def queue(channel: BlockingChannel, name: Named, request: pytest.FixtureRequest) -> str:
    return declare(channel, name("queue"), durable=request.param)


def declare(channel: BlockingChannel, queue: str, *, durable: bool = True, **arguments: Any) -> str:
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    named.setdefault("x-max-priority", HIGHEST)
    channel.queue_declare(queue, durable=durable, arguments=named)
    channel.confirm_delivery()
    return queue


def put(channel: BlockingChannel, queue: str, *priorities: int | None) -> None:
    """Publish one message for each priority; its body gives the priority and its index."""
    for index, priority in enumerate(priorities):
        properties = pika.BasicProperties(delivery_mode=2, priority=priority)
        channel.basic_publish("", queue, f"{priority}.{index}".encode(), properties)


def test_the_highest_first_and_in_order(channel: BlockingChannel, queue: str) -> None:
    put(channel, queue, 1, None, 3, 1, 9, 0, 5, 3, 200)
    assert bodies_in(channel, queue) == [
        b"9.4", b"5.6", b"200.8", b"3.2", b"3.7", b"1.0", b"1.3", b"None.1", b"0.5"
    ]  # fmt: skip


def test_a_consumer_with_a_prefetch_sees_the_urgent_next(
    channel: BlockingChannel, queue: str
) -> None:
    put(channel, queue, 0, 0, 1)
    channel.basic_qos(prefetch_count=1)
    inbox = Inbox(channel, queue)
    assert inbox.wait(1) == [b"1.2"]
    put(channel, queue, 2)
    channel.basic_ack(inbox.tags[0])
    assert inbox.wait(2)[1:] == [b"2.0"]
    channel.basic_ack(inbox.tags[1])
    assert inbox.wait(3)[2:] == [b"0.0"]


def test_what_is_requeued_goes_back_to_its_place(channel: BlockingChannel, queue: str) -> None:
    put(channel, queue, 1, 2, 1, 2)
    got = take(channel, queue, 3)
    assert [body for _, _, body in got] == [b"2.1", b"2.3", b"1.0"]
    for method, _, _ in reversed(got):
        channel.basic_nack(method.delivery_tag)
    again = take(channel, queue, 4)
    assert [body for _, _, body in again] == [b"2.1", b"2.3", b"1.0", b"1.2"]
    assert [method.redelivered for method, _, _ in again] == [True, True, True, False]


def test_purge_counts_every_priority(channel: BlockingChannel, queue: str) -> None:
    put(channel, queue, 0, 1, 2)
    (held,) = take(channel, queue, 1)
    assert channel.queue_purge(queue).method.message_count == 2
    channel.basic_nack(held[0].delivery_tag)
    assert bodies_in(channel, queue) == [b"2.2"]


def test_many_messages_in_any_order(channel: BlockingChannel, queue: str) -> None:
    chosen = [random.Random(7).randrange(HIGHEST + 1) for _ in range(2_000)]
    put(channel, queue, *chosen)
    order = sorted(range(len(chosen)), key=lambda index: (-chosen[index], index))
    inbox = Inbox(channel, queue, auto_ack=True)
    assert inbox.wait(len(chosen)) == [f"{chosen[i]}.{i}".encode() for i in order]


def test_a_full_queue_drops_what_would_go_first(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"), max_length=2)
    put(channel, queue, 0, 2, 1)
    settle(channel.connection)
    assert bodies_in(channel, queue) == [b"1.2", b"0.0"]


def test_the_urgent_hide_what_has_expired(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"))
    put(channel, queue, 1)
    properties = pika.BasicProperties(priority=0, expiration="40", delivery_mode=2)
    channel.basic_publish("", queue, b"short", properties)
    settle(channel.connection, 0.2)
    count = channel.queue_declare(queue, passive=True).method.message_count
    assert count == 2, "messages expire only at the front, where another one is"
    assert bodies_in(channel, queue) == [b"1.0"]


def test_a_dead_letter_keeps_its_priority(channel: BlockingChannel, name: Named) -> None:
    grave = declare(channel, name("grave"))
    queue = declare(channel, name("queue"), dead_letter_exchange="", dead_letter_routing_key=grave)
    put(channel, queue, 1, 3, 2)
    for method, _, _ in reversed(take(channel, queue, 3)):
        channel.basic_reject(method.delivery_tag, requeue=False)

    def all_there() -> bool:
        return bool(channel.queue_declare(grave, passive=True).method.message_count == 3)

    wait_until(channel.connection, all_there)
    assert [body for _, _, body in take(channel, grave, 3)] == [b"3.1", b"2.2", b"1.0"]


def test_another_maximum_is_another_queue(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"))
    with refused(
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue '{queue}' in vhost "
        "'/': received '6' but current is '5'",
    ):
        declare(channel, queue, max_priority=6)


def test_no_maximum_is_another_queue(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"))
    with refused(
        406,
        f"PRECONDITION_FAILED - inequivalent arg 'x-max-priority' for queue '{queue}' in vhost "
        "'/': received none but current is the value '5' of type 'signedint'",
    ):
        channel.queue_declare(queue, durable=True)
