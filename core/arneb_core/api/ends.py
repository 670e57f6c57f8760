"""Ends: where a connection comes from, and what it reached.

The rule: an address is written in one way, IPv4 as such even inside IPv6, and IPv6 without its
zone, so that rules and slowed guesses know it again.
"""

from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

import trio

ADDRESSES: Final = 4096
"""Whose texts are not read again: whoever connects a thousand times a second comes from few."""

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class Place:
    """An end of a connection."""

    address: Address
    port: int

    def __str__(self) -> str:
        host = str(self.address)
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Ends:
    """Who comes, and what they meant to reach."""

    source: Place
    destination: Place


def ends_of(sock: trio.socket.SocketType) -> Ends:
    """The ends of a TCP connection. Raises :class:`OSError`: it is gone again."""
    theirs, ours = sock.getpeername(), sock.getsockname()
    return Ends(place_of(theirs), place_of(ours))


def place_of(name: tuple[str, int] | tuple[str, int, int, int]) -> Place:
    """An end by its name, as sockets have it."""
    return Place(address_of(name[0]), name[1])


@lru_cache(maxsize=ADDRESSES)
def address_of(text: str) -> Address:
    """An address that is written in any way. Raises :class:`ValueError`."""
    return plain(ip_address(text.partition("%")[0]))


def plain(address: Address) -> Address:
    """The same address, IPv4 as such."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
