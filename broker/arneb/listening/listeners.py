"""Listeners: the sockets of the broker's servers, bound before anything else is touched.

The rule: every port is bound before the data directory is opened, so a port in use is an error that
changes nothing, and clients that connect while the store opens simply wait.
"""

import errno
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Self

import trio

from arneb.listening.accepting import CarefulListener, RefusalLog
from arneb.settings.config import Address, Listen

Place = tuple[int, str]
"""Family and address."""

EVERYWHERE: Final[Mapping[str, Sequence[Place]]] = {
    "*": ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")),
    "::": ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")),
}
"""The hosts that stand for every address of the machine, as in RabbitMQ."""

LOOPBACKS: Final[Sequence[Place]] = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))

NO_IPV6: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
"""The errors of a system without IPv6, or with IPv6 turned off."""

BACKLOG: Final = 0xFFFF
"""Connections that may wait to be accepted; the system has a limit of its own."""

PORT_TRIES: Final = 16
"""Tries to find a port that the system chose for one address and that is free at the others."""


class BindFailed(Exception):
    """A listener's address cannot be bound; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """The bound sockets by the name of their listener; a listener that is off has none."""

    by_name: Mapping[str, Sequence[CarefulListener]] = field(default_factory=dict)
    _known: Mapping[str, list[Address]] = field(default_factory=dict)
    """The addresses of listeners whose sockets belong to another object."""

    @classmethod
    async def bind(cls, wanted: Mapping[str, Listen]) -> Self:
        """Bind every port that is on. Raises :class:`BindFailed`, with every port closed again."""
        bound: dict[str, Sequence[CarefulListener]] = {}
        log = RefusalLog()
        try:
            for name, address in wanted.items():
                if address is not None:
                    bound[name] = await _bind(name, address, log)
        except BaseException:
            await cls(bound).close()
            raise
        return cls(bound)

    def addresses(self, name: str) -> list[Address]:
        """Return where the listener really listens, with port 0 resolved."""
        if (known := self._known.get(name)) is not None:
            return known
        names = [listener.socket.getsockname() for listener in self.by_name[name]]
        return [Address(host, port) for host, port, *_ in names]

    def without_sockets(self, *others: str) -> "Listeners":
        """Return the same names and addresses without ``others`` and without sockets, for a broker
        whose clients are handed over."""
        known = {name: self.addresses(name) for name in self.by_name if name not in others}
        return Listeners(dict.fromkeys(known, ()), known)

    async def close(self) -> None:
        """Close all of them. Idempotent."""
        with trio.CancelScope(shield=True):
            for listeners in self.by_name.values():
                for listener in listeners:
                    await listener.aclose()


async def _bind(name: str, address: Address, log: RefusalLog) -> list[CarefulListener]:
    """Bind one listener for each address that ``address`` stands for, all at one port."""
    try:
        places = await _places(address.host)
        for _ in range(PORT_TRIES):
            try:
                return [CarefulListener.of(each, log) for each in _listen(places, address.port)]
            except _PortTaken:
                continue  # the port was free at the first address only
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    except OSError as error:
        raise BindFailed(f"cannot listen for {name} on {address}: {_reason(error)}") from error


async def _places(host: str) -> list[Place]:
    """Return family and address of everything that ``host`` stands for, each once."""
    if host in EVERYWHERE:
        return list(EVERYWHERE[host])
    found: dict[Place, None] = {}
    flags = socket.AI_PASSIVE
    for family, _, _, _, name in await trio.socket.getaddrinfo(
        host, None, type=socket.SOCK_STREAM, flags=flags
    ):
        if family in (socket.AF_INET, socket.AF_INET6):
            found[family, str(name[0])] = None
    if host == "localhost":
        # Both, whatever the hosts file says: clients try one address or the other.
        found.update(dict.fromkeys(LOOPBACKS))
    return list(found)


def _listen(places: Sequence[Place], port: int) -> list[socket.socket]:
    """Listen at all of ``places``; on a machine without IPv6, at the IPv4 ones."""
    bound: list[socket.socket] = []
    refused: OSError | None = None
    try:
        for family, host in places:
            at = bound[0].getsockname()[1] if bound else port
            try:
                bound.append(_socket(family, host, at))
            except OSError as error:
                if bound and not port and error.errno == errno.EADDRINUSE:
                    raise _PortTaken from error
                is_missing = family == socket.AF_INET6 and error.errno in NO_IPV6
                if not is_missing or len(places) == 1:
                    raise
                refused = error
        if refused is not None and not bound:
            raise refused
    except BaseException:
        for sock in bound:
            sock.close()
        raise
    return bound


def _socket(family: int, host: str, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # IPv4 has a socket of its own; whether one serves both depends on the system.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind((host, port))
        sock.listen(BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


class _PortTaken(Exception):
    """The system's choice of a port is not free at another address."""


def _reason(error: OSError) -> str:
    """Return the operating system's words alone, without the address that trio and socket add."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
