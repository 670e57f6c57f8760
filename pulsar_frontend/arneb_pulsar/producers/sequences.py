"""Sequences: how far each producer of one topic has got, so that nothing is stored twice.

The rule: a producer numbers its messages upwards, so what is not above its highest number is a
duplicate. The numbers change with what is stored, in the same commit; see
:mod:`arneb_pulsar.services.deduplication`. How long a producer has been away is measured by a clock
that nobody sets, from the broker's start at the earliest: a correction of the time of day must not
make duplicates new.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final

NEVER: Final = -1
"""The highest number of a producer that has sent nothing."""

PRODUCERS_MAX: Final = 10_000
"""Producers of a topic that are remembered; Pulsar's bound."""

REMEMBERED_S: Final = 6.0 * 60 * 60
"""How long one that is not connected and sends nothing is remembered: Pulsar's 360 minutes."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a producer has got, and when."""

    highest: int
    used_ms: int
    """By the time of day: who comes first when all are found again."""

    def pack(self) -> bytes:
        """The form in which it is kept."""
        return b"%d %d" % (self.highest, self.used_ms)

    @classmethod
    def unpack(cls, data: bytes) -> "Reach":
        """What :meth:`pack` gave."""
        highest, used_ms = data.split()
        return cls(int(highest), int(used_ms))


@dataclass(slots=True)
class Sequences:
    """The producers of one topic by name, the one that has sent nothing for longest first."""

    reaches: dict[str, Reach] = field(default_factory=dict)
    since: float = 0.0
    """When those were found."""
    _used: dict[str, float] = field(default_factory=dict)
    """When each was used since."""

    def __repr__(self) -> str:
        return f"<Sequences of {len(self.reaches)} producers, {len(self._used)} used since>"

    def highest(self, name: str) -> int:
        """The highest number that is stored of a producer."""
        reach = self.reaches.get(name)
        return NEVER if reach is None else reach.highest

    def stored(self, name: str, reach: Reach, now: float) -> None:
        """The producer has got that far."""
        self.reaches.pop(name, None)
        self.reaches[name] = reach
        self._used[name] = now

    def forget(self, name: str) -> None:
        """The producer is not remembered any more."""
        self.reaches.pop(name, None)
        self._used.pop(name, None)

    def outdated(self, connected: Container[str], now: float) -> Iterator[str]:
        """Producers to be forgotten: those away for long, and those above the bound."""
        excess = len(self.reaches) - PRODUCERS_MAX
        for name in self.reaches:
            if excess <= 0 and now - self._used.get(name, self.since) < REMEMBERED_S:
                return
            if name not in connected:
                excess -= 1
                yield name
