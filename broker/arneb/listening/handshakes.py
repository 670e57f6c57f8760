"""Handshakes: TLS is begun without holding anybody up.

The rule: what takes milliseconds, a signature with the server's key or a client's certificate to
be looked at, is done by a thread, a few at a time; the event loop carries bytes. A client that was
here before brings a ticket and needs neither.
"""

import socket
import ssl
from contextlib import suppress
from typing import Final, cast

import trio

from arneb_core.api.tls_records import TlsRecords

THREADS: Final = 2
"""Handshakes worked at at once. With a key of 4096 bits each takes 8 ms of a processor, which the
event loop needs too; whoever else comes waits in line, and only for those."""

READ_BYTES: Final = 16 * 1024
"""Read at once from a client that is not known yet; a hello is a tenth of that."""


class Handshakes:
    """Begins TLS on connections that were accepted."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._limiter = trio.CapacityLimiter(THREADS)

    def __repr__(self) -> str:
        return f"<Handshakes, {self._limiter.borrowed_tokens} of {THREADS} threads at work>"

    def use(self, context: ssl.SSLContext) -> None:
        """Clients who come from now on get this one, with another certificate; whoever is here
        keeps what was agreed on."""
        self._context = context

    async def secure(self, transport: trio.SocketStream) -> trio.SSLStream[trio.SocketStream]:
        """Shake hands; what is said inside from now on. Raises :class:`trio.BrokenResourceError`
        when the client does not, and may take for ever when it says nothing."""
        begun = _Begun(self._context)
        # trio asks a context for no more than this, and finds nothing left to be done.
        context = cast(ssl.SSLContext, begun)
        # Clients close without a word, which HTTP's are known for.
        stream = trio.SSLStream(transport, context, server_side=True, https_compatible=True)
        await self._shake(begun, transport)
        await stream.do_handshake()
        return stream

    async def records(self, transport: trio.SocketStream) -> TlsRecords:
        """The same for whoever reads and writes the socket itself."""
        begun = _Begun(self._context)
        begun.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_side=True)
        await self._shake(begun, transport)
        return TlsRecords(begun.tls, begun.incoming, begun.outgoing)

    async def _shake(self, begun: "_Begun", transport: trio.SocketStream) -> None:
        while not await self._step(begun, transport):
            data = await transport.receive_some(READ_BYTES)
            if not data:
                raise trio.BrokenResourceError("the client left before it had shaken hands")
            begun.incoming.write(data)
            _acknowledge_now(transport.socket)

    async def _step(self, begun: "_Begun", transport: trio.SocketStream) -> bool:
        """Do what can be done with what has come; whether that was the last of it."""
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
            # An answer, tickets, or what the client has done wrong.
            if begun.outgoing.pending:
                await transport.send_all(begun.outgoing.read())


class _Begun:
    """One TLS session, where trio thinks it gets a context: it makes the session's parts, and here
    they stay at hand."""

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
        """The session over these."""
        self.incoming, self.outgoing = incoming, outgoing
        self.tls = self._context.wrap_bio(incoming, outgoing, server_side, server_hostname)
        return self.tls


def _acknowledge_now(sock: trio.socket.SocketType) -> None:
    """Tell the peer's kernel at once what has come. One that gathers small writes (Nagle) lets the
    client's next word wait for that, and ours would wait 40 ms for something to send along."""
    with suppress(OSError, AttributeError):  # not on every system; and the client may be gone
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
