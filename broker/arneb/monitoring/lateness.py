"""Lateness: how late the event loop wakes a sleeping task.

The rule: it is measured a few times a second, at no measurable cost. How long each turn took, and
whose it was, the :mod:`.turn_watchdog` measures, at a cost.
"""

from time import monotonic_ns
from typing import Final, NoReturn

import trio

from arneb_core.api.statistics import Histogram
from arneb_core.engine.measurements import NS_PER_S, Distribution

SAMPLE_INTERVAL_S: Final = 0.25

BOUNDS_NS: Final = tuple(
    int(each * 1_000_000) for each in (0.5, 1, 2, 5, 10, 20, 50, 100, 250, 500, 1000, 5000)
)


class Lateness:
    """The distribution of how late a task was woken."""

    def __init__(self) -> None:
        self._distribution = Distribution(BOUNDS_NS)

    def __repr__(self) -> str:
        return f"<Lateness {self._distribution!r}>"

    @property
    def statistics(self) -> Histogram:
        """The distribution in seconds."""
        return self._distribution.frozen(NS_PER_S)

    async def watch(self) -> NoReturn:
        """Measure for ever."""
        while True:
            due_ns = monotonic_ns() + int(SAMPLE_INTERVAL_S * NS_PER_S)
            await trio.sleep(SAMPLE_INTERVAL_S)
            self._distribution.add(max(0, monotonic_ns() - due_ns))
