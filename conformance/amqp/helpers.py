"""Helpers for steps that many scenarios share."""

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
"""How long to wait for something that must happen, in seconds. On an idle machine it happens at
once."""


def publish(channel: BlockingChannel, queue: str, *bodies: bytes) -> None:
    """Publish persistent messages through the default exchange, and wait for their confirms."""
    channel.confirm_delivery()
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT)


def take(channel: BlockingChannel, queue: str, count: int) -> list[tuple[Any, Any, bytes]]:
    """Get ``count`` messages with basic.get without acknowledging them, waiting for them if
    necessary. Raises AssertionError if they do not come within ``WITHIN_S``."""
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
    """Get and acknowledge every ready message; the result is their bodies."""
    found = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def wait_until(connection: pika.BlockingConnection, happened: Callable[[], Any]) -> None:
    """Process the connection's events until ``happened()`` is true; fails after ``WITHIN_S``."""
    end = time.monotonic() + WITHIN_S
    while not happened():
        assert time.monotonic() < end, f"expected this within {WITHIN_S} s"
        connection.process_data_events(0.02)


def settle(connection: pika.BlockingConnection, seconds: float = 0.15) -> None:
    """Process the connection's events for a moment, so that anything unexpected has time to
    arrive."""
    connection.sleep(seconds)


@contextmanager
def refused(code: int, text: str, *, connection: bool = False) -> Iterator[None]:
    """Expect the broker to close the channel (or the connection) with exactly this code and
    text."""
    expected: type[AMQPError] = AMQPConnectionError if connection else ChannelClosedByBroker
    with pytest.raises(expected) as caught:
        yield
    error: Any = caught.value
    assert (error.reply_code, error.reply_text) == (code, text)


class Inbox:
    """A consumer that keeps its deliveries: method, properties and body of each."""

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
        """Wait until there are ``count`` deliveries; the result is all bodies so far."""
        wait_until(self.channel.connection, lambda: len(self.got) >= count)
        return self.bodies

    def _take(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.got.append((method, properties, body))
