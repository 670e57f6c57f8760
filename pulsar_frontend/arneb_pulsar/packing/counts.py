"""Counts: what one producer sent, what one consumer was sent, and how fast, for statistics.

The rule: counting costs additions and no call. Times are the event loop's; rates are those of the
last whole interval, as in Pulsar.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Final

NEVER: Final = -inf
"""The time of what has not happened yet."""


class Meter:
    """How much counters grow per second."""

    __slots__ = ("_totals", "rates")

    def __init__(self, counters: int) -> None:
        self._totals: Sequence[int] = (0,) * counters
        self.rates: Sequence[float] = (0.0,) * counters

    def __repr__(self) -> str:
        return f"<Meter {', '.join(f'{each:.1f}/s' for each in self.rates)}>"

    def tick(self, totals: Sequence[int], elapsed_s: float) -> None:
        """Measure an interval that has passed, with the counters at its end."""
        grown = zip(totals, self._totals, strict=True)
        self.rates = tuple(max(0, now - before) / elapsed_s for now, before in grown)
        self._totals = totals


@dataclass(slots=True)
class ProducerCounts:
    """What one producer sent."""

    messages: int = 0
    bytes: int = 0
    chunks: int = 0
    meter: Meter = field(default_factory=partial(Meter, 3))
    """Meters these, in this order."""

    def __repr__(self) -> str:
        return f"<ProducerCounts {self.messages} messages, {self.bytes} bytes, {self.meter!r}>"


@dataclass(slots=True)
class ConsumerCounts:
    """What one consumer was sent, and when it last acted."""

    bytes: int = 0
    entries: int = 0
    acks: int = 0
    """Acknowledgements: one for each entry, or one for everything up to a position."""
    redelivered: int = 0
    """Messages that it asked for again."""
    flowed_at: float = NEVER
    delivered_at: float = NEVER
    acked_at: float = NEVER
    meter: Meter = field(default_factory=partial(Meter, 4))
    """Meters messages, bytes, acknowledgements and messages asked for again, in this order."""

    def __repr__(self) -> str:
        return f"<ConsumerCounts {self.bytes} bytes, {self.acks} acks, {self.meter!r}>"

    def take_over(self, other: "ConsumerCounts") -> None:
        """Add the counts of another consumer."""
        self.bytes += other.bytes
        self.entries += other.entries
        self.redelivered += other.redelivered
        self.acks += other.acks
        self.flowed_at = max(self.flowed_at, other.flowed_at)
        self.delivered_at = max(self.delivered_at, other.delivered_at)
        self.acked_at = max(self.acked_at, other.acked_at)
