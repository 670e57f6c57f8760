"""Consuming: the interface that all consumers share.

The rule: a consumer of several topics does for each of them what a consumer of one topic does.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import TypeVar

from arneb_pulsar.client.consumer.message import Message
from arneb_pulsar.client.consumer.receiving import Receiving
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.producer.building import InTransaction
from arneb_pulsar.client.statistics import ConsumerStatistics

T = TypeVar("T")

SeekTo = MessageId | int | Callable[[str], "MessageId | int"]
"""A message id, a time in milliseconds since the epoch, or a function from a topic's name to one of
them."""


class Consuming(Receiving[T]):
    """A consumer of a topic, of its partitions, or of several topics."""

    @property
    @abstractmethod
    def subscription(self) -> str:
        """The subscription's name."""

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """Whether it is attached to its broker, or to all of them."""

    @abstractmethod
    def pause(self) -> None:
        """Stop fetching messages; those already fetched can still be received."""

    @abstractmethod
    def resume(self) -> None:
        """Fetch messages again."""

    @abstractmethod
    def acknowledge(self, which: "Message[T] | MessageId") -> None:
        """Acknowledge a message."""

    @abstractmethod
    def acknowledge_cumulative(self, which: "Message[T] | MessageId") -> None:
        """Acknowledge a message and all before it."""

    @abstractmethod
    async def acknowledge_stored(
        self, which: "Message[T] | MessageId", *, cumulative: bool = False
    ) -> None:
        """Acknowledge, and wait until the broker has stored it."""

    @abstractmethod
    async def acknowledge_in(
        self,
        transaction: InTransaction,
        which: "Message[T] | MessageId",
        *,
        cumulative: bool = False,
    ) -> None:
        """Acknowledge as part of a transaction."""

    @abstractmethod
    def negative_acknowledge(self, which: "Message[T] | MessageId") -> None:
        """Have a message redelivered later."""

    @abstractmethod
    def redeliver_unacknowledged(self) -> None:
        """Have all unacknowledged messages redelivered."""

    @abstractmethod
    async def reconsume_later(
        self, message: Message[T], delay_s: float, properties: dict[str, str] | None = None
    ) -> None:
        """Send a message to the retry topic, and acknowledge it."""

    @abstractmethod
    async def seek(self, where: SeekTo) -> None:
        """Continue from a message or a time."""

    @abstractmethod
    async def unsubscribe(self, *, force: bool = False) -> None:
        """Remove the subscription, and close."""

    @abstractmethod
    async def has_message_available(self) -> bool:
        """Return whether there is a message after the last one received."""

    @abstractmethod
    def statistics(self) -> ConsumerStatistics:
        """Return the counts since the consumer was made."""
