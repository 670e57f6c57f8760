"""Connections, as registries and services know them: told events, asked whether they live.

The rule: whatever holds connections here holds them by this protocol; the class behind it is
:class:`arneb_pulsar.server.connection.Connection`.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from arneb_pulsar.authorization.callers import Caller
from arneb_pulsar.session.events import Event


class ClientConnection(Protocol):
    """One connected client."""

    @property
    def address(self) -> str:
        """Where it comes from."""
        ...

    @property
    def caller(self) -> Caller:
        """Who comes by it, as was proved."""
        ...

    @property
    def client_name(self) -> str:
        """The library that the client is made on, with its version."""
        ...

    @property
    def is_secured(self) -> bool:
        """It came by TLS."""
        ...

    @property
    def received_bytes(self) -> int:
        """What has come by it."""
        ...

    @property
    def sent_bytes(self) -> int:
        """What has been written to it."""
        ...

    @property
    def is_full(self) -> bool:
        """It leaves so much unread that nothing more should be said."""
        ...

    async def room(self) -> None:
        """Wait until not :attr:`is_full`."""
        ...

    def tell(self, event: Event) -> None:
        """Report to its session, and carry out what that asks for then."""
        ...

    async def is_alive(self) -> bool:
        """Ask the client for a sign of life and wait for it as long as the settings allow."""
        ...

    def kill(self) -> None:
        """End the connection: its client is dead."""
        ...


@dataclass(frozen=True, slots=True)
class OpenConnection:
    """A connection, with what operators know it by."""

    number: int
    """No other has or had it since the broker started."""
    connection: ClientConnection
    opened_ms: int


class Connections:
    """The connections that are open, and how many there were since the broker started."""

    def __init__(self) -> None:
        self._open: dict[int, OpenConnection] = {}
        self._numbers: dict[ClientConnection, int] = {}
        self.opened_total = 0
        self.closed_total = 0

    def __repr__(self) -> str:
        return f"<Connections {len(self._open)} open of {self.opened_total}>"

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenConnection]:
        return iter(list(self._open.values()))

    def get(self, number: int) -> OpenConnection | None:
        """The one of that number, if it is open still."""
        return self._open.get(number)

    def number_of(self, connection: ClientConnection) -> int | None:
        """Under which number one is open."""
        return self._numbers.get(connection)

    @contextmanager
    def opened(self, connection: ClientConnection, now_ms: int) -> Iterator[None]:
        """It is open for as long as the block runs."""
        self.opened_total += 1
        number = self.opened_total
        self._open[number] = OpenConnection(number, connection, now_ms)
        self._numbers[connection] = number
        try:
            yield
        finally:
            del self._open[number], self._numbers[connection]
            self.closed_total += 1


async def close_dead(connections: Iterable[ClientConnection], asking: ClientConnection) -> bool:
    """End those of ``connections`` that show no sign of life; were there any?"""
    found = False
    for connection in connections:
        if connection is not asking and not await connection.is_alive():
            connection.kill()
            found = True
    return found
