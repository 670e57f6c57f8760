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


_opened: list[Client] = []


def opened(client: Client) -> None:
    """Called by each client when it has connected."""
    _opened.append(client)


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """:func:`asyncio.run`, with no connection left open behind it."""

    async def main() -> T:
        try:
            return await scenario
        finally:
            while _opened:
                await _opened.pop().abort()

    return asyncio.run(main())
