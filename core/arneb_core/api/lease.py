"""The lease: until when a broker may deliver, and answer what tells how things are.

The rule: it is looked at before each delivery and each answer, never remembered. One machine alone
has it for ever. Who shares a log with others may find that another has gone on from here; then it
is never held again.
"""

from collections.abc import Callable
from typing import Protocol


class Lease(Protocol):
    """Belongs to the event loop."""

    @property
    def holds(self) -> bool:
        """At this instant."""
        ...

    async def held(self) -> bool:
        """Wait until it holds, or never will again: False. A checkpoint."""
        ...

    def listen(self, changed: Callable[[], None]) -> None:
        """Call it when the lease holds again, and soon after it has ended. It must not raise."""
        ...

    def leave(self, changed: Callable[[], None]) -> None:
        """Call it no more."""
        ...
