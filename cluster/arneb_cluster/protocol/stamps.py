"""Stamps: the leader's clock in records, and the skew between nodes' clocks.

The rule: stamps never go back, whoever leads; a new leader starts from the last stamp that counts
if its own clock is behind it. Followers decide nothing by their own clocks.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

SKEW_MS_MAX: Final = 100
"""A larger skew raises an alarm: times to live and delays shift by as much when another node
leads."""

SAMPLES: Final = 30
"""Records compared: half a minute of heartbeats. A delayed record looks like a clock that is ahead;
the least delayed one tells."""


@dataclass(slots=True)
class Stamps:
    """A leader's stamps."""

    last_ms: int
    """The highest stamp that counts or was issued."""

    def now(self, clock_ms: int) -> int:
        """Return the shard's time of day."""
        self.last_ms = max(self.last_ms, clock_ms)
        return self.last_ms


@dataclass(slots=True)
class SkewWatch:
    """A follower's comparison of its own clock with the leader's."""

    _apart_ms: deque[int] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def came(self, stamp_ms: int, clock_ms: int) -> None:
        """Note a record fresh from its leader."""
        self._apart_ms.append(clock_ms - stamp_ms)

    @property
    def skew_ms(self) -> int:
        """How far this clock is ahead of the leader's, including a record's transit; negative:
        behind."""
        return min(self._apart_ms, default=0)

    @property
    def is_alarming(self) -> bool:
        return abs(self.skew_ms) > SKEW_MS_MAX
