"""A client's plain socket, as a stream.

The rule: what the kernel can take or give at once costs no pass of the event loop, except for one
after each 64 KiB. An answer is half a dozen reads and writes; in a crowd a pass lasts milliseconds,
and :class:`trio.SocketStream` waits for one after each of them. A caller that handles all that a
read brings in one turn uses :meth:`PlainStream.receive_next` instead, which waits for a pass each
time.
"""

import socket
from contextlib import suppress
from typing import Final, Self

import trio

TURN_BYTES: Final = 64 * 1024
"""Bytes moved in one turn of its task, some 30 µs, before others have theirs."""


class PlainStream(trio.abc.HalfCloseableStream):
    """One socket, owned by this stream: nobody else reads, writes or closes it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._turn_bytes = 0
        """Bytes moved since others had their turn."""

    @classmethod
    def of(cls, stream: trio.SocketStream) -> Self:
        """Take over the socket of a stream, which is of no use afterwards."""
        taken = stream.socket
        family, kind, protocol = taken.family, taken.type, taken.proto
        # Given only the descriptor, socket() would ask the kernel for each of these.
        return cls(socket.socket(family, kind, protocol, fileno=taken.detach()))

    def __repr__(self) -> str:
        return f"<PlainStream {self._socket.fileno()}>"

    def has_come(self, max_bytes: int) -> bytes:
        """Peek at what has come, at most ``max_bytes``; it is still received later."""
        try:
            return self._socket.recv(max_bytes, socket.MSG_PEEK)
        except OSError:  # nothing has come, or the receiver will find what is wrong
            return b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return what has come, at most ``max_bytes``; empty at the end. Not always a checkpoint.
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
        """Do as :meth:`receive_some`, behind all other ready tasks: a turn for each read."""
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(max_bytes)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._ended(error) from error

    def send_now(self, data: bytes) -> int:
        """Send what the kernel takes at once; return how much. Errors are left to whoever sends the
        rest."""
        try:
            return self._socket.send(data)
        except OSError:
            return 0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of ``data``. Not always a checkpoint. Raises :class:`trio.BrokenResourceError`,
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
        """Shut down the sending side. Not a checkpoint."""
        with suppress(OSError):  # the client is gone and need not be told
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket; a task waiting for it gets a :class:`trio.ClosedResourceError`."""
        if self._socket.fileno() != -1:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()

    async def aclose(self) -> None:
        """Close it as :meth:`close` does, with a checkpoint."""
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
