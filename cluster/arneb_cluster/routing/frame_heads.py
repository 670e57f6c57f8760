"""Frame heads: where the frames of one direction of an AMQP connection begin and end.

The rule: seven bytes of a frame are looked at, and its last one; of methods of the connection
itself also which they are. Nothing is kept but what is less than that, so following costs no memory
and holds nothing up. Once an end is not where it must be, no border is known any more.
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
"""Class and method, as a method's payload begins with them."""

CLOSE: Final = b"\x00\x0a\x00\x32"
CLOSE_OK: Final = b"\x00\x0a\x00\x33"


class Said(Enum):
    """How far one side has gone in ending the connection."""

    NOTHING = "nothing"
    CLOSE = "connection.close"
    CLOSE_OK = "connection.close-ok"


_SAID: Final = {CLOSE: Said.CLOSE, CLOSE_OK: Said.CLOSE_OK}


class FrameHeads:
    """One direction of one connection, which begins at a border.

    Invariant: ``_left`` bytes of a frame are still to come, or ``_head`` is what has come of the
    head of the next one; never both.
    """

    __slots__ = ("_head", "_left", "_saying", "frames", "is_lost", "said")

    def __init__(self) -> None:
        self._left = 0
        self._head = b""
        self.frames = 0
        """That have ended."""
        self._saying = Said.NOTHING
        """What the frame says that is under way."""
        self.said = Said.NOTHING
        """The last that was said of the end of the connection, to its last byte."""
        self.is_lost = False
        """Where the next frame begins is not known."""

    def __repr__(self) -> str:
        where = "lost" if self.is_lost else "at a border" if self.at_border else "in a frame"
        return f"<FrameHeads {where}, {self.frames} frames>"

    @property
    def at_border(self) -> bool:
        """All that has begun has ended: other frames may be put here."""
        return not (self._left or self._head or self.is_lost)

    def receive(self, data: bytes) -> None:
        """Follow what has come."""
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
                self._saying = _SAID.get(ids, Said.NOTHING)
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
        if self._saying is not Said.NOTHING:
            self.said, self._saying = self._saying, Said.NOTHING
        return not self.is_lost
