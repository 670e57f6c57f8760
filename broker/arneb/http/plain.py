"""A client's plain socket, as a stream.

The rule: what the kernel can take or give at once costs no pass of the event loop. An answer is
half a dozen reads and writes; beside a crowd each pass lasts for milliseconds, and
:class:`trio.SocketStream` has everybody wait for one after each of them. Who calls has to see to it
that nobody has turn after turn without a checkpoint: :mod:`arneb.http.pace` does.
"""

import socket
from contextlib import suppress
from typing import Final, Self

import trio

RECEIVE_BYTES: Final = 64 * 1024


class PlainStream(trio.abc.HalfCloseableStream):
    """One socket, which is this stream's own: nobody else reads, writes or closes it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock

    @classmethod
    def of(cls, stream: trio.SocketStream) -> Self:
        """Take the socket out of a stream, which is of no use any more then."""
        return cls(socket.socket(fileno=stream.socket.detach()))

    def __repr__(self) -> str:
        return f"<PlainStream {self._socket.fileno()}>"

    def has_come(self, max_bytes: int) -> bytes:
        """Look at what has come, at most ``max_bytes``; it is received all the same later."""
        try:
            return self._socket.recv(max_bytes, socket.MSG_PEEK)
        except OSError:  # nothing has, or what is wrong is found by who receives it
            return b""

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """What has come, at most ``max_bytes``; empty at the end. A checkpoint only if it waits.
        Raises :class:`trio.BrokenResourceError`, :class:`trio.ClosedResourceError`."""
        while True:
            try:
                return self._socket.recv(max_bytes or RECEIVE_BYTES)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._socket)
            except OSError as error:
                raise self._ended(error) from error

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it. A checkpoint only if it waits. Raises :class:`trio.BrokenResourceError`,
        :class:`trio.ClosedResourceError`."""
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._socket)
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

    def _ended(self, error: OSError) -> Exception:
        if self._socket.fileno() == -1:
            return trio.ClosedResourceError("this stream was closed")
        return trio.BrokenResourceError(f"the connection broke: {error}")
