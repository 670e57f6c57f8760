"""Consistent hashing: every receiver has a hundred points on a ring of slots.

The rule: a slot belongs to the first point at or after it, so a new receiver takes a little from
every other. Points follow from names; receivers of the same name are numbered, so that their points
differ; a point that several have belongs to the one there longest. Source: Pulsar
``ConsistentHashingStickyKeyConsumerSelector`` and ``ConsumerNameIndexTracker``.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from arneb_core.api.encoding.hashing import key_hash
from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.selector import SLOTS

RING_POINTS: Final = 100
"""Points of each receiver (``subscriptionKeySharedConsistentHashingReplicaPoints``)."""

RING_SLOTS: Final = SLOTS - 1
"""Slot 0 is not on the ring."""


class ConsistentHashingSelector:
    """The ring."""

    def __init__(self) -> None:
        self._points: list[int] = []
        self._at: dict[int, list[Receiver]] = {}
        """The receivers that have a point, in the order they came."""
        self._numbers: dict[Receiver, int] = {}

    def __repr__(self) -> str:
        return f"<ConsistentHashingSelector {len(self._points)} points>"

    def add(self, receiver: Receiver) -> None:
        """Put its points on the ring."""
        taken = {n for each, n in self._numbers.items() if each.name == receiver.name}
        number = next(n for n in range(len(taken) + 1) if n not in taken)
        self._numbers[receiver] = number
        for point in _points(receiver.name, number):
            if point not in self._at:
                insort(self._points, point)
            self._at.setdefault(point, []).append(receiver)

    def remove(self, receiver: Receiver) -> None:
        """Take its points off the ring."""
        for point in _points(receiver.name, self._numbers.pop(receiver)):
            here = self._at[point]
            here.remove(receiver)
            if not here:
                del self._at[point]
                self._points.remove(point)

    def select(self, slot: int) -> Receiver | None:
        """Return the receiver with the first point at or after the slot, going round."""
        if not self._points:
            return None
        index = bisect_left(self._points, slot) % len(self._points)
        return self._at[self._points[index]][0]

    def slots(self, hashes: Sequence[int]) -> list[int]:
        """Slots on the ring; not those of :func:`.slots_of`, as in Pulsar."""
        return [value % RING_SLOTS + 1 for value in hashes]

    def ranges(self) -> Iterable[tuple[int, int, Receiver]]:
        """Ranges from point to point; adjoining ones of one receiver are one. Slots after the last
        point belong to the first one's receiver."""
        if not self._points:
            return
        eldest = mine = self._at[self._points[0]][0]
        first = 1
        for before, point in pairwise((0, *self._points)):
            if (receiver := self._at[point][0]) is not mine:
                yield first, before, mine
                first, mine = before + 1, receiver
        if (last := self._points[-1]) == RING_SLOTS or mine is eldest:
            yield first, RING_SLOTS, mine
        else:
            yield first, last, mine
            yield last + 1, RING_SLOTS, eldest


def _points(name: str, number: int) -> list[int]:
    keys = (f"{name}\0{number}\0{point}".encode() for point in range(RING_POINTS))
    return [key_hash(key) % RING_SLOTS + 1 for key in keys]
