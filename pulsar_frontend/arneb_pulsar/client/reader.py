"""A reader: reads a topic from any position, without a durable subscription.

The rule: it is a consumer whose subscription ends with it; read messages are acknowledged, so that
the broker knows its progress.
"""

from collections.abc import Callable
from typing import Final, Generic, Self, TypeVar

from arneb_pulsar.client.consumer.consuming import Consuming, SeekTo
from arneb_pulsar.client.consumer.link import ConsumerLink
from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.errors import ClientClosed, ConfigurationError
from arneb_pulsar.client.statistics import ConsumerStatistics
from arneb_pulsar.client.tasks.closing import Closing

T = TypeVar("T")

SUBSCRIPTION_PREFIX: Final = "reader-"
"""Prefix of the names of readers' subscriptions, as in the official clients."""


class Reader(Closing, Generic[T]):
    """Reads a topic. Made by ``Client.create_reader``."""

    def __init__(self, topic: str, consumer: Consuming[T]) -> None:
        self._topic = topic
        self._consumer = consumer

    def __repr__(self) -> str:
        return f"<Reader of {self._topic} by {self._consumer!r}>"

    @property
    def topic(self) -> str:
        """The complete name of its topic."""
        return self._topic

    @property
    def is_connected(self) -> bool:
        """Whether it is attached to its brokers."""
        return self._consumer.is_connected

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer be used."""
        return self._consumer.is_closed

    @property
    def waiting(self) -> int:
        """Received messages that were not read yet."""
        return self._consumer.waiting

    async def read(self, timeout_s: float | None = None) -> Message[T]:
        """Return the next message, waiting for one if all are read. Raises :class:`TimedOut`."""
        message = await self._consumer.receive(timeout_s)
        self._consumer.acknowledge_cumulative(message)
        return message

    def read_nowait(self) -> Message[T] | None:
        """Return the next message if it has been received."""
        message = self._consumer.receive_nowait()
        if message is not None:
            self._consumer.acknowledge_cumulative(message)
        return message

    def listen(self, arrived: Callable[[], None]) -> None:
        """Have ``arrived`` called in the same turn in which messages come or the reader ends, so
        that :meth:`read_nowait` can take them without waking a task. Raises
        :class:`ConfigurationError` for a topic with partitions."""
        if not isinstance(self._consumer, ConsumerLink):
            raise ConfigurationError(f"expected a topic without partitions, got {self._topic}")
        self._consumer.on_arrival = arrived

    async def has_message_available(self) -> bool:
        """Return whether there is a message that was not read."""
        return await self._consumer.has_message_available()

    async def seek(self, where: SeekTo) -> None:
        """Continue reading at ``where``; see :meth:`Consumer.seek`."""
        await self._consumer.seek(where)

    async def close(self) -> None:
        """Close the reader."""
        await self._consumer.close()

    def statistics(self) -> ConsumerStatistics:
        """Return its statistics so far."""
        return self._consumer.statistics()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        try:
            return await self.read()
        except ClientClosed:
            raise StopAsyncIteration from None
