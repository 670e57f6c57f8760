"""Leaving: entries that must be read before they can go elsewhere, in the order of their departure.

The rule: what departs in the order of the log is one set, which is read a range at a time; what
departs behind something later begins a set of its own, as long as those are few. Beyond that the
order is the log's: that many turns back and forth within what is under way are no order that
anybody asks for.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.position import Position
from arneb_core.subscription.sources.replay import ReplaySet

SETS_MAX: Final = 256
"""About half a kilobyte each."""


class Leaving:
    """Those of one subscription that depart for one reason.

    Invariant: no entry is in two of ``_sets``, ``_places`` has all of them, and ``_last`` is the
    last one that was added.
    """

    def __init__(self, new_set: Callable[[], ReplaySet]) -> None:
        self._new_set = new_set
        self._sets: deque[ReplaySet] = deque([new_set()])
        self._places = BitMap64()
        self._last = 0

    def __repr__(self) -> str:
        return f"<Leaving {len(self)} entries in {len(self._sets)} sets>"

    def __len__(self) -> int:
        return sum(map(len, self._sets))

    def __iter__(self) -> Iterator[Position]:
        return (Position(each) for one in self._sets for each in one.places)

    def add(self, positions: Sequence[Position]) -> None:
        """Have ``positions`` leave behind those that are there."""
        fresh, coming = positions, BitMap64(positions)
        if not self._places.isdisjoint(coming):
            fresh = [each for each in positions if each not in self._places]
        self._places |= coming
        start = 0
        for index, (earlier, later) in enumerate(pairwise([self._last, *fresh])):
            if later < earlier and len(self._sets) < SETS_MAX:
                self._sets[-1].add(fresh[start:index])
                self._sets.append(self._new_set())
                start = index
        self._sets[-1].add(fresh[start:])
        self._last = fresh[-1] if fresh else self._last

    def peek(self) -> tuple[list[Position], list[bytes]] | None:
        """The next ones, whose entries are at hand; None while they are being read, or when they
        could not be, or when there are none."""
        while True:
            at_hand = self._sets[0].peek()
            if at_hand is not None or self._sets[0] or len(self._sets) == 1:
                return at_hand
            self._sets.popleft()

    def take(self, positions: list[Position]) -> None:
        """``positions`` of what :meth:`peek` gave have left."""
        self._sets[0].take(positions)
        self._places.difference_update(BitMap64(positions))

    def retry(self) -> None:
        """Try once more to read what could not be read."""
        for each in self._sets:
            each.fetch.retry()
