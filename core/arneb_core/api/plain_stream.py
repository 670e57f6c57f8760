"""A client's plain socket, as a stream.

The rule: what the kernel can take or give at once costs no pass of the event loop, but for one
after each 64 KiB. An answer is half a dozen reads and writes; beside a crowd each pass lasts for
milliseconds, and :class:`trio.SocketStream` has everybody wait for one after each of them. Whoever
handles all that a read brings in one turn reads by :meth:`PlainStream.receive_next` instead, which
waits for a pass each time.
"""

import socket
from contextlib import suppress
from typing import Final, Self

import trio

TURN_BYTES: Final = 64 * 1024
"""Moved in one turn of its task, some 30 µs; then others have theirs."""


class PlainStream(trio.abc.HalfCloseableStream):
    """One socket, which is this stream's own: nobody else reads, writes or closes it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._turn_bytes = 0
        """Moved since others had their turn."""

    @classmethod
    def of(cls, stream: trio.SocketStream) -> Self:
        """Take the socket out of a stream, which is of no use any more then."""
        taken = stream.socket
        family, kind, protocol = taken.family, taken.type, taken.proto
        # By its number alone the kernel would be asked for each of these.
        return cls(socket.socket(family, kind, protocol, fileno=taken.detach()))

    def __repr__(self) -> str:
        return f"<PlainStream {self._socket.fileno()}>"

    def has_come(self, max_bytes: int) -> bytes:
        """Look at what has come, at most ``max_bytes``; it is received all the same later."""
        try:
            return self._socket.recv(max_bytes, socket.MSG_PEEK)
        except OSError:  # nothing has, or what is wrong is found by who receives it
            return b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """What has come, at most ``max_bytes``; empty at the end. Not each time a checkpoint.
        Raises :class:`trio.BrokenResourceError`, :class:`trio.ClosedResourceError`."""
        await self._others_turn()
        while True:
            try:
                data = self._socket.recv(max_bytes or TURN_BYTES)
                self._turn_bytes += len(data)
                return data
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._socket)
                self._turn_bytes = 0
            except OSError as error:
                raise self._ended(error) from error

    async def receive_next(self, max_bytes: int) -> bytes:
        """As :meth:`receive_some`, behind everybody else who is ready: a turn for each read."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._ended(error) from error

    def send_now(self, data: bytes) -> int:
        """Send what the kernel takes at once; how much that was. What is wrong with the connection
        is found by who sends the rest."""
        try:
            return self._socket.send(data)
        except OSError:
            return 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it. Not each time a checkpoint. Raises :class:`trio.BrokenResourceError`,
        :class:`trio.ClosedResourceError`."""
        view = memoryview(data)
        while view:
            await self._others_turn()
            try:
                sent = self._socket.send(view[:TURN_BYTES])
                self._turn_bytes += sent
                view = view[sent:]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._socket)
                self._turn_bytes = 0
            except OSError as error:
                raise self._ended(error) from error

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the kernel takes something."""
        await trio.lowlevel.wait_writable(self._socket)

    async def send_eof(self) -> None:
        """Say that nothing more comes. Not a checkpoint."""
        with suppress(OSError):  # the peer is gone: it needs not be told
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close it; who waits for it gets a :class:`trio.ClosedResourceError`."""
        if self._socket.fileno() != -1:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    async def aclose(self) -> None:
        """Close it, as :meth:`close` does, and be a checkpoint."""
        self.close()
        await trio.lowlevel.checkpoint()

    async def _others_turn(self) -> None:
        if self._turn_bytes >= TURN_BYTES:
            self._turn_bytes = 0
            await trio.lowlevel.checkpoint()

    def _ended(self, error: OSError) -> Exception:
        if self._socket.fileno() == -1:
            return trio.ClosedResourceError("this stream was closed")
        return trio.BrokenResourceError(f"the connection broke: {error}")
