"""The lease of an engine that shares its log with no other: it always holds."""

from collections.abc import Callable
from typing import Final

import trio


class WithoutEnd:
    """The lease of a broker that shares nothing."""

    __slots__ = ()
    holds: Final = True

    def __repr__(self) -> str:
        return "<WithoutEnd>"

    async def held(self) -> bool:
        """Return True."""
        await trio.lowlevel.checkpoint()
        return True

    def listen(self, changed: Callable[[], None]) -> None:
        """Do nothing: the lease never changes."""

    def leave(self, changed: Callable[[], None]) -> None:
        """Do nothing: no listener is kept."""


WITHOUT_END: Final = WithoutEnd()
