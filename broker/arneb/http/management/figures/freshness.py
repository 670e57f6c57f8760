"""Freshness: how long a result that was slow to compute is reused.

The rule: requests that many clients repeat each second take a small part of the broker's time,
however many objects there are, and no result is reused for longer than that requires. (RabbitMQ's
management plugin reuses a list for five times as long as it took.)
"""

from collections.abc import Awaitable, Callable
from typing import Final

Pause = Callable[[], Awaitable[None]]
"""Lets others have their turns."""

SHORT_S: Final = 0.002
"""A result that takes no longer is computed each time."""

REUSE_FACTOR: Final = 50
"""A result that took a second is reused for fifty: computing takes a fiftieth of the time."""

SPARING_FACTOR: Final = 200
"""Preferred, if the result does not get too old: a two-hundredth of the time."""

SPARING_S: Final = 5.0
""":data:`SPARING_FACTOR` makes no result older than this: users check whether their change took
effect."""


def fresh_for_s(took_s: float, sparing_s: float = SPARING_S) -> float:
    """Return for how many seconds a result is reused; :data:`SPARING_FACTOR` counts up to
    ``sparing_s``."""
    if took_s <= SHORT_S:
        return 0.0
    return max(REUSE_FACTOR * took_s, min(SPARING_FACTOR * took_s, sparing_s))


class Work:
    """Measures work done in turns, without the turns of others: a busy broker reuses results no
    longer than an idle one."""

    def __init__(self, pause: Pause, clock: Callable[[], float]) -> None:
        self._pause = pause
        self._clock = clock
        self._before_s = 0.0
        self._began = clock()

    def __repr__(self) -> str:
        return f"<Work of {self.took_s:.4f} s>"

    @property
    def took_s(self) -> float:
        """The time spent so far."""
        return self._before_s + self._clock() - self._began

    async def pause(self) -> None:
        """Let others run; their time is not counted."""
        self._before_s = self.took_s
        self._began = self._clock()
        await self._pause()
        self._began = self._clock()
