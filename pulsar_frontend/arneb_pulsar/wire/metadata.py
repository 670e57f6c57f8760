"""What a broker must know from ``MessageMetadata``, and the entry that is made with it.

A broker stores headers and payload verbatim; it looks for the number of messages, the key,
and the time of delivery only.
"""

from base64 import b64decode
from collections.abc import Sequence
from struct import Struct
from typing import Final

from crc32c import crc32c
from google.protobuf.message import DecodeError

from arneb_core.entry import ENTRY_FORMAT, HEADER, HEADER_BYTES, Origin, messages_in
from arneb_core.hashing import key_hash
from arneb_pulsar.wire.checksum import VIEW_BYTES_MIN, split_body, verify_body
from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.proto.pulsar_pb2 import MessageMetadata

BATCH_MESSAGES_MAX: Final = 1 << 16
"""Messages in one batch. Clients make at most 1,000 unless told otherwise; the bound keeps the
bit sets of half-acknowledged batches small."""

PULSAR: Final = int(Origin.PULSAR)

ENVELOPE: Final = Struct(">HII")
"""Magic, checksum and metadata size of a body; see :mod:`arneb_pulsar.wire.checksum`."""

MAGIC_NUMBER: Final = 0x0E01


def make_entries(bodies: Sequence[bytes], publish_time_ms: int) -> tuple[list[bytes], int]:
    """The entries that keep the headers and payloads of a run of SENDs, and how many messages
    they hold.

    Hot path: the loop does for the usual small body what :func:`make_entry` does for any, and
    messages without key, batch and delay share one header. Raises as :func:`make_entry`,
    without saying which body was wrong.
    """
    plain = HEADER.pack(ENTRY_FORMAT, PULSAR, 0, 1, publish_time_ms, 0, 0, 0, 0, 0)
    parse, unpack, magic = MessageMetadata.FromString, ENVELOPE.unpack_from, MAGIC_NUMBER
    entries: list[bytes] = []
    special: list[bytes] = []
    append = entries.append
    for body in bodies:
        size = len(body)
        usual = ENVELOPE.size <= size <= VIEW_BYTES_MIN
        if usual:
            number, checksum, metadata_bytes = unpack(body)
            covered = body[6:]
            usual = number == magic and crc32c(covered) == checksum and metadata_bytes + 10 <= size
        if not usual:
            special.append(make_entry(body, publish_time_ms))
            append(special[-1])
            continue
        try:
            metadata = parse(covered[4 : metadata_bytes + 4])
        except DecodeError as error:
            raise _no_metadata(metadata_bytes) from error
        # Fields that are required are there when they are not zero; asking protobuf is slow.
        if not (metadata.sequence_id and metadata.publish_time and metadata.producer_name):
            _check_complete(metadata)
        if (
            metadata.num_messages_in_batch == 1
            and not metadata.partition_key
            and not metadata.ordering_key
            and not metadata.deliver_at_time
        ):
            append(plain + body)
        else:
            special.append(_entry_of(metadata, body, publish_time_ms))
            append(special[-1])
    return entries, len(entries) - len(special) + sum(map(messages_in, special))


def make_entry(body: bytes, publish_time_ms: int) -> bytes:
    """The entry that keeps the headers and payload of one SEND.

    Raises :class:`ChecksumMismatch` and :class:`PayloadError`.
    """
    verify_body(body)
    return _entry_of(parse_metadata(split_body(body)[0]), body, publish_time_ms)


def _entry_of(metadata: MessageMetadata, body: bytes, publish_time_ms: int) -> bytes:
    messages = metadata.num_messages_in_batch
    if not 0 < messages <= BATCH_MESSAGES_MAX:
        raise PayloadError(f"expected 1 to {BATCH_MESSAGES_MAX} messages, got {messages}")
    key = ordering_key_of(metadata)
    header = HEADER.pack(
        ENTRY_FORMAT,
        PULSAR,
        0,
        messages,
        publish_time_ms,
        max(metadata.deliver_at_time, 0),
        0,
        key_hash(key or b""),
        0,
        0,
    )
    return header + body


def parse_metadata(data: bytes) -> MessageMetadata:
    """The metadata in ``data``. Raises :class:`PayloadError`."""
    try:
        metadata = MessageMetadata.FromString(data)
    except DecodeError as error:
        raise _no_metadata(len(data)) from error
    _check_complete(metadata)
    return metadata


def _check_complete(metadata: MessageMetadata) -> None:
    if not metadata.IsInitialized():
        raise PayloadError("expected message metadata with all its required fields")


def _no_metadata(size: int) -> PayloadError:
    return PayloadError(f"expected message metadata, got {size} other bytes")


def ordering_key_of(metadata: MessageMetadata) -> bytes | None:
    """The key that orders an entry: the ordering key, else the partition key."""
    if metadata.ordering_key:
        return metadata.ordering_key
    return partition_key_of(metadata)


def partition_key_of(metadata: MessageMetadata) -> bytes | None:
    """The partition key as the producer's application gave it; None if it gave none."""
    key = metadata.partition_key
    if not key and not metadata.HasField("partition_key"):
        return None
    return decode_key(key, metadata.partition_key_b64_encoded)


def decode_key(key: str | bytes, is_base64: bool) -> bytes:
    """The bytes of a key field; base64 that is none is taken as it stands."""
    # Protobuf hands out a string field that is not UTF-8 as bytes.
    raw = key if isinstance(key, bytes) else key.encode()
    if not is_base64:
        return raw
    try:
        return b64decode(raw, validate=True)
    except ValueError:
        return raw


def batch_size_of(entry: bytes) -> int:
    """How many messages the batch in a Pulsar entry has; -1 when the entry is no batch.

    A batch of one is a batch: its message has the index 0.
    """
    metadata = parse_metadata(split_body(entry, HEADER_BYTES)[0])
    if metadata.HasField("num_messages_in_batch"):
        return metadata.num_messages_in_batch
    return -1
