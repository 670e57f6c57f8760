"""The slowest subscription: the last mark-delete position of all durable ones, without asking each.

The rule: no subscription is behind this bound except one that was moved back since. If the bound
lets nothing be trimmed, nothing may be; before anything is trimmed, all subscriptions are asked.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import Final, Protocol

from arneb_core.api.entries.position import Position

ASKED_ALL_MAX: Final = 4
"""Up to this many subscriptions are asked one by one: most topics have one and need no heap."""

GONE_MIN: Final = 64
"""Removed subscriptions that may stay in the heap, at least, before it is rebuilt."""


class Marked(Protocol):
    """A subscription."""

    name: str

    @property
    def durable(self) -> bool: ...

    @property
    def mark_delete(self) -> Position: ...


class Slowest:
    """The durable ones of ``subscriptions``, by their mark-delete positions.

    Each is in a heap by the position it had when it was last looked at. Positions only rise, so one
    that is first by its old position and has not moved is behind all others.
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
        """Add ``subscription``."""
        if self._heap is None:
            if len(self._subscriptions) > ASKED_ALL_MAX:
                self._put_in_order()
        elif subscription.durable:
            heappush(self._heap, self._entry(subscription))

    def goes(self) -> None:
        """Note that a subscription was removed. Its heap entry is dropped when it comes first, or
        with a rebuild once removed ones are the majority: until then it stays in memory."""
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
