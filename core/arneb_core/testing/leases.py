"""Leases that a test gives and takes away."""

from collections.abc import Callable

import trio


class GivenLease:
    """A lease that the test sets (:class:`arneb_core.api.nodes.lease.Lease`)."""

    def __init__(self, *, holds: bool = True) -> None:
        self.holds = holds
        self.is_over = False
        self._changed = trio.Event()
        self._listeners: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<GivenLease {'held' if self.holds else 'not held'}>"

    def say(self, *, holds: bool, over: bool = False) -> None:
        """Set whether it holds from now on; ``over``: it never will again."""
        self.holds, self.is_over = holds, over
        self._changed.set()
        self._changed = trio.Event()
        for each in list(self._listeners):
            each()

    async def held(self) -> bool:
        """See the interface."""
        await trio.lowlevel.checkpoint()
        while not (self.holds or self.is_over):
            await self._changed.wait()
        return self.holds

    def listen(self, changed: Callable[[], None]) -> None:
        """See the interface."""
        self._listeners.append(changed)

    def leave(self, changed: Callable[[], None]) -> None:
        """See the interface."""
        self._listeners.remove(changed)
