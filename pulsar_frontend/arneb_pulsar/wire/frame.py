"""Frames: how commands and payloads are laid out in the stream.

::

    simple : [total u32][command size u32][BaseCommand]
    payload: [total u32][command size u32][BaseCommand][headers and payload]

``total`` counts the bytes that follow it. The reader keeps no more than one incomplete frame, and
knows nothing of what a frame means.
"""

from struct import Struct
from typing import Final

from arneb_pulsar.wire.errors import FrameError

MESSAGE_BYTES_MAX: Final = 5 * 1024 * 1024
"""Bytes of the payload of one SEND, without its headers; announced in CONNECTED, and kept by
clients themselves. Pulsar's default. Only the size of the frame is enforced."""

AROUND_BYTES_MAX: Final = 10 * 1024
"""Bytes of a frame besides its payload, the ``total`` field included; Pulsar leaves the same room
for command and headers."""

FRAME_BYTES_MAX: Final = MESSAGE_BYTES_MAX + AROUND_BYTES_MAX
"""Bytes of a whole frame."""

SIZES: Final = Struct(">II")
SIZES_BYTES: Final = SIZES.size
SIZE_BYTES: Final = 4

EQUAL_FRAMES_MIN: Final = 8
"""From so many frames of equal sizes on they are cut by one call of :mod:`struct`."""

Frames = tuple[list[bytes], list[bytes]]
"""The bytes of each command, and for each the headers and payload behind it (empty if there are
none). Two lists, because runs of SENDs are processed by column."""


class FrameReader:
    """Cuts a stream of bytes into frames; feed it with :meth:`receive`.

    Invariant: less than ``_wanted`` bytes are buffered, so a large frame that arrives in many
    pieces is joined once and not at every piece.
    """

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._wanted = SIZES_BYTES
        self.error: FrameError | None = None
        """Set once impossible sizes came; nothing is read any more."""

    def __repr__(self) -> str:
        state = str(self.error or f"{self._buffered} bytes of {self._wanted} wanted")
        return f"<FrameReader {state}>"

    def allow(self, frame_bytes_max: int) -> None:
        """Take frames of up to that size from now on."""
        self._frame_bytes_max = frame_bytes_max

    def receive(self, data: bytes) -> Frames:
        """Return the frames that ``data`` completes, in order.

        Look at :attr:`error` after handling them: the bytes behind the last may not be a frame.
        """
        self._pieces.append(data)
        self._buffered += len(data)
        if self._buffered < self._wanted or self.error:
            return [], []
        if len(self._pieces) > 1:
            data = b"".join(self._pieces)
        return self._cut(data)

    def _cut(self, data: bytes) -> Frames:
        commands: list[bytes] = []
        bodies: list[bytes] = []
        add_command, add_body = commands.append, bodies.append
        unpack, end = SIZES.unpack_from, len(data)
        at, wanted, bound = 0, SIZES_BYTES, self._frame_bytes_max - SIZE_BYTES
        if end >= SIZES_BYTES:
            at = _cut_equal(data, commands, bodies, bound)
        while end - at >= SIZES_BYTES:
            total, size = unpack(data, at)
            if size + SIZE_BYTES > total or total > bound:
                self.error = self._impossible(total, size)
                break
            behind = at + SIZE_BYTES + total
            if behind > end:
                wanted = behind - at
                break
            at += SIZES_BYTES
            split = at + size
            add_command(data[at:split])
            add_body(data[split:behind])
            at = behind
        rest = data[at:] if at else data
        self._pieces = [rest] if rest else []
        self._buffered = len(rest)
        self._wanted = wanted
        return commands, bodies

    def _impossible(self, total: int, size: int) -> FrameError:
        bound = self._frame_bytes_max
        if total > bound - SIZE_BYTES:
            return FrameError(f"expected a frame of at most {bound} bytes, got {total + 4}")
        return FrameError(f"expected a command that fits a frame of {total}, got one of {size}")


def _cut_equal(data: bytes, commands: list[bytes], bodies: list[bytes], bound: int) -> int:
    """Cut the frames at the start that are as large as the first, if there are many; return where
    the next begins.

    Hot path: a producer whose messages are not batched sends many frames of equal sizes. This
    takes .055 us a frame and the loop of :meth:`FrameReader._cut`, which cuts the same, .14. One
    look tells whether it is worth while.
    """
    total: int
    size: int
    total, size = SIZES.unpack_from(data)
    frame_bytes = SIZE_BYTES + total
    last = (EQUAL_FRAMES_MIN - 1) * frame_bytes
    if size + SIZE_BYTES > total or total > bound or len(data) < last + frame_bytes:
        return 0
    if data[last : last + SIZES_BYTES] != data[:SIZES_BYTES]:
        return 0
    frames = len(data) // frame_bytes
    whole = frames * frame_bytes
    for offset in range(SIZES_BYTES):
        column = data[offset:whole:frame_bytes]
        frames = min(frames, len(column) - len(column.lstrip(column[:1])))
    layout = Struct(f"{SIZES_BYTES}x{size}s{total - SIZE_BYTES - size}s")
    end = frames * frame_bytes
    for command, body in layout.iter_unpack(memoryview(data)[:end]):
        commands.append(command)
        bodies.append(body)
    return end


def simple_frame(command: bytes) -> bytes:
    """Return the frame of a command that has no payload."""
    size = len(command)
    return SIZES.pack(size + SIZE_BYTES, size) + command


def payload_frame(command: bytes, payload: bytes) -> bytes:
    """Return the frame of a command with its headers and payload."""
    size = len(command)
    return SIZES.pack(size + SIZE_BYTES + len(payload), size) + command + payload
