"""Consuming: what applications do with any consumer.

The rule: what a consumer of one topic does, one of several does for each of them.
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
"""A message, a time in milliseconds since the epoch, or a function of a topic's name that says
which."""


class Consuming(Receiving[T]):
    """Whatever can be consumed: a topic, its partitions, or several topics."""

    @property
    @abstractmethod
    def subscription(self) -> str:
        """Its subscription's name."""

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """It is attached to a broker now."""

    @abstractmethod
    def pause(self) -> None:
        """Fetch no more messages; those that are here can still be received."""

    @abstractmethod
    def resume(self) -> None:
        """Fetch messages again."""

    @abstractmethod
    def acknowledge(self, which: "Message[T] | MessageId") -> None:
        """It is done."""

    @abstractmethod
    def acknowledge_cumulative(self, which: "Message[T] | MessageId") -> None:
        """It and all before it are done."""

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
        """Acknowledge as a part of a transaction."""

    @abstractmethod
    def negative_acknowledge(self, which: "Message[T] | MessageId") -> None:
        """It could not be done: deliver it again, later."""

    @abstractmethod
    def redeliver_unacknowledged(self) -> None:
        """Have all that is unacknowledged delivered again."""

    @abstractmethod
    async def reconsume_later(
        self, message: Message[T], delay_s: float, properties: dict[str, str] | None = None
    ) -> None:
        """Put it into the retry topic, and acknowledge it."""

    @abstractmethod
    async def seek(self, where: SeekTo) -> None:
        """Go on from a message or a time."""

    @abstractmethod
    async def unsubscribe(self, *, force: bool = False) -> None:
        """Remove the subscription, and close."""

    @abstractmethod
    async def has_message_available(self) -> bool:
        """Whether there is a message behind the last one that was received."""

    @abstractmethod
    def statistics(self) -> ConsumerStatistics:
        """So far."""
