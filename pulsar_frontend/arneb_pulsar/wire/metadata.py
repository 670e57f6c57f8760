"""Message metadata: parsing it, and the keys and properties that it holds."""

from base64 import b64decode
from collections.abc import Sequence
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.proto.pulsar_pb2 import (
    KeyValue,
    MessageMetadata,
    SingleMessageMetadata,
)

BATCH_MESSAGES_MAX: Final = 1 << 16
"""Messages in one batch. Clients put in at most 1,000 unless configured otherwise; the bound keeps
the bit sets of half-acknowledged batches small."""

ENVELOPE: Final = Struct(">HII")
"""Magic, checksum and metadata size of a body; see :mod:`arneb_pulsar.wire.checksum`."""

MAGIC_NUMBER: Final = 0x0E01


def parse_metadata(data: bytes) -> MessageMetadata:
    """Return the metadata in ``data``. Raises :class:`PayloadError`."""
    try:
        metadata = MessageMetadata.FromString(data)
    except DecodeError as error:
        raise _no_metadata(len(data)) from error
    _check_complete(metadata)
    return metadata


def _check_complete(metadata: MessageMetadata) -> None:
    # A required field is present if it is not zero; asking protobuf is slow.
    if metadata.sequence_id and metadata.publish_time and metadata.producer_name:
        return
    if not metadata.IsInitialized():
        raise PayloadError("expected message metadata with all its required fields")


def _no_metadata(size: int) -> PayloadError:
    return PayloadError(f"expected message metadata, got {size} other bytes")


def ordering_key_of(metadata: MessageMetadata) -> bytes | None:
    """Return the key that orders an entry: the ordering key, else the partition key."""
    if metadata.ordering_key:
        return metadata.ordering_key
    return partition_key_of(metadata)


def partition_key_of(metadata: MessageMetadata) -> bytes | None:
    """Return the partition key as the producer's application gave it; None if it gave none."""
    key = metadata.partition_key
    if not key and not metadata.HasField("partition_key"):
        return None
    return decode_key(key, metadata.partition_key_b64_encoded)


def key_of(metadata: MessageMetadata | SingleMessageMetadata) -> bytes | None:
    """Return the partition key of a message; None if it has none."""
    key = metadata.partition_key
    if not key and (metadata.null_partition_key or not metadata.HasField("partition_key")):
        return None
    return decode_key(key, metadata.partition_key_b64_encoded)


def properties_of(pairs: Sequence[KeyValue]) -> dict[str, str]:
    """Return the properties of a message."""
    # A slice is a list; going through protobuf's own container costs twice as much.
    return {text_of(pair.key): text_of(pair.value) for pair in pairs[:]} if pairs else {}


def text_of(value: str | bytes) -> str:
    """Return a string field as text; protobuf gives it as bytes if it is not UTF-8."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def refuse_unreadable(metadata: MessageMetadata) -> None:
    """Raise :class:`PayloadError` if a broker cannot read the payload: encrypted, or a chunk."""
    if metadata.encryption_keys or metadata.encryption_algo:
        raise PayloadError("expected a readable message, got one encrypted by its producer")
    if metadata.num_chunks_from_msg > 1:
        raise PayloadError(
            f"expected a whole message, got chunk {metadata.chunk_id} "
            f"of {metadata.num_chunks_from_msg}"
        )


def decode_key(key: str | bytes, is_base64: bool) -> bytes:
    """Return the bytes of a key field; invalid base64 is taken literally."""
    # Protobuf gives a string field that is not UTF-8 as bytes.
    raw = key if isinstance(key, bytes) else key.encode()
    if not is_base64:
        return raw
    try:
        return b64decode(raw, validate=True)
    except ValueError:
        return raw
