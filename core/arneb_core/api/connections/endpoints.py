"""Endpoints: where a connection comes from, and what it reached.

The rule: an address has one written form, IPv4 as such even inside IPv6, and IPv6 without its zone,
so that rules and the slowing of guesses recognise it.
"""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import trio

ADDRESSES_CACHED_MAX: Final = 4096
"""Addresses whose parsed form is cached: a thousand connections a second come from few."""

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a connection."""

    address: Address
    port: int

    def __str__(self) -> str:
        host = str(self.address)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Both ends of a connection: the client, and the address it meant to reach."""

    source: Endpoint
    destination: Endpoint


def endpoints_of(sock: trio.socket.SocketType) -> Endpoints:
    """Return the ends of a TCP connection. Raises :class:`OSError` if it is gone again."""
    theirs, ours = sock.getpeername(), sock.getsockname()
    return Endpoints(endpoint_of(theirs), endpoint_of(ours))


def endpoint_of(name: tuple[str, int] | tuple[str, int, int, int]) -> Endpoint:
    """Return the end for a socket name."""
    return Endpoint(address_of(name[0]), name[1])


@lru_cache(maxsize=ADDRESSES_CACHED_MAX)
def address_of(text: str) -> Address:
    """Parse an address in any written form. Raises :class:`ValueError`."""
    return plain(ip_address(text.partition("%")[0]))


def plain(address: Address) -> Address:
    """Return the same address, with IPv4 inside IPv6 as IPv4."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
