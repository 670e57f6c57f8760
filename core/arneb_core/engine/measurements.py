"""Measurements: what the engine measures of itself.

The rule: count per commit and per read, never per entry; what costs a call is measured for some
commits only.
"""

from bisect import bisect_left
from time import monotonic_ns
from typing import Final

from arneb_core.api.statistics import Histogram

NS_PER_S: Final = 1_000_000_000

LATENCY_BOUNDS_NS: Final = tuple(
    int(each * 1_000_000) for each in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 1000, 5000)
)
"""Bounds of commit latency. A flush takes 0.05 to 0.2 ms on a fast disk and 10 ms on a slow one."""

SIZE_BOUNDS: Final = (0, 1, 2, 5, 10, 50, 100, 500, 1000, 4000)
"""Bounds of entries begun in a commit: no more than some 4,000."""


MEASURED: Final = 8
"""One commit in 8 is measured: measuring all would make a lone message's commit 1 % dearer."""


class Distribution:
    """A histogram being filled."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0

    def __repr__(self) -> str:
        return f"<Distribution of {sum(self._counts)}>"

    def add(self, value: int) -> None:
        """Count ``value``."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def frozen(self, unit: int = 1) -> Histogram:
        """Return the histogram as it is now, in units of ``unit`` values."""
        bounds = tuple(each / unit for each in self._bounds)
        return Histogram(bounds, tuple(self._counts), self._sum / unit)


class CommitMeasurements:
    """How long commits took, and how large they were."""

    __slots__ = ("entries", "latencies")

    def __init__(self) -> None:
        self.latencies = Distribution(LATENCY_BOUNDS_NS)
        self.entries = Distribution(SIZE_BOUNDS)

    def __repr__(self) -> str:
        return f"<CommitMeasurements {self.latencies!r}>"

    def stored(self, entries: int, begun_ns: int) -> None:
        """Count a commit that began at ``begun_ns`` and is on disk now."""
        self.latencies.add(monotonic_ns() - begun_ns)
        self.entries.add(entries)
