"""Frames: their boundaries, and the checks that every frame must pass."""

from typing import Final, NamedTuple

from arneb_amqp.errors import ConnectionException, ReplyCode
from arneb_amqp.wire.constants import (
    FRAME_END,
    FRAME_OVERHEAD_BYTES,
    FRAME_START,
    FRAME_START_BYTES,
    PROTOCOL_HEADER,
    PROTOCOL_HEADER_0_9,
    ChannelId,
)
from arneb_amqp.wire.erlang import render_binary

SNIPPET_BYTES: Final = 16
"""Octets of a payload shown in an error text."""


class Frame(NamedTuple):
    """One frame as it stood on the wire; its end octet has been checked."""

    type: int
    channel: ChannelId
    payload: bytes

    @property
    def bytes_on_wire(self) -> int:
        """Its size including start and end octet."""
        return len(self.payload) + FRAME_OVERHEAD_BYTES


class FramingLost(ConnectionException):
    """The start of the next frame is unknown: after the answer, only closing is left."""


class BadProtocolHeader(Exception):
    """The peer does not speak AMQP 0-9-1. 4.2.2: answer with :data:`PROTOCOL_HEADER`, the version
    spoken here, and close the socket."""


class ProtocolHeaderReader:
    """Collects the eight octets with which a client opens a connection."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held = b""

    def __repr__(self) -> str:
        return f"<ProtocolHeaderReader {self._held!r}>"

    def receive(self, data: bytes | bytearray) -> bytes | None:
        """Take bytes; return None while more are needed, then whatever follows the header.

        Raises :class:`BadProtocolHeader` once eight octets are there and wrong, as RabbitMQ does.
        """
        self._held += data
        if len(self._held) < len(PROTOCOL_HEADER):
            return None
        if not self._held.startswith((PROTOCOL_HEADER, PROTOCOL_HEADER_0_9)):
            raise BadProtocolHeader(f"expected an AMQP 0-9-1 header, got {self._held[:8]!r}")
        return self._held[len(PROTOCOL_HEADER) :]


def cut_frame(data: bytes, at: int, payload_bytes_max: int) -> Frame | int:
    """Return the frame at ``at``, or the bytes needed from there to see more of it.

    Raises :class:`FramingLost` (501) for a wrong end octet, and for a payload that is too large, as
    soon as its size is known.
    """
    available = len(data) - at
    if available < FRAME_START_BYTES:
        return FRAME_OVERHEAD_BYTES
    kind, channel, size = FRAME_START.unpack_from(data, at)
    if size > payload_bytes_max:
        allowed = payload_bytes_max - FRAME_OVERHEAD_BYTES
        raise _lost(kind, b"", f"{{frame_too_large,{size},{allowed}}}")
    end: int = at + FRAME_START_BYTES + size
    if end >= len(data):
        return end + 1 - at
    payload = data[at + FRAME_START_BYTES : end]
    if data[end] != FRAME_END:
        raise _lost(kind, payload, f"{{invalid_frame_end_marker,{data[end]}}}")
    return Frame(kind, ChannelId(channel), payload)


def describe_frame(kind: int, payload: bytes) -> str:
    """``type 8, all octets = <<>>``, as RabbitMQ's error texts show a frame."""
    if len(payload) <= SNIPPET_BYTES:
        return f"type {kind}, all octets = {render_binary(payload)}"
    return f"type {kind}, first 16 octets = {render_binary(payload[:SNIPPET_BYTES])}"


def _lost(kind: int, payload: bytes, what: str) -> FramingLost:
    return FramingLost(ReplyCode.FRAME_ERROR, f"{describe_frame(kind, payload)}: {what}")
