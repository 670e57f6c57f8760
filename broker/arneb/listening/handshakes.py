"""Handshakes: TLS begins without holding up other connections.

The rule: what takes milliseconds, signing with the server's key or checking a client's certificate,
is done in threads, a few at a time; the event loop only moves bytes. A returning client presents a
session ticket and needs neither.
"""

import socket
import ssl
from contextlib import suppress
from typing import Final, cast

import trio

from arneb_core.api.connections.tls_records import TlsRecords

THREADS: Final = 2
"""Handshakes computed at the same time. With a 4096-bit key, each takes 8 ms of CPU time, which the
event loop needs too; further handshakes wait for these only."""

READ_BYTES: Final = 16 * 1024
"""The most bytes of one read during a handshake; a hello has a tenth of that."""


class Handshakes:
    """Begins TLS on connections that were accepted."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._limiter = trio.CapacityLimiter(THREADS)

    def __repr__(self) -> str:
        return f"<Handshakes, {self._limiter.borrowed_tokens} of {THREADS} threads at work>"

    def use(self, context: ssl.SSLContext) -> None:
        """Use another context, with another certificate, for new connections; existing ones keep
        theirs."""
        self._context = context

    async def secure(self, transport: trio.SocketStream) -> trio.SSLStream[trio.SocketStream]:
        """Do the handshake and return the encrypted stream. Raises
        :class:`trio.BrokenResourceError` when the client fails it; waits for ever when the client
        sends nothing."""
        begun = _Begun(self._context)
        # trio uses nothing else of a context, and finds the handshake done.
        context = cast(ssl.SSLContext, begun)
        # Many clients, HTTP clients above all, close without TLS's closing alert.
        stream = trio.SSLStream(transport, context, server_side=True, https_compatible=True)
        await self._shake(begun, transport)
        await stream.do_handshake()
        return stream

    async def records(self, transport: trio.SocketStream) -> TlsRecords:
        """Do the handshake for a caller that reads and writes the socket itself."""
        begun = _Begun(self._context)
        begun.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
        await self._shake(begun, transport)
        return TlsRecords(begun.tls, begun.incoming, begun.outgoing)

    async def _shake(self, begun: "_Begun", transport: trio.SocketStream) -> None:
        while not await self._step(begun, transport):
            data = await transport.receive_some(READ_BYTES)
            if not data:
                raise trio.BrokenResourceError(
                    "the client disconnected before the handshake was complete"
                )
            begun.incoming.write(data)
            _acknowledge_now(transport.socket)

    async def _step(self, begun: "_Begun", transport: trio.SocketStream) -> bool:
        """Process the bytes received so far; return whether the handshake is complete."""
        if not begun.incoming.pending:
            return False
        try:
            await trio.to_thread.run_sync(begun.tls.do_handshake, limiter=self._limiter)
            return True
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise trio.BrokenResourceError("no handshake") from error
        finally:
            # An answer, tickets, or an alert.
            if begun.outgoing.pending:
                await transport.send_all(begun.outgoing.read())


class _Begun:
    """One TLS session, passed to trio as its context: trio makes the session's parts through it,
    and it keeps them accessible."""

    incoming: ssl.MemoryBIO
    outgoing: ssl.MemoryBIO
    tls: ssl.SSLObject

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool,
        server_hostname: str | None = None,
    ) -> ssl.SSLObject:
        """Return the session over these buffers."""
        self.incoming, self.outgoing = incoming, outgoing
        self.tls = self._context.wrap_bio(incoming, outgoing, server_side, server_hostname)
        return self.tls


def _acknowledge_now(sock: trio.socket.SocketType) -> None:
    """Have our kernel acknowledge received bytes at once. A peer with Nagle's algorithm holds back
    the client's next small write until then, and our kernel would delay the acknowledgement by 40
    ms, to send it with data."""
    with suppress(OSError, AttributeError):  # not on every system; and the client may be gone
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
