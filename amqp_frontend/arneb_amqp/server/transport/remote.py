"""Remote: a client's address, and its TLS parameters.

The rule: a client behind a proxy has the address that the proxy names, wherever the proxy itself
is.
"""

import socket
from dataclasses import dataclass
from typing import Final

import trio

from arneb_core.api.connections.endpoints import Endpoints, endpoints_of
from arneb_core.api.connections.proxy_protocol import endpoints_behind


@dataclass(frozen=True, slots=True)
class Remote:
    """A client's address and TLS parameters."""

    address: str = ""
    loopback: bool = True
    certificate: bytes | None = None
    """The client's certificate, verified by TLS, in DER."""
    port: int = 0
    local: tuple[str, int] = ("", 0)
    """Our address and port."""
    secured: bool = False
    """Whether it uses TLS."""
    cipher: tuple[str, str] = ("", "")
    """OpenSSL's name of the cipher suite, and the TLS version."""

    @property
    def name(self) -> str:
        """Both ends, as RabbitMQ names a connection."""
        host, port = self.local
        return f"{self.address}:{self.port} -> {host}:{port}"


GONE: Final = Remote("gone", loopback=False)
"""A client that left before its address was read."""


def remote_at(ends: Endpoints) -> Remote:
    """Return the client at one end of a connection."""
    source, reached = ends.source, ends.destination
    return Remote(
        str(source.address),
        source.address.is_loopback,
        port=source.port,
        local=(str(reached.address), reached.port),
    )


async def remote_of(sock: trio.socket.SocketType, proxy_within_s: float | None) -> Remote | None:
    """Return the client at the other end of a socket. ``proxy_within_s``: the time within which a
    proxy must name it. None: no proxy did, which is logged, and the caller closes the
    connection."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return Remote()
    try:
        ends = endpoints_of(sock)
    except OSError:
        return GONE if proxy_within_s is None else None
    if proxy_within_s is None:
        return remote_at(ends)
    found = await endpoints_behind(ends, sock, proxy_within_s)
    return None if found is None else remote_at(found)
