"""Runs a scenario of raw clients to its end, and drops any connections that it left open."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Client(Protocol):
    """What every raw client can do at the end."""

    async def abort(self) -> None:
        """Drop the connection. Idempotent."""
        ...


_opened: dict[Client, None] = {}
"""Open clients, in the order of connecting. Closed ones are removed; otherwise a run with hundreds
of kills would keep everything that its clients ever received."""


def opened(client: Client) -> None:
    """Called by each client when it has connected."""
    _opened[client] = None


def dropped(client: Client) -> None:
    """Called by each client when it has dropped its connection."""
    _opened.pop(client, None)


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """:func:`asyncio.run`, after which no connection is left open."""

    async def main() -> T:
        try:
            return await scenario
        finally:
            while _opened:
                client, _ = _opened.popitem()
                await client.abort()

    return asyncio.run(main())
