"""Opening bytes: the end of a client's opening methods, and what follows it.

The rule: only frame heads are read, and frame ends are not checked: a session reads the same bytes
and refuses what is wrong. What follows is kept unchanged for whoever continues with the client.
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
"""Class and method of ``connection.open``, with which a payload begins."""


class OpeningBytes:
    """A client's input so far.

    Invariant: until ``is_open``, ``_held`` begins at a frame or at the protocol header; then it is
    what follows ``connection.open``.
    """

    __slots__ = ("_has_header", "_held", "is_open")

    def __init__(self) -> None:
        self._held = b""
        self._has_header = False
        self.is_open = False
        """Whether ``connection.open`` is complete."""

    def __repr__(self) -> str:
        return f"<OpeningBytes {'open' if self.is_open else 'not open'}, {len(self._held)} bytes>"

    @property
    def rest(self) -> bytes:
        """The input after ``connection.open``."""
        return self._held if self.is_open else b""

    def receive(self, data: bytes | bytearray) -> None:
        """Take input."""
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
