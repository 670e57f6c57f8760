"""The serving lease: checked by a leader's engine and frontends before they answer or deliver.

The rule: whether it holds is computed from the machine and the clock each time; nothing happens at
the instant when it ends, so listeners are notified within a tick. Each leadership has one, which
never holds again after the leadership's end.
"""

from collections.abc import Callable

import trio

from arneb_core.api.process.callbacks import call


class ServingLease:
    """The lease of one leadership. Fulfils :class:`~arneb_core.api.nodes.lease.Lease`."""

    def __init__(self, serves: Callable[[], bool]) -> None:
        """``serves``: whether this node may deliver and answer at this instant."""
        self._serves = serves
        self._is_over = False
        self._held = False
        self._listeners: dict[Callable[[], None], None] = {}
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<ServingLease {'over' if self._is_over else 'held' if self.holds else 'not held'}>"

    @property
    def holds(self) -> bool:
        """See :class:`~arneb_core.api.nodes.lease.Lease`."""
        return not self._is_over and self._serves()

    async def held(self) -> bool:
        """See :class:`~arneb_core.api.nodes.lease.Lease`."""
        await trio.lowlevel.checkpoint()
        while not self._is_over and not self.look():
            await self._changed.wait()
        return self.holds

    def listen(self, changed: Callable[[], None]) -> None:
        """See :class:`~arneb_core.api.nodes.lease.Lease`."""
        self._listeners[changed] = None

    def leave(self, changed: Callable[[], None]) -> None:
        """See :class:`~arneb_core.api.nodes.lease.Lease`."""
        self._listeners.pop(changed, None)

    def look(self) -> bool:
        """Return whether it holds. The first caller to see a change notifies all listeners, because
        it may have changed back before another looks."""
        if (holds := self.holds) != self._held:
            self._held = holds
            self._tell()
        return holds

    def end(self) -> None:
        """End it for good: another node leads, or might. Idempotent."""
        if not self._is_over:
            self._is_over, self._held = True, False
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
        for each in list(self._listeners):
            call(each)
