"""Sequences: how far each producer of one topic has got, so that nothing is stored twice.

The rule: a producer's numbers ascend, so a message not above its highest number is a duplicate. The
numbers change in the same commit as the messages, see
:mod:`arneb_pulsar.services.topics.deduplication`. How long a producer has been away is measured by
the event loop's clock, from the broker's start at the earliest: setting the time of day must not
turn duplicates into new messages.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from typing import Final

NEVER: Final = -1
"""The highest number of a producer that has sent nothing."""

PRODUCERS_MAX: Final = 10_000
"""Producers remembered for a topic; Pulsar's bound."""

REMEMBERED_S: Final = 6.0 * 60 * 60
"""How long a producer that is not connected is remembered: Pulsar's 360 minutes."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a producer has got, and when."""

    highest: int
    used_ms: int
    """The time of day; orders the producers when they are loaded."""

    def pack(self) -> bytes:
        """Return the stored form."""
        return b"%d %d" % (self.highest, self.used_ms)

    @classmethod
    def unpack(cls, data: bytes) -> "Reach":
        """Read what :meth:`pack` returned."""
        highest, used_ms = data.split()
        return cls(int(highest), int(used_ms))


@dataclass(slots=True)
class Sequences:
    """The producers of one topic by name, the one that has sent nothing for longest first."""

    reaches: dict[str, Reach] = field(default_factory=dict)
    since: float = 0.0
    """When those were loaded."""
    _used: dict[str, float] = field(default_factory=dict)
    """When each was used since then."""

    def __repr__(self) -> str:
        return f"<Sequences of {len(self.reaches)} producers, {len(self._used)} used since>"

    def highest(self, name: str) -> int:
        """Return the highest stored number of a producer."""
        reach = self.reaches.get(name)
        return NEVER if reach is None else reach.highest

    def stored(self, name: str, reach: Reach, now: float) -> None:
        """Note how far the producer has got."""
        self.reaches.pop(name, None)
        self.reaches[name] = reach
        self._used[name] = now

    def forget(self, name: str) -> None:
        """Forget a producer."""
        self.reaches.pop(name, None)
        self._used.pop(name, None)

    def outdated(self, connected: Container[str], now: float) -> Iterator[str]:
        """Yield producers to be forgotten: those away for long, and those beyond the bound."""
        excess = len(self.reaches) - PRODUCERS_MAX
        for name in self.reaches:
            if excess <= 0 and now - self._used.get(name, self.since) < REMEMBERED_S:
                return
            if name not in connected:
                excess -= 1
                yield name
