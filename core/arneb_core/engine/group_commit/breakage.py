"""Breakage: an error that ends the commit path, and with it the engine.

The rule: an error of ours while a commit is made or reported may leave memory different from the
disk, and whatever is confirmed or delivered after that might be taken back or never arrive. So
nothing more is committed, no caller is told that anything is durable, and the engine ends. The next
start reads the disk, which is whole. The one exception is an error while the appends of a commit
are placed, before anything has changed: only the requests in that commit fail.

When leadership is lost, memory matches the log and every caller is called back. The engine ends all
the same, for another node takes over.
"""

import logging
from typing import NoReturn

import trio

from arneb_core.api.errors import (
    CommitFailed,
    EngineBroken,
    EngineFenced,
    LeadershipLost,
    StoreFailed,
)

logger = logging.getLogger(__name__)


class Breakage:
    """Whether the commit path of one engine has ended."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self._happened = trio.Event()
        self._ended = trio.Event()
        """Set when leadership is lost, too."""

    def __repr__(self) -> str:
        return f"<Breakage {self.error!r}>"

    def happened(self, error: Exception) -> None:
        """End the commit path. Requests in commits under way are not called back: their outcome is
        unknown."""
        logger.critical("error in the commit path, stopping the broker", exc_info=error)
        self.error = error
        self._happened.set()
        self._ended.set()

    def fenced(self, error: LeadershipLost) -> None:
        """End the commit path because leadership is lost. Requests in commits under way fail."""
        logger.critical("leadership lost, stopping the engine: %s", error)
        self.error = error
        self._ended.set()

    @property
    def refusal(self) -> CommitFailed:
        """The error for requests that are not durable and never will be."""
        if isinstance(self.error, LeadershipLost):
            return self.error
        return StoreFailed("the broker ends after an error in the commit path")

    async def wait(self) -> None:
        """Wait for an error in the commit path. Lost leadership is not one: then every request is
        called back, and nobody waits for ever."""
        await self._happened.wait()

    async def end(self) -> NoReturn:
        """Wait for the end of the commit path, then raise :class:`EngineBroken` or
        :class:`EngineFenced`, which ends whoever runs this."""
        await self._ended.wait()
        if isinstance(self.error, LeadershipLost):
            raise EngineFenced(f"another node leads: {self.error}") from self.error
        raise EngineBroken(
            "an error in the commit path may have left memory other than the disk; the broker "
            "ends, and the next start reads what is on disk"
        ) from self.error
