"""Producing: what applications do with any producer.

The rule: a message is accepted, and then told once what became of it, or it is refused.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar, Unpack

from arneb_pulsar.client.closing import Closing
from arneb_pulsar.client.ids import MessageId
from arneb_pulsar.client.messages import OutgoingMessage
from arneb_pulsar.client.producer.building import Keywords
from arneb_pulsar.client.statistics import ProducerStatistics

T = TypeVar("T")


class Producing(Closing, Generic[T]):
    """Whatever messages can be sent to: a topic, or all partitions of one."""

    @property
    @abstractmethod
    def topic(self) -> str:
        """The complete name of its topic."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its own, which the broker may have found."""

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """It is attached to a broker now."""

    @abstractmethod
    def chosen(self, keywords: Keywords) -> "Producing[T]":
        """The producer of the one topic that a message with such keywords goes to."""

    @abstractmethod
    async def send(self, value: T | None, **keywords: Unpack[Keywords]) -> MessageId:
        """Send it and wait until it is stored."""

    @abstractmethod
    def send_nowait(self, value: T | None, **keywords: Unpack[Keywords]) -> OutgoingMessage:
        """Send it, without waiting for anything."""

    @abstractmethod
    async def wait_for_room(self) -> None:
        """Until :meth:`send_nowait` has room for a message; others may take it first."""

    @abstractmethod
    async def send_batch(self, values: Sequence[T | OutgoingMessage]) -> list[MessageId]:
        """Send them as exactly one entry, and wait until it is stored."""

    @abstractmethod
    async def flush(self) -> None:
        """Until all that was sent before is stored, or failed."""

    @abstractmethod
    async def close(self) -> None:
        """Store what was accepted, and give the producer up."""

    @abstractmethod
    def statistics(self) -> ProducerStatistics:
        """So far."""
