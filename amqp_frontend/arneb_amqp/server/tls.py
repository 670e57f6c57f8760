"""Connections by TLS: what is inside goes to a connection as any other, over a pair of sockets.

The rule: a connection works on a bare socket, as fast as that goes; TLS is taken off before it
and costs nobody else anything. Either side's end is passed on, so nothing is left behind.
"""

import logging
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import trio

from arneb_amqp.server.link import acknowledge_now

LOGGER: Final = logging.getLogger(__name__)

PIECE_BYTES: Final = 128 * 1024
"""Passed on at once."""

OPENING_READS: Final = 8
"""In so many at least a client opens its connection."""

FAREWELL_S: Final = 2.0
"""How long a client may take to read what is left when its connection has ended."""

SecuredStream = trio.SSLStream[trio.SocketStream]
Secure = Callable[[trio.SocketStream], Awaitable[SecuredStream]]
"""Shakes hands on a connection that was accepted. Raises :class:`trio.BrokenResourceError`."""


@dataclass(frozen=True, slots=True)
class Agreed:
    """What a handshake came to."""

    cipher: tuple[str, str]
    """The suite by OpenSSL's name, and the version of TLS."""
    certificate: bytes | None
    """The client's that was verified, in DER, if there is one."""


class Unsecured(trio.abc.AsyncResource):
    """A client that has come by TLS and has not shaken hands yet."""

    def __init__(self, transport: trio.SocketStream, secure: Secure) -> None:
        self.transport = transport
        self.secure = secure

    def __repr__(self) -> str:
        return f"<Unsecured {self.transport!r}>"

    async def aclose(self) -> None:
        """Close the socket."""
        await self.transport.aclose()


class SecuredListener(trio.abc.Listener[Unsecured]):
    """A listener for clients by TLS, who shake hands when they are served and not before."""

    def __init__(self, transports: trio.abc.Listener[trio.SocketStream], secure: Secure) -> None:
        self._transports = transports
        self._secure = secure

    def __repr__(self) -> str:
        return f"<SecuredListener on {self._transports!r}>"

    async def accept(self) -> Unsecured:
        """The next client."""
        return Unsecured(await self._transports.accept(), self._secure)

    async def aclose(self) -> None:
        """Take no more."""
        await self._transports.aclose()


async def serve_secured(
    client: Unsecured,
    handshake_s: float,
    serve: Callable[[socket.socket, Agreed], Awaitable[None]],
) -> None:
    """Take TLS off what ``client`` says and have ``serve`` serve what is inside, given what was
    agreed on."""
    # Made at once, so that who decides whether to accept one more knows what the others take.
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:
        LOGGER.info("TLS handshake failed: %s", error)
        await trio.aclose_forcefully(client)
        return
    with ours, theirs:
        try:
            with trio.fail_after(handshake_s):
                stream = await client.secure(client.transport)
        except (trio.BrokenResourceError, trio.TooSlowError) as error:
            LOGGER.info("TLS handshake failed: %s", error.__cause__ or error)
            await trio.aclose_forcefully(client)
            return
        theirs.setblocking(False)
        inner = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_inwards, stream, inner)
                nursery.start_soon(_outwards, inner, stream, nursery.cancel_scope)
                await serve(theirs, _agreed(stream))
                nursery.cancel_scope.deadline = trio.current_time() + FAREWELL_S
        finally:
            with trio.CancelScope(shield=True):
                await trio.aclose_forcefully(inner)
                await trio.aclose_forcefully(stream)


def _agreed(stream: SecuredStream) -> Agreed:
    suite, version, _ = stream.cipher() or ("", "", 0)
    return Agreed((suite, version), stream.getpeercert(binary_form=True))


async def _inwards(stream: SecuredStream, inner: trio.SocketStream) -> None:
    """What the client says, until it leaves."""
    try:
        reads = 0
        while data := await stream.receive_some(PIECE_BYTES):
            await inner.send_all(data)
            if reads < OPENING_READS:
                reads += 1
                acknowledge_now(stream.transport_stream.socket)
        await inner.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await inner.aclose()


async def _outwards(
    inner: trio.SocketStream, stream: SecuredStream, everything: trio.CancelScope
) -> None:
    """What the broker says, until it has no more to say."""
    try:
        while data := await inner.receive_some(PIECE_BYTES):
            await stream.send_all(data)
        await stream.aclose()
        everything.cancel()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        await inner.aclose()
