"""What the scenarios of the Java client's suite say often.

The rule of this folder: ``test_<class>_<method>`` is what ``Class.method`` of the suite is about,
in our own words. ``JAVA.md`` says where each of them is, and why a few are not.
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
    """The next message, acknowledged; None when nothing is ready."""
    body: bytes | None = channel.basic_get(queue, auto_ack=True)[2]
    return body


def pause(channel: BlockingChannel, ms: float) -> None:
    """Let time pass, and serve the connection meanwhile."""
    channel.connection.sleep(ms / 1000)


def temporary(channel: BlockingChannel, **arguments: Any) -> str:
    """An exclusive queue that the server names."""
    return str(channel.queue_declare("", exclusive=True, **arguments).method.queue)


def ready(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def wait_ready(channel: BlockingChannel, queue: str, count: int) -> None:
    """Until ``count`` messages lie ready."""
    wait_until(channel.connection, lambda: ready(channel, queue) == count)


def gone(connect: Connect, queue: str) -> bool:
    """Whether a passive declare of the queue finds nothing; asked over a connection of its own."""
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
    """Whether there is no such exchange; asked on a channel of its own."""
    try:
        channel.connection.channel().exchange_declare(exchange, passive=True)
    except ChannelClosedByBroker as error:
        assert error.reply_code == 404
        return True
    return False


def inequivalent(
    kind: str, made: str, argument: str, received: object, current: object, quote: str = "'"
) -> str:
    """What answers a declaration that differs from what is there."""
    return (
        f"PRECONDITION_FAILED - inequivalent arg '{argument}' for {kind} '{made}' in vhost '/': "
        f"received {quote}{received}{quote} but current is {quote}{current}{quote}"
    )


def many(
    channel: BlockingChannel, exchange: str, key: str, count: int = MANY, *, mandatory: bool = False
) -> None:
    """``count`` persistent messages, without waiting for anything."""
    for number in range(count):
        channel.basic_publish(exchange, key, b"%d" % number, PERSISTENT, mandatory=mandatory)


def drained(inbox: Inbox, count: int, ms: float = 80) -> list[Any]:
    """The next ``count`` deliveries; no more come. What was seen is forgotten."""
    inbox.wait(count)
    pause(inbox.channel, ms)
    seen = list(inbox.got)
    assert len(seen) == count, f"expected {count} deliveries, got {len(seen)}"
    inbox.got.clear()
    return seen


def tag(delivery: Sequence[Any]) -> int:
    return int(delivery[0].delivery_tag)


def sent(exchange: str, key: str, body: bytes, **properties: Any) -> Callable[[Any], None]:
    """A publish to be made on a channel."""
    return lambda channel: channel.basic_publish(
        exchange, key, body, pika.BasicProperties(**properties)
    )


def bare_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """A frame of any type with any payload."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"
