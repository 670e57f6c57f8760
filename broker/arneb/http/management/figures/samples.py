"""Samples: the counters of one object over time.

The rule: a sample equal to the previous one is not stored; it only extends the time for which that
holds. So an object that does not change takes one sample, however long it is watched.
"""

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

FINE_S: Final = 1.0
FINE_SAMPLES: Final = 120
"""A second apart, for two minutes."""
COARSE_S: Final = 5.0
COARSE_SAMPLES: Final = 120
"""Five seconds apart, for ten minutes."""

STEPS: Final = ((FINE_S, FINE_SAMPLES), (COARSE_S, COARSE_SAMPLES))
OF_A_DAY: Final = ((60.0, 60), (600.0, 48), (1800.0, 48))
"""Seconds apart, and how many: an hour, eight hours and a day. For objects of which there is only
one."""

OBJECT_BYTES: Final = 800
"""The memory of an object that has not changed yet, besides its numbers."""
TIER_BYTES: Final = 250
"""The memory of a tier besides its samples."""
SAMPLE_BYTES: Final = 180
"""The memory of a sample besides its numbers."""
NUMBER_BYTES: Final = 8
SAMPLES_KEPT: Final = 2
"""Never dropped from a tier: a rate needs two."""
Counters = Mapping[str, int]
Read = Callable[[], Counters | None]
"""Reads an object's counters; None if it is gone."""


@dataclass(slots=True)
class Sample:
    """Counters, and from when until when they had these values."""

    at_s: float
    until_s: float
    counters: "array[int]"


@dataclass(slots=True)
class _Tier:
    """Samples at least ``step_s`` apart, oldest first."""

    step_s: float
    most: int
    samples: list[Sample]
    due_s: float

    def take(self, now: float, counters: "array[int]") -> int:
        """Store a sample if one is due and differs. Return by how many the tier has grown."""
        last = self.samples[-1]
        if last.counters == counters:
            last.until_s = now
            return 0
        if now < self.due_s:
            return 0
        self.due_s = now + self.step_s
        self.samples.append(Sample(now, now, counters))
        if len(self.samples) <= self.most:
            return 1
        del self.samples[0]
        return 0


Steps = tuple[tuple[float, int], ...]
"""Seconds apart, and how many samples."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A result made from an object, and what it was made from besides the counters."""

    seen: tuple[Any, ...]
    made: Any
    bytes: int


class History:
    """The samples of one object. Until the object changes, that is a single one.

    Invariant: ``bytes`` is the size of all of it.
    """

    __slots__ = (
        "_is_settled", "_last", "_numbers", "_since_s", "_steps", "_until_s", "bytes",
        "changed_at_s", "kept", "looked_at_s", "names", "read", "rests_until_s", "tiers",
    )  # fmt: skip

    def __init__(
        self, read: Read, counters: Counters, now: float, names: tuple[str, ...], steps: Steps
    ) -> None:
        self.read = read
        self.names = names
        self.looked_at_s = now
        self.rests_until_s = 0.0
        """While nobody looks, no sample is taken before this."""
        self.changed_at_s: float | None = None
        """When its counters were last seen to have changed."""
        self.kept: Kept | None = None
        self.tiers: tuple[_Tier, ...] = ()
        self.bytes = OBJECT_BYTES + NUMBER_BYTES * len(names)
        self._steps = steps
        self._last = tuple(counters.values())
        self._numbers = array("q", self._last)
        self._since_s = self._until_s = now
        self._is_settled = True  # each tier has the last counters

    def __repr__(self) -> str:
        return f"<History of {', '.join(self.names)}, {len(self.samples)} samples>"

    @property
    def samples(self) -> list[Sample]:
        """All of them, oldest first."""
        if not self.tiers:
            return [Sample(self._since_s, self._until_s, self._numbers)]
        everything = (each for tier in self.tiers for each in tier.samples)
        return sorted(everything, key=lambda each: each.at_s)

    def take(self, now: float, counters: Counters) -> None:
        """Take a sample."""
        numbers = tuple(counters.values())
        if numbers == self._last and self._is_settled:
            self._until_s = now
            return
        if numbers != self._last:
            self._changes(now, numbers)
        more = sum([each.take(now, self._numbers) for each in self.tiers])
        self.bytes += more * self._sample_bytes
        self._until_s = now
        self._is_settled = all(each.samples[-1].counters == self._numbers for each in self.tiers)

    def _changes(self, now: float, numbers: tuple[int, ...]) -> None:
        since_s, until_s = self._since_s, self._until_s
        if not self.tiers:
            self.tiers = tuple(
                [
                    _Tier(step_s, most, [Sample(since_s, until_s, self._numbers)], since_s + step_s)
                    for step_s, most in self._steps
                ]
            )
            self.bytes += len(self.tiers) * (TIER_BYTES + self._sample_bytes)
        elif self._is_settled:
            for each in self.tiers:
                each.samples[-1].until_s = until_s
        self.keep(None)
        self.changed_at_s = self._since_s = now
        self._last, self._numbers = numbers, array("q", numbers)

    def before(self, now: float) -> "tuple[float, array[int]] | None":
        """Return the newest counters that are at least a second old, and their time."""
        if self._rests(now):
            return min(self._until_s, now - FINE_S), self._numbers
        if not self.tiers:
            return None
        for sample in reversed(self.tiers[0].samples):
            if sample.at_s <= now - FINE_S:
                return min(sample.until_s, now - FINE_S), sample.counters
        return None

    def _rests(self, now: float) -> bool:
        """Return whether the counters have been the same for the whole span of a rate."""
        since_s = self.tiers[0].samples[-1].at_s if self.tiers else self._since_s
        return self._is_settled and since_s <= now - FINE_S

    def unchanged(self, now: float, numbers: tuple[int, ...]) -> Kept | None:
        """Return what was kept, if these are still the counters and all rates are 0."""
        return self.kept if self.rests_with(now, numbers) else None

    def rests_with(self, now: float, numbers: tuple[int, ...]) -> bool:
        """Return whether these are the counters and all rates are 0."""
        return numbers == self._last and self._rests(now)

    def keep(self, kept: Kept | None) -> None:
        """Keep a result made from the counters until they change."""
        self.bytes += (0 if kept is None else kept.bytes) - (self.kept.bytes if self.kept else 0)
        self.kept = kept

    def drop_oldest(self) -> None:
        """Drop the older half of the samples, and the kept result."""
        self.keep(None)
        for tier in self.tiers:
            gone = (len(tier.samples) - SAMPLES_KEPT + 1) // 2
            if gone > 0:
                del tier.samples[:gone]
                self.bytes -= gone * self._sample_bytes

    @property
    def _sample_bytes(self) -> int:
        return SAMPLE_BYTES + NUMBER_BYTES * len(self.names)
