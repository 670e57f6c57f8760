"""Request tasks: the requests of one connection that wait for the core, each in a task of its own
or, if it waits for one commit and nothing else, without one.

The rule: their number and the bytes of their commands are counted and bounded; beyond the bound the
connection is not read.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import trio

REQUESTS_MAX: Final = 1000
"""Requests of one connection that may wait for the core at once; Pulsar bounds lookups alike."""

Asked = TypeVar("Asked")


class RequestTasks:
    """The tasks of one connection, in the nursery that it gives them when it runs."""

    def __init__(self) -> None:
        self.nursery: trio.Nursery | None = None
        self.pending_bytes = 0
        """Bytes of the requests' commands, which are held meanwhile."""
        self._pending = 0
        self._one_done: trio.Event | None = None

    def __repr__(self) -> str:
        return f"<RequestTasks {self._pending} of {self.pending_bytes} bytes pending>"

    @property
    def is_full(self) -> bool:
        """No more requests may wait."""
        return self._pending >= REQUESTS_MAX

    def spawn(self, request: Callable[[Asked], Awaitable[None]], effect: Asked, size: int) -> None:
        """Carry out ``effect``, whose command has ``size`` bytes, in a task."""
        assert self.nursery is not None, "requests come while the connection runs"
        self.begun(size)
        self.nursery.start_soon(self._finish, request, effect, size)

    def begun(self, size: int) -> None:
        """Count a request, with a command of ``size`` bytes, that waits."""
        self._pending += 1
        self.pending_bytes += size

    def ended(self, size: int) -> None:
        """Count it as no longer waiting."""
        self._pending -= 1
        self.pending_bytes -= size
        if self._one_done is not None:
            self._one_done.set()
            self._one_done = None

    def start(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run a task that no request asked for; it ends with the connection."""
        assert self.nursery is not None, "consumers come while the connection runs"
        self.nursery.start_soon(task)

    async def one_done(self) -> None:
        """Wait until some request ends."""
        if self._one_done is None:
            self._one_done = trio.Event()
        await self._one_done.wait()

    async def _finish(
        self, request: Callable[[Asked], Awaitable[None]], effect: Asked, size: int
    ) -> None:
        try:
            await request(effect)
        finally:
            self.ended(size)
