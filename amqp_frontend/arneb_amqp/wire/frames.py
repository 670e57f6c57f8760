"""Frames: the incremental reader for anything that is not hot, and the checks both readers share."""

from dataclasses import dataclass

from arneb_amqp.errors import ConnectionException
from arneb_amqp.wire.constants import ChannelId


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it stood on the wire; the end octet has been checked."""

    type: int
    channel: ChannelId
    payload: bytes


class BadProtocolHeader(Exception):
    """The peer does not speak AMQP 0-9-1: answer :data:`PROTOCOL_HEADER` and close."""


class ProtocolHeaderReader:
    """Waits for the 8 octets with which a client opens a connection."""

    def receive(self, data: bytes | bytearray) -> bytes | None:
        """Take bytes. None = more are needed; otherwise the header was right and what follows
        it is returned. Raises :class:`BadProtocolHeader`."""
        raise NotImplementedError


class FrameReader:
    """Cuts bytes into frames. Raises from :meth:`receive`; use FastReader in the broker."""

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max

    def receive(self, data: bytes | bytearray) -> list[Frame]:
        """The frames that ``data`` completes."""
        raise NotImplementedError


def encode_frame(kind: int, channel: ChannelId, payload: bytes) -> bytes:
    """A whole frame."""
    raise NotImplementedError


def frame_too_large(kind: int, size: int, frame_bytes_max: int) -> ConnectionException:
    raise NotImplementedError
