"""Stamps: the leader's clock in records, and how far the clocks of nodes are apart.

The rule: stamps never go back, whoever leads; a new leader begins at the last stamp that counts if
its own clock is behind that. Followers decide nothing by a clock of theirs.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

SKEW_MS_MAX: Final = 100
"""More is an alarm: times to live and delays move by as much when another node leads."""

SAMPLES: Final = 30
"""Records that are compared: half a minute of heartbeats. One that was held up on its way looks
like a clock that is ahead; the least held up of them tells."""


@dataclass(slots=True)
class Stamps:
    """A leader's."""

    last_ms: int
    """The highest stamp that counts, or was given out."""

    def now(self, clock_ms: int) -> int:
        """The time of day, as this shard has it."""
        self.last_ms = max(self.last_ms, clock_ms)
        return self.last_ms


@dataclass(slots=True)
class SkewWatch:
    """A follower's: its own clock beside the leader's."""

    _apart_ms: deque[int] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def came(self, stamp_ms: int, clock_ms: int) -> None:
        """A record, fresh from its leader."""
        self._apart_ms.append(clock_ms - stamp_ms)

    @property
    def skew_ms(self) -> int:
        """How far this clock is ahead of the leader's, the way of a record not taken off; negative:
        behind."""
        return min(self._apart_ms, default=0)

    @property
    def is_alarming(self) -> bool:
        return abs(self.skew_ms) > SKEW_MS_MAX
