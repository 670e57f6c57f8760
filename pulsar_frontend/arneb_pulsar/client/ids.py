"""Message ids: where a message stands, as applications and trackers name it.

The rule: within one topic an entry is named by its :data:`EntryId` alone; a :class:`MessageId` adds
all that an application needs to come back to a message later, and is made when it is asked for.
"""

from dataclasses import dataclass, field
from typing import Final, Self

from google.protobuf.message import DecodeError

from arneb_pulsar.wire.proto.pulsar_pb2 import MessageIdData

EntryId = tuple[int, int]
"""Ledger id and entry id."""

NO_INDEX: Final = -1
"""The batch index of a message that is no part of a batch."""

_LARGEST: Final = (1 << 63) - 1
_UNSIGNED: Final = 1 << 64


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """Where a message stands. Ids of one topic are ordered as its messages are."""

    ledger_id: int
    entry_id: int
    partition: int = -1
    """The index of its partition; -1 for a topic that is not partitioned."""
    batch_index: int = NO_INDEX
    """Its place in its entry's batch; -1 if it is no part of a batch."""
    batch_size: int = field(default=0, compare=False)
    """How many messages that batch has; 0 when unknown or no batch. Not compared."""
    topic: str = field(default="", compare=False)
    """The complete name of its topic, partition included; empty if unknown. Not compared."""
    first_chunk: "MessageId | None" = field(default=None, compare=False)
    """Of a message in chunks: where the first stands. Not compared."""

    def __str__(self) -> str:
        return f"({self.ledger_id},{self.entry_id},{self.partition},{self.batch_index})"

    @property
    def entry(self) -> EntryId:
        """Its entry's name within its topic."""
        return self.ledger_id, self.entry_id

    def serialize(self) -> bytes:
        """Its bytes, as every Pulsar client reads and writes them."""
        data = self.to_wire()
        if self.batch_size:
            data.batch_size = self.batch_size
        if self.first_chunk is not None:
            data.first_chunk_message_id.CopyFrom(self.first_chunk.to_wire())
        return data.SerializeToString()

    @classmethod
    def deserialize(cls, data: bytes, topic: str = "") -> Self:
        """The id in ``data``. Raises :class:`ValueError`."""
        try:
            return cls.from_wire(MessageIdData.FromString(data), topic)
        except DecodeError as error:
            raise ValueError(f"expected a message id, got {len(data)} other bytes") from error

    @classmethod
    def from_wire(cls, data: MessageIdData, topic: str = "") -> Self:
        """The id in a field of a command."""
        first = None
        if data.HasField("first_chunk_message_id"):
            first = cls.from_wire(data.first_chunk_message_id, topic)
        return cls(
            _signed(data.ledgerId),
            _signed(data.entryId),
            data.partition,
            data.batch_index,
            data.batch_size,
            topic,
            first,
        )

    def to_wire(self) -> MessageIdData:
        """The field of a command that names it."""
        return MessageIdData(
            ledgerId=self.ledger_id % _UNSIGNED,
            entryId=self.entry_id % _UNSIGNED,
            partition=self.partition,
            batch_index=self.batch_index,
        )


def _signed(number: int) -> int:
    return number - _UNSIGNED if number > _LARGEST else number


EARLIEST: Final = MessageId(-1, -1)
"""Before the first message of any topic."""

LATEST: Final = MessageId(_LARGEST, _LARGEST)
"""Behind the last message that a topic has at the moment."""
