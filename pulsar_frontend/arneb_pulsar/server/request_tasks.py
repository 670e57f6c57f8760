"""Request tasks: the requests of one connection that wait for the core, each in a task of its own
or, if it waits for one commit and nothing else, without one.

The rule: how many there are, and how many bytes they were asked with, is counted; what is asked
beyond that is not read.
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
        """What the requests were asked with: for so much is held."""
        self._pending = 0
        self._one_done: trio.Event | None = None

    def __repr__(self) -> str:
        return f"<RequestTasks {self._pending} of {self.pending_bytes} bytes pending>"

    @property
    def is_full(self) -> bool:
        """No more may wait."""
        return self._pending >= REQUESTS_MAX

    def spawn(self, request: Callable[[Asked], Awaitable[None]], effect: Asked, size: int) -> None:
        """Carry ``effect`` out, which was asked for with ``size`` bytes."""
        assert self.nursery is not None, "requests come while the connection runs"
        self.begun(size)
        self.nursery.start_soon(self._finish, request, effect, size)

    def begun(self, size: int) -> None:
        """A request that was asked with ``size`` bytes waits."""
        self._pending += 1
        self.pending_bytes += size

    def ended(self, size: int) -> None:
        """It does not any more."""
        self._pending -= 1
        self.pending_bytes -= size
        if self._one_done is not None:
            self._one_done.set()
            self._one_done = None

    def start(self, task: Callable[[], Awaitable[None]]) -> None:
        """Run what no request asked for, for as long as the connection does."""
        assert self.nursery is not None, "consumers come while the connection runs"
        self.nursery.start_soon(task)

    async def one_done(self) -> None:
        """Wait for the end of some request."""
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
