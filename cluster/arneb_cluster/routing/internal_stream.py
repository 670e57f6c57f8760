"""Internal streams: the bytes between two nodes, with or without TLS.

The rule: either side may end its direction and still receive the other's, over TLS as well; sending
waits until the kernel has taken the bytes, so a slow reader is felt at the other end.
"""

import socket
import ssl
from typing import Final

import trio

from arneb_core.api.connections.tls_records import TlsRecords

RECEIVE_BYTES_MAX: Final = 256 * 1024

HANDSHAKE_BYTES: Final = 16 * 1024
"""Bytes of one read during the handshake."""

THREADS: Final = trio.lowlevel.RunVar[trio.CapacityLimiter]("arneb_internal_handshakes")
THREADS_MAX: Final = 2
"""Signatures made at once; the event loop needs the processor, too."""


class InternalStream(trio.abc.HalfCloseableStream):
    """One connection between two nodes."""

    def __init__(
        self,
        sock: trio.socket.SocketType,
        records: TlsRecords | None = None,
        early: bytes = b"",
    ) -> None:
        """``early``: bytes to be received first."""
        self._socket = sock
        self._records = records
        self._early = early + (b"" if records is None else records.opened(b""))

    def __repr__(self) -> str:
        return f"<InternalStream {self._socket.fileno()}, {'TLS' if self._records else 'plain'}>"

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of it. Raises :class:`trio.BrokenResourceError`."""
        try:
            rest = memoryview(data if self._records is None else self._records.sealed(bytes(data)))
            while rest:
                rest = rest[await self._socket.send(rest) :]
        except (OSError, ssl.SSLError) as error:
            raise trio.BrokenResourceError("the other node is gone") from error

    async def wait_send_all_might_not_block(self) -> None:
        """Return at once: sending itself waits."""
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Receive; empty at the end. Raises :class:`trio.BrokenResourceError`."""
        size = max_bytes or RECEIVE_BYTES_MAX
        received, self._early = self._early, b""
        while not received:
            if self._records is not None and self._records.ended:
                return b""
            try:
                data = await self._socket.recv(size)
            except OSError as error:
                raise trio.BrokenResourceError("the other node is gone") from error
            if self._records is None:
                return data
            if not data:
                return b""
            received = self._records.opened(data)
            if answer := self._records.answer():
                await self._socket.send(answer)
        return received

    async def send_eof(self) -> None:
        """End the sending direction."""
        try:
            if self._records is not None and (farewell := self._records.farewell()):
                await self._socket.send(farewell)
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            raise trio.BrokenResourceError("the other node is gone") from error

    async def aclose(self) -> None:
        """Close the socket."""
        self._socket.close()
        await trio.lowlevel.checkpoint()

    def release(self) -> tuple[socket.socket, TlsRecords | None, bytes]:
        """Return the socket, which is the caller's from now on, and bytes not received yet."""
        received, self._early = self._early, b""
        return socket.socket(fileno=self._socket.detach()), self._records, received


async def secured(
    sock: trio.socket.SocketType, context: ssl.SSLContext, server_name: str | None
) -> InternalStream:
    """Shake hands, as a server if there is no ``server_name`` to check. Raises
    :class:`trio.BrokenResourceError`."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    is_server = server_name is None
    tls = context.wrap_bio(incoming, outgoing, is_server, server_name)
    limiter = _limiter()
    while True:
        try:
            await trio.to_thread.run_sync(tls.do_handshake, limiter=limiter)
            is_done = True
        except ssl.SSLWantReadError:
            is_done = False
        except ssl.SSLError as error:
            await _flush(sock, outgoing)
            raise trio.BrokenResourceError(f"no TLS with the other node: {error}") from error
        await _flush(sock, outgoing)
        if is_done:
            return InternalStream(sock, TlsRecords(tls, incoming, outgoing))
        try:
            data = await sock.recv(HANDSHAKE_BYTES)
        except OSError as error:
            raise trio.BrokenResourceError("the other node is gone") from error
        if not data:
            raise trio.BrokenResourceError("the other node left before it had shaken hands")
        incoming.write(data)


def _limiter() -> trio.CapacityLimiter:
    try:
        return THREADS.get()
    except LookupError:
        limiter = trio.CapacityLimiter(THREADS_MAX)
        THREADS.set(limiter)
        return limiter


async def _flush(sock: trio.socket.SocketType, outgoing: ssl.MemoryBIO) -> None:
    rest = memoryview(outgoing.read())
    try:
        while rest:
            rest = rest[await sock.send(rest) :]
    except OSError as error:
        raise trio.BrokenResourceError("the other node is gone") from error
