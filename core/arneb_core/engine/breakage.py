"""Breakage: what ends the commit path, and with it the engine.

The rule: anywhere on the way into a commit or out of it an error of ours may leave memory other
than the disk, and whatever were confirmed or delivered after that might be taken back, or never
come. So nothing more is committed, nobody is told that anything is durable, and the engine ends. A
start reads what is on disk, which is whole. The one exception is where nothing has changed yet,
while the appends of a commit are placed: that costs those who are in it their commit.

Where leadership is lost memory is as the log is, and everybody is told; the engine ends all the
same, for somebody else goes on from here.
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
        """Also where leadership is lost."""

    def __repr__(self) -> str:
        return f"<Breakage {self.error!r}>"

    def happened(self, error: Exception) -> None:
        """It has. What is in the commits under way is told nothing: nobody knows what became of
        them."""
        logger.critical("error in the commit path, stopping the broker", exc_info=error)
        self.error = error
        self._happened.set()
        self._ended.set()

    def fenced(self, error: LeadershipLost) -> None:
        """Leadership was lost, and whoever was in a commit under way has been told."""
        logger.critical("leadership lost, stopping the engine: %s", error)
        self.error = error
        self._ended.set()

    @property
    def refusal(self) -> CommitFailed:
        """What those are told whose changes are not durable, nor will be."""
        if isinstance(self.error, LeadershipLost):
            return self.error
        return StoreFailed("the broker ends after an error in the commit path")

    async def wait(self) -> None:
        """Wait until it has happened, which leadership that is lost is not: nobody waits for ever
        then."""
        await self._happened.wait()

    async def end(self) -> NoReturn:
        """Raise :class:`EngineBroken` or :class:`EngineFenced` when it has happened, so that
        whoever runs this ends."""
        await self._ended.wait()
        if isinstance(self.error, LeadershipLost):
            raise EngineFenced(f"another node leads: {self.error}") from self.error
        raise EngineBroken(
            "an error in the commit path may have left memory other than the disk; the broker "
            "ends, and the next start reads what is on disk"
        ) from self.error
