"""The messages inside a batch payload.

::

    repeat: [size u32][SingleMessageMetadata][payload_size bytes]

This is the form after decryption and decompression.
"""

import struct
from array import array
from struct import Struct
from typing import Final

from google.protobuf.message import DecodeError

from arneb_pulsar.wire.errors import PayloadError
from arneb_pulsar.wire.proto.pulsar_pb2 import SingleMessageMetadata

SIZE: Final = Struct(">I")


def split_batch(payload: bytes, count: int) -> list[tuple[SingleMessageMetadata, bytes]]:
    """Return the ``count`` messages of a batch payload.

    Raises :class:`PayloadError` when it holds fewer or more.
    """
    messages = []
    at = 0
    for index in range(count):
        metadata, at = _single_metadata(payload, at, index)
        end = at + metadata.payload_size
        if metadata.payload_size < 0 or end > len(payload):
            raise PayloadError(
                f"expected {metadata.payload_size} bytes of message {index} at byte {at}, "
                f"got {len(payload) - at}"
            )
        messages.append((metadata, payload[at:end]))
        at = end
    if at != len(payload):
        raise PayloadError(
            f"expected the end after {count} messages, got {len(payload) - at} bytes"
        )
    return messages


def batch_starts(payload: bytes, count: int) -> "array[int]":
    """Return where each of the ``count`` messages of a batch payload begins. Raises as
    :func:`split_batch`, and takes a fifth of its time: half a microsecond per message."""
    starts, at, end = array("L"), 0, len(payload)
    read, size_at = SingleMessageMetadata.FromString, SIZE.unpack_from
    try:
        for _ in range(count):
            starts.append(at)
            start = at + SIZE.size
            at = start + size_at(payload, at)[0]
            left = read(payload[start:at]).payload_size if at <= end else -1
            if left < 0:
                break
            at += left
    except (DecodeError, struct.error):
        at = -1
    if at != end or len(starts) != count:
        split_batch(payload, count)  # which says what is wrong
        raise PayloadError(f"expected {count} messages in {end} bytes, got {len(starts)}")
    return starts


def message_at(payload: bytes, at: int) -> tuple[SingleMessageMetadata, bytes]:
    """Return the message of a batch payload that begins at ``at``; see :func:`batch_starts`."""
    metadata, start = _single_metadata(payload, at, 0)
    return metadata, payload[start : start + metadata.payload_size]


def _single_metadata(payload: bytes, at: int, index: int) -> tuple[SingleMessageMetadata, int]:
    start = at + SIZE.size
    end = start + SIZE.unpack_from(payload, at)[0] if start <= len(payload) else start
    if end > len(payload):
        raise PayloadError(f"expected the metadata of message {index} at byte {at}, got the end")
    try:
        return SingleMessageMetadata.FromString(payload[start:end]), end
    except DecodeError as error:
        raise PayloadError(f"expected the metadata of message {index} at byte {at}") from error


def join_batch(messages: list[tuple[SingleMessageMetadata, bytes]]) -> bytes:
    """Make a batch payload; sets each metadata's ``payload_size``."""
    parts: list[bytes] = []
    for metadata, payload in messages:
        metadata.payload_size = len(payload)
        data = metadata.SerializeToString()
        parts += (SIZE.pack(len(data)), data, payload)
    return b"".join(parts)
