"""Leaving: entries that must be read before they can depart, in the order of their departure.

The rule: entries that depart in log order form one set, which is read a range at a time; an entry
that departs after a later one begins a new set, as long as there are few sets. Beyond that, entries
leave in log order: nobody depends on an order that jumps back so often.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.entries.position import Position
from arneb_core.subscription.sources.replay import ReplaySet

SETS_MAX: Final = 256
"""Sets of one reason; each takes about half a kilobyte."""


class Leaving:
    """The entries of one subscription that depart for one reason.

    Invariant: no entry is in two of ``_sets``, ``_positions`` has all of them, and ``_last`` is the
    one added last.
    """

    def __init__(self, new_set: Callable[[], ReplaySet]) -> None:
        self._new_set = new_set
        self._sets: deque[ReplaySet] = deque([new_set()])
        self._positions = BitMap64()
        self._last = 0

    def __repr__(self) -> str:
        return f"<Leaving {len(self)} entries in {len(self._sets)} sets>"

    def __len__(self) -> int:
        return sum(map(len, self._sets))

    def __iter__(self) -> Iterator[Position]:
        return (Position(each) for one in self._sets for each in one.positions)

    def add(self, positions: Sequence[Position]) -> None:
        """Have ``positions`` leave after those already here."""
        fresh, coming = positions, BitMap64(positions)
        if not self._positions.isdisjoint(coming):
            fresh = [each for each in positions if each not in self._positions]
        self._positions |= coming
        start = 0
        for index, (earlier, later) in enumerate(pairwise([self._last, *fresh])):
            if later < earlier and len(self._sets) < SETS_MAX:
                self._sets[-1].add(fresh[start:index])
                self._sets.append(self._new_set())
                start = index
        self._sets[-1].add(fresh[start:])
        self._last = fresh[-1] if fresh else self._last

    def peek(self) -> tuple[list[Position], list[bytes]] | None:
        """Return the next entries at hand; None while they are being read, when they could not be,
        or when there are none."""
        while True:
            at_hand = self._sets[0].peek()
            if at_hand is not None or self._sets[0] or len(self._sets) == 1:
                return at_hand
            self._sets.popleft()

    def take(self, positions: list[Position]) -> None:
        """Forget ``positions``, given by :meth:`peek`, which have left."""
        self._sets[0].take(positions)
        self._positions.difference_update(BitMap64(positions))

    def retry(self) -> None:
        """Try again to read what could not be read."""
        for each in self._sets:
            each.fetch.retry()
