"""Remote: where a client comes from, and what TLS says of it.

The rule: who comes by a proxy is whom the proxy names, wherever the proxy itself stands.
"""

import socket
from dataclasses import dataclass
from typing import Final

import trio

from arneb_core.api.ends import Ends, ends_of
from arneb_core.api.proxy_protocol import ends_behind


@dataclass(frozen=True, slots=True)
class Remote:
    """Where a client comes from."""

    address: str = ""
    loopback: bool = True
    certificate: bytes | None = None
    """That it has shown and TLS has verified, in DER."""
    port: int = 0
    local: tuple[str, int] = ("", 0)
    """Where it reached us."""
    secured: bool = False
    """It speaks TLS."""
    cipher: tuple[str, str] = ("", "")
    """The cipher suite by OpenSSL's name, and the version of TLS."""

    @property
    def name(self) -> str:
        """Both ends, as RabbitMQ names a connection."""
        host, port = self.local
        return f"{self.address}:{self.port} -> {host}:{port}"


GONE: Final = Remote("gone", loopback=False)
"""A client that has left before it was looked at."""


def remote_at(ends: Ends) -> Remote:
    """The client at one end of a connection."""
    source, reached = ends.source, ends.destination
    return Remote(
        str(source.address),
        source.address.is_loopback,
        port=source.port,
        local=(str(reached.address), reached.port),
    )


async def remote_of(sock: trio.socket.SocketType, proxy_within_s: float | None) -> Remote | None:
    """Who is at the other end of a socket. ``proxy_within_s``: a proxy is to say so within that
    time; None: none did, which is logged, and the connection is to be closed."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return Remote()
    try:
        ends = ends_of(sock)
    except OSError:
        return GONE if proxy_within_s is None else None
    if proxy_within_s is None:
        return remote_at(ends)
    found = await ends_behind(ends, sock, proxy_within_s)
    return None if found is None else remote_at(found)
