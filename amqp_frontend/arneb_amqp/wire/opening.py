"""Opening bytes: where what a client says to open its connection ends, and what follows it.

The rule: only frame heads are looked at, and where a frame ends is not judged; a session reads the
same bytes and refuses what is wrong in them. What follows is kept as it came, for whoever goes on
with the client.
"""

from typing import Final

from arneb_amqp.wire.constants import (
    CHANNEL_ZERO,
    FRAME_METHOD,
    FRAME_OVERHEAD_BYTES,
    FRAME_START,
    FRAME_START_BYTES,
    PROTOCOL_HEADER,
)

OPEN_METHOD: Final = b"\x00\x0a\x00\x28"
"""The class and the method of ``connection.open``, as a payload begins with them."""


class OpeningBytes:
    """What has come of a client so far.

    Invariant: ``_held`` begins where a frame does, or the protocol header, until ``is_open``; then
    it is what follows ``connection.open``.
    """

    __slots__ = ("_has_header", "_held", "is_open")

    def __init__(self) -> None:
        self._held = b""
        self._has_header = False
        self.is_open = False
        """All of ``connection.open`` has come."""

    def __repr__(self) -> str:
        return f"<OpeningBytes {'open' if self.is_open else 'not open'}, {len(self._held)} bytes>"

    @property
    def rest(self) -> bytes:
        """What has come behind ``connection.open``."""
        return self._held if self.is_open else b""

    def receive(self, data: bytes | bytearray) -> None:
        """Take what has come."""
        self._held += data
        if not self._has_header:
            if len(self._held) < len(PROTOCOL_HEADER):
                return
            self._held = self._held[len(PROTOCOL_HEADER) :]
            self._has_header = True
        at, held = 0, self._held
        while not self.is_open and len(held) - at >= FRAME_START_BYTES:
            kind, channel, size = FRAME_START.unpack_from(held, at)
            end = at + size + FRAME_OVERHEAD_BYTES
            if end > len(held):
                break
            if kind == FRAME_METHOD and channel == CHANNEL_ZERO:
                self.is_open = held.startswith(OPEN_METHOD, at + FRAME_START_BYTES)
            at = end
        self._held = held[at:]
