"""Freshness: for how long what took long to find out is told again.

The rule: what is asked for each second by many who look takes a small part of the broker's time,
however much there is; and nobody is told for longer than that needs what is not so any more. (As
RabbitMQ's management page, which gives a list again for five times as long as it took.)
"""

from collections.abc import Awaitable, Callable
from typing import Final

Pause = Callable[[], Awaitable[None]]
"""Lets others have their turns."""

SHORT_S: Final = 0.002
"""What takes no longer is found out each time."""

REST: Final = 50
"""What took a second to find out is told for fifty, a fiftieth of the time."""

SPARING_REST: Final = 200
"""A two-hundredth of the time, as long as that is not too old."""

SPARING_S: Final = 5.0
"""Too old to be told only to spare more than :data:`REST` does: who has made something happen looks
whether it has."""


def fresh_for_s(took_s: float, sparing_s: float = SPARING_S) -> float:
    """For how long it is told again, in seconds; no longer than ``sparing_s`` only to spare."""
    if took_s <= SHORT_S:
        return 0.0
    return max(REST * took_s, min(SPARING_REST * took_s, sparing_s))


class Work:
    """How long something takes that is done in turns, without the turns of others: on a busy broker
    nothing is told for longer than on one at rest."""

    def __init__(self, pause: Pause, clock: Callable[[], float]) -> None:
        self._pause = pause
        self._clock = clock
        self._before_s = 0.0
        self._began = clock()

    def __repr__(self) -> str:
        return f"<Work of {self.took_s:.4f} s>"

    @property
    def took_s(self) -> float:
        """Until now."""
        return self._before_s + self._clock() - self._began

    async def pause(self) -> None:
        """Let others have their turns, which are not counted."""
        self._before_s = self.took_s
        self._began = self._clock()
        await self._pause()
        self._began = self._clock()
