"""Runs a scenario of raw clients to its end and drops whatever connections it left open."""

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
"""In the order of their coming. One that is gone is let go of, or a run of hundreds of kills would
keep all that its clients ever received."""


def opened(client: Client) -> None:
    """Called by each client when it has connected."""
    _opened[client] = None


def dropped(client: Client) -> None:
    """Called by each client when it has dropped its connection."""
    _opened.pop(client, None)


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """:func:`asyncio.run`, with no connection left open behind it."""

    async def main() -> T:
        try:
            return await scenario
        finally:
            while _opened:
                client, _ = _opened.popitem()
                await client.abort()

    return asyncio.run(main())
