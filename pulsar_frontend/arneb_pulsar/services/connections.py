"""Connections, as registries and services know them: told events, asked whether they live.

The rule: whatever holds connections here holds them by this protocol; the class behind it is
:class:`arneb_pulsar.server.connection.Connection`.
"""

from collections.abc import Iterable
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


@dataclass(slots=True)
class ConnectionCounts:
    """How many connections there were since the broker started."""

    opened_total: int = 0
    closed_total: int = 0

    def __repr__(self) -> str:
        return f"<ConnectionCounts {self.closed_total} of {self.opened_total} closed>"


async def close_dead(connections: Iterable[ClientConnection], asking: ClientConnection) -> bool:
    """End those of ``connections`` that show no sign of life; were there any?"""
    found = False
    for connection in connections:
        if connection is not asking and not await connection.is_alive():
            connection.kill()
            found = True
    return found
