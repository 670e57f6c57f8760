"""Clients over TLS before their handshake.

The rule: the handshake takes place when a client is served, not before, within its timeout. Inside
is a connection like any other, whose link handles TLS
(:mod:`arneb_amqp.server.transport.secured_link`).
"""

import logging
import socket
from collections.abc import Awaitable, Callable

import trio

from arneb_core.api.connections.tls_records import TlsRecords

logger = logging.getLogger(__name__)

Secure = Callable[[trio.SocketStream], Awaitable[TlsRecords]]
"""Shakes hands on an accepted connection. Raises :class:`trio.BrokenResourceError`."""


class Unsecured(trio.abc.AsyncResource):
    """An accepted TLS client that has not shaken hands yet."""

    def __init__(self, transport: trio.SocketStream, secure: Secure) -> None:
        self.transport = transport
        self.secure = secure

    def __repr__(self) -> str:
        return f"<Unsecured {self.transport!r}>"

    async def aclose(self) -> None:
        """Close the socket."""
        await self.transport.aclose()


class SecuredListener(trio.abc.Listener[Unsecured]):
    """A listener for TLS clients, which shake hands only when they are served."""

    def __init__(self, transports: trio.abc.Listener[trio.SocketStream], secure: Secure) -> None:
        self._transports = transports
        self._secure = secure

    def __repr__(self) -> str:
        return f"<SecuredListener on {self._transports!r}>"

    async def accept(self) -> Unsecured:
        """Accept the next client."""
        return Unsecured(await self._transports.accept(), self._secure)

    async def aclose(self) -> None:
        """Close the listener."""
        await self._transports.aclose()


async def serve_secured(
    client: Unsecured,
    handshake_s: float,
    serve: Callable[[socket.socket, TlsRecords], Awaitable[None]],
) -> None:
    """Shake hands with ``client`` and have ``serve`` serve it, which closes the socket."""
    try:
        with trio.fail_after(handshake_s):
            records = await client.secure(client.transport)
    except (trio.BrokenResourceError, trio.TooSlowError) as error:
        logger.info("TLS handshake failed: %s", error.__cause__ or error)
        await trio.aclose_forcefully(client)
        return
    await serve(socket.socket(fileno=client.transport.socket.detach()), records)
