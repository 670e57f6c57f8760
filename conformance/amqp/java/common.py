"""Helpers for the scenarios taken from the Java client's test suite.

The rule of this folder: ``test_<class>_<method>`` tests what ``Class.method`` of that suite tests,
in our own words. ``JAVA.md`` says where each of them is, and why a few are missing.
"""

import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

import pika
from conformance.amqp.conftest import Connect
from conformance.amqp.helpers import PERSISTENT, WITHIN_S, Inbox, wait_until
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

MANY = 1_000


def got(channel: BlockingChannel, queue: str) -> bytes | None:
    """Get and acknowledge the next message; None if no message is ready."""
    body: bytes | None = channel.basic_get(queue, auto_ack=True)[2]
    return body


def pause(channel: BlockingChannel, ms: float) -> None:
    """Wait for ``ms`` milliseconds while processing the connection's events."""
    channel.connection.sleep(ms / 1000)


def temporary(channel: BlockingChannel, **arguments: Any) -> str:
    """Declare an exclusive queue whose name the server chooses; the result is that name."""
    return str(channel.queue_declare("", exclusive=True, **arguments).method.queue)


def ready(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def wait_ready(channel: BlockingChannel, queue: str, count: int) -> None:
    """Wait until exactly ``count`` messages are ready."""
    wait_until(channel.connection, lambda: ready(channel, queue) == count)


def gone(connect: Connect, queue: str) -> bool:
    """Whether a passive declare, on a connection of its own, does not find the queue."""
    connection = connect()
    try:
        connection.channel().queue_declare(queue, passive=True)
    except ChannelClosedByBroker as error:
        assert error.reply_code == 404
        return True
    finally:
        connection.close()
    return False


def wait_gone(connect: Connect, queue: str) -> None:
    end = time.monotonic() + WITHIN_S
    while not gone(connect, queue):
        assert time.monotonic() < end, f"expected {queue} to go within {WITHIN_S} s"


def no_exchange(channel: BlockingChannel, exchange: str) -> bool:
    """Whether a passive declare, on a channel of its own, does not find the exchange."""
    try:
        channel.connection.channel().exchange_declare(exchange, passive=True)
    except ChannelClosedByBroker as error:
        assert error.reply_code == 404
        return True
    return False


def inequivalent(
    kind: str, made: str, argument: str, received: object, current: object, quote: str = "'"
) -> str:
    """The error text for a declaration that differs from the existing object."""
    return (
        f"PRECONDITION_FAILED - inequivalent arg '{argument}' for {kind} '{made}' in vhost '/': "
        f"received {quote}{received}{quote} but current is {quote}{current}{quote}"
    )


def many(
    channel: BlockingChannel, exchange: str, key: str, count: int = MANY, *, mandatory: bool = False
) -> None:
    """Publish ``count`` persistent messages without waiting for confirms."""
    for number in range(count):
        channel.basic_publish(exchange, key, b"%d" % number, PERSISTENT, mandatory=mandatory)


def drained(inbox: Inbox, count: int, ms: float = 80) -> list[Any]:
    """Wait for ``count`` deliveries, check that no more come within ``ms``, and return them. The
    inbox is empty afterwards."""
    inbox.wait(count)
    pause(inbox.channel, ms)
    seen = list(inbox.got)
    assert len(seen) == count, f"expected {count} deliveries, got {len(seen)}"
    inbox.got.clear()
    return seen


def tag(delivery: Sequence[Any]) -> int:
    return int(delivery[0].delivery_tag)


def sent(exchange: str, key: str, body: bytes, **properties: Any) -> Callable[[Any], None]:
    """A function that publishes this message on the channel that it is given."""
    return lambda channel: channel.basic_publish(
        exchange, key, body, pika.BasicProperties(**properties)
    )


def bare_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """A frame of any type with any payload."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"
