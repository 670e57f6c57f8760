"""Queues, exchanges and bindings of a row, created before the clock runs and deleted after it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pika
from conformance.brokers.process import Address
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

ACK_TIMEOUT_S: Final = 300.0


class Topology:
    """What one row needs besides the queue that the load generator makes itself."""

    def __init__(self, connection: pika.BlockingConnection) -> None:
        self._connection = connection
        self._channel = connection.channel()
        self._queues: list[str] = []
        self._exchanges: list[str] = []

    @property
    def channel(self) -> BlockingChannel:
        return self._channel

    def queue(self, name: str, arguments: Mapping[str, Any] | None = None) -> str:
        """Declare a fresh durable queue; the result is its name."""
        self._channel.queue_delete(name)
        self._channel.queue_declare(name, durable=True, arguments=dict(arguments or {}))
        self._queues.append(name)
        return name

    def exchange(self, name: str, kind: str) -> str:
        """Declare a fresh exchange; it is not durable, so that binding to it costs no flush to
        disk."""
        self._channel.exchange_delete(name)
        self._channel.exchange_declare(name, kind)
        self._exchanges.append(name)
        return name

    def count(self, queue: str) -> int:
        """The number of ready messages."""
        return int(self._channel.queue_declare(queue, passive=True).method.message_count)

    def wait(self, seconds: float) -> None:
        """Wait while processing the connection's events."""
        self._connection.sleep(seconds)

    def clear(self) -> None:
        """Delete everything."""
        for exchange in self._exchanges:
            self._channel.exchange_delete(exchange)
        for queue in self._queues:
            try:
                self._channel.queue_delete(queue)
            except ChannelClosedByBroker:
                self._channel = self._connection.channel()


@contextmanager
def topology(address: Address) -> Iterator[Topology]:
    """An empty topology, cleared at the end."""
    parameters = pika.ConnectionParameters(
        address.host, address.port, heartbeat=0, blocked_connection_timeout=ACK_TIMEOUT_S
    )
    connection = pika.BlockingConnection(parameters)
    try:
        made = Topology(connection)
        yield made
        made.clear()
    finally:
        connection.close()
