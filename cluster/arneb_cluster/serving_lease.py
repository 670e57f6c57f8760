"""The serving lease: what a leader's engine and its frontends look at before they tell anything.

The rule: whether it holds is asked of the machine each time, by the clock; that it has ended is
noticed by nobody at once, so those who want to know are told within a tick. One leadership has one,
and when that is over it never holds again.
"""

from collections.abc import Callable

import trio

from arneb_core.api.callbacks import call


class ServingLease:
    """The lease of one leadership. Fulfils :class:`~arneb_core.api.lease.Lease`."""

    def __init__(self, serves: Callable[[], bool]) -> None:
        """``serves``: this node may deliver and answer at this instant."""
        self._serves = serves
        self._is_over = False
        self._held = False
        self._listeners: dict[Callable[[], None], None] = {}
        self._changed = trio.Event()

    def __repr__(self) -> str:
        return f"<ServingLease {'over' if self._is_over else 'held' if self.holds else 'not held'}>"

    @property
    def holds(self) -> bool:
        """See :class:`~arneb_core.api.lease.Lease`."""
        return not self._is_over and self._serves()

    async def held(self) -> bool:
        """See :class:`~arneb_core.api.lease.Lease`."""
        await trio.lowlevel.checkpoint()
        while not self._is_over and not self.look():
            await self._changed.wait()
        return self.holds

    def listen(self, changed: Callable[[], None]) -> None:
        """See :class:`~arneb_core.api.lease.Lease`."""
        self._listeners[changed] = None

    def leave(self, changed: Callable[[], None]) -> None:
        """See :class:`~arneb_core.api.lease.Lease`."""
        self._listeners.pop(changed, None)

    def look(self) -> bool:
        """Whether it holds. Who finds first that this has changed tells all who want to know: it
        may be back before anybody else has looked."""
        if (holds := self.holds) != self._held:
            self._held = holds
            self._tell()
        return holds

    def end(self) -> None:
        """Another node leads, or might: it never holds again. Idempotent."""
        if not self._is_over:
            self._is_over, self._held = True, False
            self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
        for each in list(self._listeners):
            call(each)
