"""Remote: where a client comes from, and what TLS says of it.

The rule: an address is written in one way, IPv4 as such and IPv6 without its zone, so that rules
and slowed guesses know it again; who comes by a proxy is whom the proxy names.
"""

import socket
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv6Address, ip_address

import trio

from arneb_core.api.proxy_protocol import Proxied


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


def peer_of(sock: trio.socket.SocketType) -> Remote:
    """Who is at the other end of a socket."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return Remote()
    try:
        theirs, ours = sock.getpeername(), sock.getsockname()
    except OSError:
        return Remote("gone", loopback=False)
    address, own = _address(theirs[0]), _address(ours[0])
    return Remote(str(address), address.is_loopback, port=theirs[1], local=(str(own), ours[1]))


def behind(proxy: Remote, proxied: Proxied | None) -> Remote:
    """Who comes by a proxy; a proxy that names nobody comes itself."""
    if proxied is None:
        return proxy
    source, reached = proxied.source, proxied.destination
    address, own = _unmapped(source.address), _unmapped(reached.address)
    return replace(
        proxy,
        address=str(address),
        loopback=address.is_loopback,
        port=source.port,
        local=(str(own), reached.port),
    )


def _address(text: str) -> IPv4Address | IPv6Address:
    """Without the zone, and IPv4 as such."""
    return _unmapped(ip_address(text.partition("%")[0]))


def _unmapped(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
