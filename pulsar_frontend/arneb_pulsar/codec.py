"""Pulsar entries as neutral messages, and neutral messages as Pulsar payloads.

The codec is registered as ``pulsar`` under the entry point group ``arneb.codecs``; see
:mod:`arneb_core.api.entries.codec` for who uses it. The other direction, :func:`encode_messages`,
serves this package alone: it makes the bytes that a Pulsar consumer gets for an entry of another
origin.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Final, overload

from arneb_core.api.entries.codec import Message, MessageColumns, Part
from arneb_core.api.entries.entry import HEADER_BYTES, Origin
from arneb_pulsar.chunks import join_parts, part_of
from arneb_pulsar.columns import are_batches, read_columns
from arneb_pulsar.wire.batch import batch_starts, join_batch, message_at, split_batch
from arneb_pulsar.wire.checksum import join_body, split_body
from arneb_pulsar.wire.compression import UNCOMPRESSED_BYTES_MAX, decompress
from arneb_pulsar.wire.metadata import (
    key_of,
    parse_metadata,
    properties_of,
    refuse_unreadable,
    text_of,
)
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    MessageMetadata,
    SingleMessageMetadata,
)

FOREIGN_PRODUCER: Final = "arneb"
"""The producer name of a translated message that has none."""


LARGE_BATCH: Final = 2_000
"""The most messages of a batch that are all decoded at once. A larger one is only checked, which
takes 30 ms for 60,000 messages: decoding them would take 0.2 s, and readers of single messages want
a few."""


class PulsarCodec:
    """Reads entries of Pulsar origin; see :class:`arneb_core.api.entries.codec.Codec`."""

    origin: Origin = Origin.PULSAR

    def decode(self, entry: bytes) -> Sequence[Message]:
        """Return every message of ``entry``, in batch order.

        Raises :class:`ValueError` for a body that is damaged, encrypted by the producer, or
        one chunk of a larger message: its bytes mean nothing by themselves.
        """
        head, at = split_body(entry, HEADER_BYTES)
        metadata = parse_metadata(head)
        refuse_unreadable(metadata)
        payload = entry[at:]
        if compression := metadata.compression:
            payload = decompress(payload, compression, metadata.uncompressed_size)
        if not metadata.HasField("num_messages_in_batch"):
            return [_single_message(metadata, payload)]
        if metadata.num_messages_in_batch > LARGE_BATCH:
            return LargeBatch(metadata, payload)
        singles = split_batch(payload, metadata.num_messages_in_batch)
        return [
            _batch_message(metadata, single, value, index)
            for index, (single, value) in enumerate(singles)
        ]

    def decode_columns(
        self, entries: Sequence[bytes], *, properties: bool, bytes_max: int
    ) -> MessageColumns:
        """See :class:`arneb_core.api.entries.codec.ColumnCodec`."""
        return read_columns(entries, properties=properties, bytes_max=bytes_max)

    def are_batches(self, entries: Sequence[bytes]) -> list[bool]:
        """See :class:`arneb_core.api.entries.codec.ColumnCodec`."""
        return are_batches(entries)

    def decompressed_bytes(self, entry: bytes) -> int:
        """See :class:`arneb_core.api.entries.codec.CompressedCodec`."""
        try:
            metadata = parse_metadata(split_body(entry, HEADER_BYTES)[0])
        except ValueError:
            return 0
        size = metadata.uncompressed_size if metadata.compression else 0
        return size if size <= UNCOMPRESSED_BYTES_MAX else 0

    def part_of(self, entry: bytes) -> Part | None:
        """See :class:`arneb_core.api.entries.codec.PartCodec`."""
        return part_of(entry)

    def join(self, parts: Sequence[bytes]) -> bytes:
        """See :class:`arneb_core.api.entries.codec.PartCodec`."""
        return join_parts(parts)


def key_outside(entry: bytes) -> tuple[bytes | None, bool] | None:
    """Return the key of an encrypted message that is in no batch, and whether it has a value: both
    are outside the encrypted part. None for any other entry. Raises :class:`ValueError`."""
    metadata = parse_metadata(split_body(entry, HEADER_BYTES)[0])
    is_part = metadata.HasField("num_messages_in_batch") or metadata.num_chunks_from_msg > 1
    if is_part or not (metadata.encryption_keys or metadata.encryption_algo):
        return None
    is_empty = metadata.HasField("uncompressed_size") and not metadata.uncompressed_size
    return key_of(metadata), not is_empty


class LargeBatch(Sequence[Message]):
    """The messages of an intact batch, each decoded when it is asked for."""

    def __init__(self, metadata: MessageMetadata, payload: bytes) -> None:
        self._metadata = metadata
        self._payload = payload
        self._starts = batch_starts(payload, metadata.num_messages_in_batch)

    def __repr__(self) -> str:
        return f"<LargeBatch of {len(self)} messages>"

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        single, value = message_at(self._payload, self._starts[index])
        return _batch_message(self._metadata, single, value, index % len(self))


CODEC: Final = PulsarCodec()


def _single_message(metadata: MessageMetadata, value: bytes) -> Message:
    return Message(
        value=value,
        key=key_of(metadata),
        ordering_key=metadata.ordering_key or None,
        properties=properties_of(metadata.properties),
        publish_time_ms=metadata.publish_time,
        event_time_ms=metadata.event_time,
        producer_name=text_of(metadata.producer_name),
        sequence_id=metadata.sequence_id,
        is_null=metadata.null_value,
        schema_version=metadata.schema_version or None,
    )


def _batch_message(
    metadata: MessageMetadata, single: SingleMessageMetadata, value: bytes, index: int
) -> Message:
    """Return a message of a batch; the batch's metadata fills in what its own does not have."""
    has_sequence = single.HasField("sequence_id")
    return Message(
        value=value,
        key=key_of(single),
        ordering_key=single.ordering_key or None,
        properties=properties_of(single.properties),
        publish_time_ms=metadata.publish_time,
        event_time_ms=single.event_time or metadata.event_time,
        producer_name=text_of(metadata.producer_name),
        sequence_id=single.sequence_id if has_sequence else metadata.sequence_id + index,
        batch_index=index,
        is_null=single.null_value,
        schema_version=metadata.schema_version or None,
    )


def encode_messages(messages: Sequence[Message]) -> bytes:
    """Return headers and payload from which a Pulsar consumer gets exactly ``messages``.

    One message becomes a plain payload, several become a batch with the same indexes.
    """
    if len(messages) == 1 and messages[0].batch_index < 0:
        return encode_message(messages[0])
    first = messages[0]
    metadata = _metadata(first)
    metadata.num_messages_in_batch = len(messages)
    batch = [(_single_metadata(message), message.value) for message in messages]
    return join_body(metadata.SerializeToString(), join_batch(batch))


def encode_message(message: Message) -> bytes:
    """Return headers and payload of a single message."""
    metadata = _metadata(message)
    _set_key(metadata, message)
    _set_properties(metadata, message.properties)
    if message.event_time_ms:
        metadata.event_time = message.event_time_ms
    if message.is_null:
        metadata.null_value = True
    return join_body(metadata.SerializeToString(), message.value)


def _metadata(message: Message) -> MessageMetadata:
    return MessageMetadata(
        producer_name=message.producer_name or FOREIGN_PRODUCER,
        sequence_id=max(message.sequence_id, 0),
        publish_time=message.publish_time_ms,
        schema_version=message.schema_version,
    )


def _single_metadata(message: Message) -> SingleMessageMetadata:
    metadata = SingleMessageMetadata(payload_size=len(message.value))
    _set_key(metadata, message)
    _set_properties(metadata, message.properties)
    if message.event_time_ms:
        metadata.event_time = message.event_time_ms
    if message.sequence_id >= 0:
        metadata.sequence_id = message.sequence_id
    if message.is_null:
        metadata.null_value = True
    return metadata


def _set_key(metadata: MessageMetadata | SingleMessageMetadata, message: Message) -> None:
    """Set the keys. A key is any bytes and the field is text, so bytes that are not UTF-8 are
    encoded in base64."""
    if message.ordering_key is not None:
        metadata.ordering_key = message.ordering_key
    if message.key is None:
        return
    try:
        metadata.partition_key = message.key.decode()
    except UnicodeDecodeError:
        metadata.partition_key = b64encode(message.key).decode()
        metadata.partition_key_b64_encoded = True


def _set_properties(
    metadata: MessageMetadata | SingleMessageMetadata, properties: Mapping[str, str]
) -> None:
    for key, value in properties.items():
        metadata.properties.add(key=key, value=value)
