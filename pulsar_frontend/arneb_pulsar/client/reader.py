"""A reader: a topic from any place on, without a subscription that lasts.

The rule: it is a consumer whose subscription ends with it; what was read is acknowledged, so that
its broker knows how far it is, and nobody else ever hears of it.
"""

from collections.abc import Callable
from typing import Final, Generic, Self, TypeVar

from arneb_pulsar.client.closing import Closing
from arneb_pulsar.client.consumer.consuming import Consuming, SeekTo
from arneb_pulsar.client.consumer.link import ConsumerLink
from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.errors import ClientClosed, ConfigurationError
from arneb_pulsar.client.statistics import ConsumerStatistics

T = TypeVar("T")

SUBSCRIPTION_PREFIX: Final = "reader-"
"""Begins the names of readers' subscriptions, as in the official clients."""


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
        """It is attached to its brokers now."""
        return self._consumer.is_connected

    @property
    def is_closed(self) -> bool:
        """It can be used no more."""
        return self._consumer.is_closed

    @property
    def waiting(self) -> int:
        """Messages that are here and were not read."""
        return self._consumer.waiting

    async def read(self, timeout_s: float | None = None) -> Message[T]:
        """The next message; waits for one to be sent if all are read. Raises :class:`TimedOut`."""
        message = await self._consumer.receive(timeout_s)
        self._consumer.acknowledge_cumulative(message)
        return message

    def read_nowait(self) -> Message[T] | None:
        """The next message if it is here."""
        message = self._consumer.receive_nowait()
        if message is not None:
            self._consumer.acknowledge_cumulative(message)
        return message

    def listen(self, arrived: Callable[[], None]) -> None:
        """Have ``arrived`` called in the very turn in which messages come, or the end does: whoever
        takes them there, by :meth:`read_nowait`, needs no task to be woken. Not of a topic with
        partitions: raises :class:`ConfigurationError`."""
        if not isinstance(self._consumer, ConsumerLink):
            raise ConfigurationError(f"expected a topic without partitions, got {self._topic}")
        self._consumer.on_arrival = arrived

    async def has_message_available(self) -> bool:
        """Whether there is a message that was not read."""
        return await self._consumer.has_message_available()

    async def seek(self, where: SeekTo) -> None:
        """Read on from there; see :meth:`Consumer.seek`."""
        await self._consumer.seek(where)

    async def close(self) -> None:
        """Give it up."""
        await self._consumer.close()

    def statistics(self) -> ConsumerStatistics:
        """So far."""
        return self._consumer.statistics()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message[T]:
        try:
            return await self.read()
        except ClientClosed:
            raise StopAsyncIteration from None
