"""Message ids: a message's place in its topic, for applications and for trackers.

The rule: within one topic an :data:`EntryId` identifies an entry; a :class:`MessageId` adds what an
application needs to return to a message later, and is made on access.
"""

from dataclasses import dataclass, field
from typing import Final, Self

from google.protobuf.message import DecodeError

from arneb_pulsar.wire.proto.pulsar_pb2 import MessageIdData

EntryId = tuple[int, int]
"""Ledger id and entry id."""

NO_INDEX: Final = -1
"""The batch index of a message outside a batch."""

_LARGEST: Final = (1 << 63) - 1
_UNSIGNED: Final = 1 << 64


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """A message's place in its topic. Ids of one topic sort in the order of its messages."""

    ledger_id: int
    entry_id: int
    partition: int = -1
    """The index of the partition; -1 for a topic without partitions."""
    batch_index: int = NO_INDEX
    """The index in the entry's batch; -1 outside a batch."""
    batch_size: int = field(default=0, compare=False)
    """How many messages the batch has; 0 if unknown or outside a batch. Not compared."""
    topic: str = field(default="", compare=False)
    """The topic's complete name, partition included; empty if unknown. Not compared."""
    first_chunk: "MessageId | None" = field(default=None, compare=False)
    """The first chunk of a chunked message; None for any other. Not compared."""

    def __str__(self) -> str:
        return f"({self.ledger_id},{self.entry_id},{self.partition},{self.batch_index})"

    @property
    def entry(self) -> EntryId:
        """The entry's id within the topic."""
        return self.ledger_id, self.entry_id

    def serialize(self) -> bytes:
        """Return the id as bytes, in the format of all Pulsar clients."""
        data = self.to_wire()
        if self.batch_size:
            data.batch_size = self.batch_size
        if self.first_chunk is not None:
            data.first_chunk_message_id.CopyFrom(self.first_chunk.to_wire())
        return data.SerializeToString()

    @classmethod
    def deserialize(cls, data: bytes, topic: str = "") -> Self:
        """Read an id from bytes. Raises :class:`ValueError`."""
        try:
            return cls.from_wire(MessageIdData.FromString(data), topic)
        except DecodeError as error:
            raise ValueError(f"expected a message id, got {len(data)} other bytes") from error

    @classmethod
    def from_wire(cls, data: MessageIdData, topic: str = "") -> Self:
        """Return the id in a command's field."""
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
        """Return the id as a command's field."""
        return MessageIdData(
            ledgerId=self.ledger_id % _UNSIGNED,
            entryId=self.entry_id % _UNSIGNED,
            partition=self.partition,
            batch_index=self.batch_index,
        )


def _signed(number: int) -> int:
    return number - _UNSIGNED if number > _LARGEST else number


EARLIEST: Final = MessageId(-1, -1)
"""The place before the first message of a topic."""

LATEST: Final = MessageId(_LARGEST, _LARGEST)
"""The place after the last message that a topic has at the moment."""
