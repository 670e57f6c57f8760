"""Frame heads: finds the frame boundaries in one direction of an AMQP connection.

The rule: only a frame's seven-byte head and last byte are read; for methods of the connection
itself also their ids. Nothing more is kept, so following a stream costs no memory and delays
nothing. Once a frame's end is not where it must be, no boundary is known any more.
"""

from enum import Enum
from struct import Struct
from typing import Final

HEAD: Final = Struct(">BHI")
"""Type, channel, payload size."""
HEAD_BYTES: Final = HEAD.size
OVERHEAD_BYTES: Final = HEAD_BYTES + 1
METHOD: Final = 1
END: Final = 0xCE
IDS_BYTES: Final = 4
"""Bytes of class and method, with which a method's payload begins."""

CLOSE: Final = b"\x00\x0a\x00\x32"
CLOSE_OK: Final = b"\x00\x0a\x00\x33"


class CloseMethod(Enum):
    """The methods by which one side ends a connection."""

    NONE = "none"
    CLOSE = "connection.close"
    CLOSE_OK = "connection.close-ok"


_CLOSE_METHODS: Final = {CLOSE: CloseMethod.CLOSE, CLOSE_OK: CloseMethod.CLOSE_OK}


class FrameHeads:
    """One direction of one connection, beginning at a frame boundary.

    Invariant: ``_left`` bytes of a frame are still to come, or ``_head`` is the incomplete head of
    the next one; never both.
    """

    __slots__ = ("_coming", "_head", "_left", "close_method", "frames", "is_lost")

    def __init__(self) -> None:
        self._left = 0
        self._head = b""
        self.frames = 0
        """Frames completed."""
        self._coming = CloseMethod.NONE
        """The method in the incomplete frame."""
        self.close_method = CloseMethod.NONE
        """The last one received completely."""
        self.is_lost = False
        """Whether frame boundaries are lost."""

    def __repr__(self) -> str:
        where = "lost" if self.is_lost else "at a border" if self.at_border else "in a frame"
        return f"<FrameHeads {where}, {self.frames} frames>"

    @property
    def at_border(self) -> bool:
        """Whether the stream is at a frame boundary, where other frames may be inserted."""
        return not (self._left or self._head or self.is_lost)

    def receive(self, data: bytes) -> None:
        """Follow received bytes."""
        if self.is_lost:
            return
        at, size = 0, len(data)
        if self._left:
            if self._left > size:
                self._left -= size
                return
            at, self._left = self._left, 0
            if not self._ended(data[at - 1]):
                return
        elif self._head:
            data = self._head + data
            self._head, size = b"", len(data)
        unpack = HEAD.unpack_from
        while at + HEAD_BYTES <= size:
            kind, channel, payload = unpack(data, at)
            if not channel and kind == METHOD:
                if at + HEAD_BYTES + IDS_BYTES > size:
                    break
                if payload < IDS_BYTES:
                    self.is_lost = True
                    return
                ids = data[at + HEAD_BYTES : at + HEAD_BYTES + IDS_BYTES]
                self._coming = _CLOSE_METHODS.get(ids, CloseMethod.NONE)
            end = at + payload + OVERHEAD_BYTES
            if end > size:
                self._left = end - size
                return
            if not self._ended(data[end - 1]):
                return
            at = end
        self._head = data[at:]

    def _ended(self, octet: int) -> bool:
        self.frames += 1
        self.is_lost = octet != END
        if self._coming is not CloseMethod.NONE:
            self.close_method, self._coming = self._coming, CloseMethod.NONE
        return not self.is_lost
