"""Producing: the interface that all producers share.

The rule: a message is either accepted, and its outcome reported once, or refused.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar, Unpack

from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.messages import OutgoingMessage
from arneb_pulsar.client.producer.building import Keywords
from arneb_pulsar.client.statistics import ProducerStatistics
from arneb_pulsar.client.tasks.closing import Closing

T = TypeVar("T")


class Producing(Closing, Generic[T]):
    """A producer for a topic, or for all its partitions."""

    @property
    @abstractmethod
    def topic(self) -> str:
        """The topic's complete name."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The producer's name, which the broker may have generated."""

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """Whether it is attached to its broker, or to all of them."""

    @abstractmethod
    def chosen(self, keywords: Keywords) -> "Producing[T]":
        """Return the producer of the single topic that a message with these keywords goes to."""

    @abstractmethod
    async def send(self, value: T | None, **keywords: Unpack[Keywords]) -> MessageId:
        """Send a message, wait until it is stored, and return its id."""

    @abstractmethod
    def send_nowait(self, value: T | None, **keywords: Unpack[Keywords]) -> OutgoingMessage:
        """Send a message without waiting."""

    @abstractmethod
    async def wait_for_room(self) -> None:
        """Wait until :meth:`send_nowait` has room for a message; other tasks may take it first."""

    @abstractmethod
    async def send_batch(self, values: Sequence[T | OutgoingMessage]) -> list[MessageId]:
        """Send messages as exactly one entry, wait until it is stored, and return their ids."""

    @abstractmethod
    async def flush(self) -> None:
        """Wait until all messages sent before are stored or have failed."""

    @abstractmethod
    async def close(self) -> None:
        """Wait as :meth:`flush` does, and close."""

    @abstractmethod
    def statistics(self) -> ProducerStatistics:
        """Return the counts since the producer was made."""
