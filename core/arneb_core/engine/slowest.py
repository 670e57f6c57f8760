"""The slowest: how far the last of a topic's durable subscriptions is, without a look at each.

The rule: none but one that was moved back since is behind what this says, so where it says that
nothing may go nothing may. Whoever is about to let something go looks at all of them.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Final, Protocol

from arneb_core.api.position import Position

FEW: Final = 4
"""So many are looked at one by one: most topics have one, and need no heap."""

GONE_MIN: Final = 64
"""So many that have gone are kept at least before all are put in order anew."""


class Marked(Protocol):
    """A subscription."""

    name: str

    @property
    def durable(self) -> bool: ...

    @property
    def mark_delete(self) -> Position: ...


class Slowest:
    """The durable ones of ``subscriptions``, by their mark-delete positions.

    Each stands in a heap by the position that it had when it was looked at last. Positions go up,
    so whoever is first by its old one and still there is behind all others.
    """

    __slots__ = ("_heap", "_numbers", "_subscriptions")

    def __init__(self, subscriptions: Mapping[str, Marked]) -> None:
        self._subscriptions = subscriptions
        self._heap: list[tuple[Position, int, Marked]] | None = None
        self._numbers = count()

    def __repr__(self) -> str:
        kept = "few" if self._heap is None else f"{len(self._heap)} in order"
        return f"<Slowest of {len(self._subscriptions)}, {kept}>"

    def comes(self, subscription: Marked) -> None:
        """``subscription`` is one of them now."""
        if self._heap is None:
            if len(self._subscriptions) > FEW:
                self._put_in_order()
        elif subscription.durable:
            heappush(self._heap, self._entry(subscription))

    def goes(self) -> None:
        """One is not among them any more. What is left of it goes when it is the first, or with
        as many others that have gone as there are: until then it is kept in memory."""
        if self._heap is not None and len(self._heap) > 2 * len(self._subscriptions) + GONE_MIN:
            self._put_in_order()

    @property
    def mark(self) -> Position | None:
        """The lowest mark-delete position; None when none of them is durable."""
        heap = self._heap
        if heap is None:
            marks = [each.mark_delete for each in self._subscriptions.values() if each.durable]
            return min(marks, default=None)
        while heap:
            before, _, first = heap[0]
            if self._subscriptions.get(first.name) is not first:
                heappop(heap)
            elif (mark := first.mark_delete) > before:
                heapreplace(heap, self._entry(first))
            else:
                return mark
        return None

    def _put_in_order(self) -> None:
        self._heap = [self._entry(each) for each in self._subscriptions.values() if each.durable]
        heapify(self._heap)

    def _entry(self, subscription: Marked) -> tuple[Position, int, Marked]:
        return subscription.mark_delete, next(self._numbers), subscription
