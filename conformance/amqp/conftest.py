"""Connections, channels and names for the AMQP scenarios."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from conformance.conftest import Target
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

_numbers = itertools.count(1)

Connect = Callable[[], pika.BlockingConnection]
Named = Callable[[str], str]


@pytest.fixture
def connect(broker: Target) -> Iterator[Connect]:
    """Open connections; those still open at the end are closed."""
    opened: list[pika.BlockingConnection] = []

    def open_connection(**parameters: Any) -> pika.BlockingConnection:
        address = broker.address
        credentials = parameters.pop("credentials", pika.PlainCredentials("guest", "guest"))
        connection = pika.BlockingConnection(
            pika.ConnectionParameters(
                address.host, address.port, credentials=credentials, **parameters
            )
        )
        opened.append(connection)
        return connection

    yield open_connection
    for connection in opened:
        if connection.is_open:
            # On closing, pika requeues deliveries that it has not passed on yet. A stream refuses a
            # requeue.
            with contextlib.suppress(AMQPError):
                connection.close()


@pytest.fixture
def channel(connect: Connect) -> BlockingChannel:
    """A channel on a connection of its own."""
    return connect().channel()


@pytest.fixture
def name(connect: Connect) -> Iterator[Named]:
    """Make names that no other scenario uses. Queues and exchanges with them are deleted at the
    end."""
    made: list[str] = []

    def make(kind: str) -> str:
        made.append(f"{kind}-{os.getpid()}-{next(_numbers)}")
        return made[-1]

    yield make
    channel = connect().channel()
    for made_name in made:
        # Deleting what does not exist is not an error, neither for exchanges nor for queues.
        channel.exchange_delete(made_name)
        try:
            channel.queue_delete(made_name)
        except AMQPError:
            channel = connect().channel()


@pytest.fixture
def queue(channel: BlockingChannel, name: Named) -> str:
    """An empty durable queue."""
    made = name("queue")
    channel.queue_declare(made, durable=True)
    return made
