"""Short ways to say what the scenarios say often."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPConnectionError, AMQPError, ChannelClosedByBroker

PERSISTENT = pika.BasicProperties(delivery_mode=2)
WITHIN_S = 30.0
"""For what must come; on an idle machine it comes at once."""


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """Persistent messages through the default exchange, confirmed."""
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT)


def take(channel: BlockingChannel, queue: str, count: int) -> list[tuple[Any, Any, bytes]]:
    """``count`` messages by basic.get, unacknowledged; waits for them."""
    found: list[tuple[Any, Any, bytes]] = []
    end = time.monotonic() + WITHIN_S
    while len(found) < count:
        got = channel.basic_get(queue)
        if got[0] is not None:
            found.append(got)
        elif time.monotonic() > end:
            raise AssertionError(f"expected {count} messages in {queue}, got {len(found)}")
    return found


def bodies_in(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Everything that is ready, acknowledged."""
    found = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def wait_until(connection: pika.BlockingConnection, happened: Callable[[], Any]) -> None:
    """Serve the connection until ``happened``; fails after half a minute."""
    end = time.monotonic() + WITHIN_S
    while not happened():
        assert time.monotonic() < end, f"expected this within {WITHIN_S} s"
        connection.process_data_events(0.02)


def settle(connection: pika.BlockingConnection, seconds: float = 0.15) -> None:
    """Serve the connection for a moment, to see that nothing more comes."""
    connection.sleep(seconds)


@contextmanager
def refused(code: int, text: str, *, connection: bool = False) -> Iterator[None]:
    """The broker closes the channel (or the connection) with this code and text."""
    expected: type[AMQPError] = AMQPConnectionError if connection else ChannelClosedByBroker
    with pytest.raises(expected) as caught:
        yield
    error: Any = caught.value
    assert (error.reply_code, error.reply_text) == (code, text)


class Inbox:
    """A consumer that keeps what it gets."""

    def __init__(self, channel: BlockingChannel, queue: str, **arguments: Any) -> None:
        self.channel = channel
        self.got: list[tuple[Any, Any, bytes]] = []
        self.tag = channel.basic_consume(queue, self._take, **arguments)

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.got]

    @property
    def tags(self) -> list[int]:
        return [method.delivery_tag for method, _, _ in self.got]

    def wait(self, count: int) -> list[bytes]:
        """The bodies so far, as soon as there are ``count``."""
        wait_until(self.channel.connection, lambda: len(self.got) >= count)
        return self.bodies

    def _take(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.got.append((method, properties, body))
