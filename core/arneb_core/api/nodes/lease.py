"""The lease: until when a broker may deliver messages and answer its clients.

The rule: it is checked before each delivery and each answer, and the result is never kept. A single
node has it for ever. A node that shares its log may find that another has taken over; then the
lease never holds again.
"""

from collections.abc import Callable
from typing import Protocol


class Lease(Protocol):
    """A right that ends. Belongs to the event loop."""

    @property
    def holds(self) -> bool:
        """Whether it holds at this instant."""
        ...

    async def held(self) -> bool:
        """Wait until it holds; False if it never will again. A checkpoint."""
        ...

    def listen(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` when the lease holds again, and soon after it ends. Must not raise."""
        ...

    def leave(self, changed: Callable[[], None]) -> None:
        """Stop calling ``changed``."""
        ...
