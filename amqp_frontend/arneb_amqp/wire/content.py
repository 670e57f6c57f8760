"""A body as entries store it: the content frames of a message, from its publisher's channel.

``0xCE`` (the end of the preceding method frame), the content header frame, and one content body
frame unless the message is empty. The rule: only this module knows the offsets.
"""

from struct import Struct, error
from typing import Final

from arneb_amqp.wire.constants import (
    CLASS_BASIC,
    CONTENT_START,
    CONTENT_START_BYTES,
    FRAME_BODY,
    FRAME_END,
    FRAME_END_OCTET,
    FRAME_HEADER,
    FRAME_OVERHEAD_BYTES,
    FRAME_START,
    FRAME_START_BYTES,
    ChannelId,
)

HEADER_PAYLOAD_AT: Final = 1 + FRAME_START_BYTES
"""The offset of the content header's payload, counted from the leading 0xCE."""

PROPERTIES_AT: Final = HEADER_PAYLOAD_AT + CONTENT_START_BYTES

_FRAME_SIZE: Final = Struct(">I")
_FRAME_SIZE_AT: Final = 1 + FRAME_START_BYTES - _FRAME_SIZE.size


def properties_of(body: bytes, start: int = 0) -> bytes:
    """Return the property list of the content at ``start``."""
    return body[start + PROPERTIES_AT : header_end(body, start)]


def payload_of(body: bytes, start: int = 0) -> bytes:
    """Return the message's bytes. The content must end where ``body`` ends."""
    return body[header_end(body, start) + 1 + FRAME_START_BYTES : -1]


def payload_size(body: bytes, start: int = 0) -> int:
    """Return the size of :func:`payload_of` from the content header, without copying."""
    size: int = CONTENT_START.unpack_from(body, start + HEADER_PAYLOAD_AT)[2]
    return size


def split_content(entry: bytes, start: int) -> tuple[bytes, bytes] | None:
    """Return the property list and the message's bytes of the content that fills ``entry[start:]``;
    None if it is not a body (:func:`is_body`)."""
    if not is_body(entry, start):
        return None
    end = header_end(entry, start)
    return entry[start + PROPERTIES_AT : end], entry[end + 1 + FRAME_START_BYTES : -1]


def compose(channel: ChannelId, properties: bytes, payload: bytes | bytearray) -> bytes:
    """Build a body from its parts."""
    header = (
        FRAME_START.pack(FRAME_HEADER, channel, CONTENT_START_BYTES + len(properties))
        + CONTENT_START.pack(CLASS_BASIC, 0, len(payload))
        + properties
    )
    if not payload:
        return b"".join((FRAME_END_OCTET, header, FRAME_END_OCTET))
    start = FRAME_START.pack(FRAME_BODY, channel, len(payload))
    return b"".join((FRAME_END_OCTET, header, FRAME_END_OCTET, start, payload, FRAME_END_OCTET))


def with_properties(body: bytes, properties: bytes, start: int = 0, head: bytes = b"") -> bytes:
    """Return ``head`` and the content at ``start`` with another property list and an unchanged
    payload."""
    size = _FRAME_SIZE.pack(CONTENT_START_BYTES + len(properties))
    return b"".join(
        (
            head,
            body[start : start + _FRAME_SIZE_AT],
            size,
            body[start + HEADER_PAYLOAD_AT : start + PROPERTIES_AT],
            properties,
            body[header_end(body, start) :],
        )
    )


def is_body(body: bytes, start: int = 0) -> bool:
    """Whether ``body[start:]`` is a body as described above; its property list is not checked."""
    try:
        kind, channel, size = FRAME_START.unpack_from(body, start + 1)
        class_id, _, payload_bytes = CONTENT_START.unpack_from(body, start + HEADER_PAYLOAD_AT)
        end = start + HEADER_PAYLOAD_AT + size
        ends = body[start], body[end]
    except (IndexError, error):
        return False
    if (kind, class_id) != (FRAME_HEADER, CLASS_BASIC) or ends != (FRAME_END, FRAME_END):
        return False
    if not payload_bytes:
        return bool(end + 1 == len(body))
    frame = FRAME_START.pack(FRAME_BODY, channel, payload_bytes & 0xFFFFFFFF)
    last = end + FRAME_OVERHEAD_BYTES + payload_bytes
    if last + 1 != len(body):
        return False
    return body.startswith(frame, end + 1) and body[last] == FRAME_END


def header_end(body: bytes, start: int = 0) -> int:
    """Return the offset of the content header frame's end octet."""
    (size,) = _FRAME_SIZE.unpack_from(body, start + _FRAME_SIZE_AT)
    return start + HEADER_PAYLOAD_AT + int(size)
