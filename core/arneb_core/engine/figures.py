"""Figures: what the engine says of itself.

The rule: counted by the commit and by the read, never by the entry; and what takes a call is done
for some commits only.
"""

from bisect import bisect_left
from time import monotonic_ns
from typing import Final

from arneb_core.api.statistics import Histogram

NS_PER_S: Final = 1_000_000_000

LATENCY_BOUNDS_NS: Final = tuple(
    int(each * 1_000_000) for each in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 1000, 5000)
)
"""A flush takes 0.05 to 0.2 ms on a fast disk and 10 on a slow one."""

SIZE_BOUNDS: Final = (0, 1, 2, 5, 10, 50, 100, 500, 1000, 4000)
"""A commit begins no more than some 4,000."""


MEASURED: Final = 8
"""One commit of so many is measured: a lone message's commit would be dearer by a hundredth."""


class Distribution:
    """How often something was how large."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0

    def __repr__(self) -> str:
        return f"<Distribution of {sum(self._counts)}>"

    def add(self, value: int) -> None:
        """One more."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def frozen(self, unit: int = 1) -> Histogram:
        """As it is now; ``unit``: how much of its values is 1."""
        bounds = tuple(each / unit for each in self._bounds)
        return Histogram(bounds, tuple(self._counts), self._sum / unit)


class CommitFigures:
    """How long commits took, and how large they were."""

    __slots__ = ("entries", "latencies")

    def __init__(self) -> None:
        self.latencies = Distribution(LATENCY_BOUNDS_NS)
        self.entries = Distribution(SIZE_BOUNDS)

    def __repr__(self) -> str:
        return f"<CommitFigures {self.latencies!r}>"

    def stored(self, entries: int, begun_ns: int) -> None:
        """A commit that was begun then is on disk."""
        self.latencies.add(monotonic_ns() - begun_ns)
        self.entries.add(entries)
