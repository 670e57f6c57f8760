"""Connections, as registries and services know them: they take events, and say whether they live.

The rule: everything here that holds connections does so by this protocol; the class behind it is
:class:`arneb_pulsar.server.connection.Connection`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.session.interface.events import Event


class ClientConnection(Protocol):
    """One connected client."""

    @property
    def address(self) -> str:
        """The address that it comes from."""
        ...

    @property
    def caller(self) -> Caller:
        """The proved identity of its client."""
        ...

    @property
    def client_name(self) -> str:
        """The client's library, with its version."""
        ...

    @property
    def is_secured(self) -> bool:
        """It uses TLS."""
        ...

    @property
    def received_bytes(self) -> int:
        """Bytes received on it."""
        ...

    @property
    def sent_bytes(self) -> int:
        """Bytes written to it."""
        ...

    @property
    def is_full(self) -> bool:
        """Its client leaves so much unread that nothing more should be sent."""
        ...

    async def room(self) -> None:
        """Wait until not :attr:`is_full`."""
        ...

    def tell(self, event: Event) -> None:
        """Report ``event`` to its session, and carry out the effects."""
        ...

    async def is_alive(self) -> bool:
        """Ping the client, and wait for an answer as long as the settings allow."""
        ...

    def kill(self) -> None:
        """End the connection: its client is dead."""
        ...


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """A connection, as operators know it."""

    number: int
    """Unique since the broker started."""
    connection: ClientConnection
    opened_ms: int


class Connections:
    """The open connections, and how many there have been since the broker started."""

    def __init__(self) -> None:
        self._open: dict[int, OpenConnection] = {}
        self._numbers: dict[ClientConnection, int] = {}
        self._from: Counter[str] = Counter()
        """How many come from each host."""
        self.opened_total = 0
        self.closed_total = 0

    def __repr__(self) -> str:
        return f"<Connections {len(self._open)} open of {self.opened_total}>"

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenConnection]:
        return iter(list(self._open.values()))

    def get(self, number: int) -> OpenConnection | None:
        """Return the connection of that number, if it is still open."""
        return self._open.get(number)

    def number_of(self, connection: ClientConnection) -> int | None:
        """Return the number of an open connection."""
        return self._numbers.get(connection)

    def excess(self, address: str, most: int, most_of_host: int) -> str:
        """Return the reason to turn away one more from ``address``; empty: there is room. A bound
        of 0 does not apply."""
        if 0 < most <= len(self._open):
            return "Reached the maximum number of connections"
        if 0 < most_of_host <= self._from[host_of(address)]:
            return f"Reached the maximum number of connections on address/{address}"
        return ""

    @contextmanager
    def opened(self, connection: ClientConnection, now_ms: int) -> Iterator[None]:
        """Count ``connection`` as open while the block runs."""
        self.opened_total += 1
        number = self.opened_total
        self._open[number] = OpenConnection(number, connection, now_ms)
        self._numbers[connection] = number
        host = host_of(connection.address)
        self._from[host] += 1
        try:
            yield
        finally:
            del self._open[number], self._numbers[connection]
            self._from[host] -= 1
            if not self._from[host]:
                del self._from[host]
            self.closed_total += 1


def host_of(address: str) -> str:
    """Return an address without its port."""
    return address.rpartition(":")[0]


async def close_dead(connections: Iterable[ClientConnection], asking: ClientConnection) -> bool:
    """End those of ``connections`` that do not answer; return whether there were any."""
    found = False
    for connection in connections:
        if connection is not asking and not await connection.is_alive():
            connection.kill()
            found = True
    return found
