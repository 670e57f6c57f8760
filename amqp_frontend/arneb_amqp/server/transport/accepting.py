"""Accepting: from an accepted client to its socket and its address.

The rule: the TLS handshake and a proxy's header come first, each within the handshake timeout; the
server gets a socket of its own, see :mod:`arneb_amqp.server.transport.link`.
"""

import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace

import trio

from arneb_amqp.config import AmqpConfig
from arneb_amqp.server.transport.remote import Remote, remote_of
from arneb_amqp.server.transport.tls import Unsecured, serve_secured
from arneb_core.api.connections.tls_records import TlsRecords

Serve = Callable[[Remote, socket.socket, TlsRecords | None], Awaitable[None]]
"""Serves one client, by TLS if there are records, and closes its socket."""


async def serve_accepted(
    serve: Serve, config: AmqpConfig, stream: trio.SocketStream | Unsecured
) -> None:
    """Serve an accepted client."""
    transport = stream.transport.socket if isinstance(stream, Unsecured) else stream.socket
    remote = await remote_of(transport, config.handshake_s if config.proxy_protocol else None)
    if remote is None:
        await trio.aclose_forcefully(stream)
        return
    if isinstance(stream, Unsecured):

        async def secured(sock: socket.socket, records: TlsRecords) -> None:
            by_tls = replace(
                remote, certificate=records.certificate, cipher=records.cipher, secured=True
            )
            await serve(by_tls, sock, records)

        await serve_secured(stream, config.handshake_s, secured)
        return
    await serve(remote, socket.socket(fileno=stream.socket.detach()), None)
