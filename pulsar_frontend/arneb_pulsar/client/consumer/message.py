"""A message, as an application gets it.

The rule: what all messages of an entry share is kept once, in an :class:`Entry`; what most
applications never read is computed on access.
"""

from collections.abc import Sequence
from typing import Any, Generic, Protocol, TypeVar

from arneb_pulsar.client.codec.schemas.schema import Schema
from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.ids import EntryId, MessageId
from arneb_pulsar.wire.metadata import key_of, properties_of, text_of
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    BrokerEntryMetadata,
    MessageMetadata,
    SingleMessageMetadata,
)

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Decoder(Protocol[T_co]):
    """Decodes bytes to values."""

    def decode(self, data: bytes, version: bytes) -> T_co:
        """Return the value; ``version`` is the writer's schema version, empty if it had no schema.
        Raises :class:`SchemaError`."""


class Entry(Generic[T]):
    """One entry of a topic, as delivered to a consumer."""

    __slots__ = (
        "batch_size",
        "broker",
        "chunks",
        "decoder",
        "id",
        "is_encrypted",
        "metadata",
        "partition",
        "redelivery_count",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        entry: EntryId,
        metadata: MessageMetadata,
        decoder: Decoder[T],
        redelivery_count: int,
        batch_size: int,
        broker: BrokerEntryMetadata | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.id = entry
        self.metadata = metadata
        self.decoder = decoder
        self.redelivery_count = redelivery_count
        self.batch_size = batch_size
        """0 = not a batch."""
        self.broker = broker
        self.is_encrypted = False
        """The payload could not be decrypted, and is delivered as it is."""
        self.chunks: tuple[EntryId, ...] = ()
        """All entries of a chunked message; empty for any other."""

    def __repr__(self) -> str:
        return f"<Entry {self.id} of {self.topic}, {self.batch_size or 1} messages>"


class Message(Generic[T]):
    """One message. ``data`` is its payload in bytes, and ``value`` what the schema decodes."""

    __slots__ = ("batch_index", "data", "entry", "single")

    def __init__(
        self, entry: Entry[T], data: bytes, batch_index: int, single: SingleMessageMetadata | None
    ) -> None:
        self.entry = entry
        self.data = data
        self.batch_index = batch_index
        self.single = single

    def __repr__(self) -> str:
        return f"<Message {self.id} of {self.topic}, {len(self.data)} bytes>"

    @property
    def id(self) -> MessageId:
        """The message's id."""
        entry, first = self.entry, None
        if entry.chunks:
            first = MessageId(*entry.chunks[0], entry.partition, topic=entry.topic)
        ledger_id, entry_id = entry.id
        return MessageId(
            ledger_id,
            entry_id,
            entry.partition,
            self.batch_index,
            entry.batch_size,
            entry.topic,
            first,
        )

    @property
    def topic(self) -> str:
        """The topic's complete name, partition included."""
        return self.entry.topic

    @property
    def value(self) -> T | None:
        """The value that the schema decodes from ``data``; None for a message without a value.
        Raises :class:`SchemaError`."""
        if self.is_null:
            return None
        return self.entry.decoder.decode(self.data, self.entry.metadata.schema_version)

    @property
    def is_null(self) -> bool:
        """Whether it has no value; compaction then removes its key."""
        return (self.single or self.entry.metadata).null_value

    @property
    def key(self) -> str | None:
        """The partition key as text; None if it has none."""
        found = self.key_bytes
        return None if found is None else found.decode("utf-8", "replace")

    @property
    def key_bytes(self) -> bytes | None:
        """The partition key; None if it has none."""
        return key_of(self.single or self.entry.metadata)

    @property
    def key_as_sent(self) -> str | bytes | None:
        """The partition key in the form to send another message with the same key."""
        metadata = self.single or self.entry.metadata
        return self.key_bytes if metadata.partition_key_b64_encoded else self.key

    @property
    def ordering_key(self) -> bytes | None:
        """The key that Key_Shared subscriptions use in place of the partition key, if any."""
        return (self.single or self.entry.metadata).ordering_key or None

    @property
    def properties(self) -> dict[str, str]:
        """The producer's properties."""
        return properties_of((self.single or self.entry.metadata).properties)

    @property
    def event_time_ms(self) -> int:
        """The event time that the producer set, in ms since the epoch; 0 = not set."""
        return (self.single or self.entry.metadata).event_time

    @property
    def publish_time_ms(self) -> int:
        """When it was sent, by the producer's clock, in ms since the epoch."""
        return self.entry.metadata.publish_time

    @property
    def producer_name(self) -> str:
        """The producer's name."""
        return text_of(self.entry.metadata.producer_name)

    @property
    def sequence_id(self) -> int:
        """The message's number in its producer's sequence."""
        if self.single is None:
            return self.entry.metadata.sequence_id
        if self.single.HasField("sequence_id"):
            return self.single.sequence_id
        return self.entry.metadata.sequence_id + self.batch_index

    @property
    def redelivery_count(self) -> int:
        """How often it was delivered before, as far as the broker knows."""
        return self.entry.redelivery_count

    @property
    def schema_version(self) -> bytes:
        """The version of the writer's schema; empty if it had none."""
        return self.entry.metadata.schema_version

    @property
    def is_encrypted(self) -> bool:
        """Whether it could not be decrypted: ``data`` is then the encrypted payload of the whole
        entry."""
        return self.entry.is_encrypted

    @property
    def encryption(self) -> MessageMetadata:
        """The entry's metadata, for applications that decrypt by themselves."""
        return self.entry.metadata

    @property
    def index(self) -> int | None:
        """The message's number in the topic; None if the broker does not count messages."""
        broker = self.entry.broker
        if broker is None or not broker.HasField("index"):
            return None
        return broker.index - max(self.entry.batch_size, 1) + 1 + max(self.batch_index, 0)

    @property
    def broker_time_ms(self) -> int | None:
        """When the broker stored it, in ms since the epoch; None if the broker does not say."""
        broker = self.entry.broker
        if broker is None or not broker.HasField("broker_timestamp"):
            return None
        return broker.broker_timestamp


class PlainDecoder(Generic[T]):
    """The decoder for a schema that ignores the writer's version."""

    def __init__(self, schema: Schema[T]) -> None:
        self._schema = schema

    def __repr__(self) -> str:
        return f"<PlainDecoder of {self._schema.info.name}>"

    def decode(self, data: bytes, version: bytes) -> T:
        """The value. Raises :class:`SchemaError`."""
        return self._schema.decode(data)


def entry_of(
    which: "Message[Any] | MessageId",
) -> tuple[EntryId, int, int, Sequence[EntryId]]:
    """Return the entry, batch index and batch size, and the entries of a chunked message: all of
    them for a message, the first and the last for an id. Raises :class:`ConfigurationError` for
    anything else."""
    if isinstance(which, Message):
        entry = which.entry
        return entry.id, which.batch_index, entry.batch_size, entry.chunks
    if not isinstance(which, MessageId):
        raise ConfigurationError(f"expected a message or its id, got {type(which).__name__}")
    size = which.batch_size if which.batch_index >= 0 else 0
    chunks: Sequence[EntryId] = ()
    if which.first_chunk is not None:
        first, last = which.first_chunk.entry, which.entry
        if first[0] == last[0]:
            chunks = [(first[0], each) for each in (first[1], last[1])]
    return which.entry, which.batch_index if size else -1, size, chunks
