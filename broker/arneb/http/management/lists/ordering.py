"""Ordering: finds the first of very many items by some figure, in turns.

The rule: each item's figure is read once, and only indexes are sorted, piece by piece; of each
piece only those are kept that could be among the first.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import trio

from arneb.http.management.figures.freshness import Pause, Work, fresh_for_s

FIGURES_PER_TURN: Final = 1000
"""Figures read, or names compared, in one to three milliseconds."""
DOCUMENTS_PER_TURN: Final = 50
"""Documents made in the same time."""
MERGED_PER_TURN: Final = 20_000
"""Sorted items merged in the same time."""

ORDERS_MAX: Final = 16
"""Orders kept at the same time."""

Item = TypeVar("Item")
Figure = Callable[[Any], Any]
"""Returns an item's sort key."""


SPARE: Final = 200
"""Items that a kept order has beyond those shown: some may go before it is computed again."""


@dataclass(frozen=True, slots=True)
class _Order:
    """The first of very many ``items``, in order."""

    first: Sequence[Any]
    items: Sequence[Any]
    stamp: Hashable
    until_s: float


class Orders:
    """Orders that were slow to compute, kept for a multiple of that time: a page is requested again
    and again, and the choice of its items may be older than their figures.

    Items that have gone meanwhile are left out and new ones are sorted in: of very many, some come
    and go all the time, and that must not recompute the whole order."""

    def __init__(self, clock: Callable[[], float] = trio.current_time) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, _Order] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Orders, {len(self._kept)} kept>"

    async def kept(
        self,
        key: Hashable,
        stamp: Hashable,
        items: Sequence[Item],
        end: int,
        find: Callable[[Sequence[Item], Pause], Awaitable[list[Item]]],
        pause: Pause,
    ) -> Sequence[Item]:
        """Return the first ``end`` of ``items``, perhaps more: what ``find`` returns, or has
        recently returned for the same key. ``stamp`` changes when items come or go."""
        began = self._clock()
        kept = self._kept.get(key)
        if kept is not None and began < kept.until_s:
            if kept.stamp == stamp:
                # The choice of items may be a little old; their order is not.
                is_short = len(kept.first) <= FIGURES_PER_TURN
                return await find(kept.first, pause) if is_short else kept.first
            few = await _possible(kept, items, pause)
            first = _sure(kept, await find(few, pause)) if len(few) <= FIGURES_PER_TURN else []
            if len(first) >= min(end, len(items)):
                self._kept[key] = _Order(first, items, stamp, kept.until_s)
                return first
        work = Work(pause, self._clock)
        found = await find(items, work.pause)
        self._kept.pop(key, None)
        if fresh_s := fresh_for_s(work.took_s):
            self._kept[key] = _Order(found, items, stamp, self._clock() + fresh_s)
            if len(self._kept) > ORDERS_MAX:
                self._kept.popitem(last=False)
        return found


async def _possible(kept: _Order, items: Sequence[Item], pause: Pause) -> list[Item]:
    """Return the ``items`` that may be among the first: those that were, and new ones."""
    known: set[Any] = set()
    for begin in range(0, len(kept.items), MERGED_PER_TURN):
        known.update(kept.items[begin : begin + MERGED_PER_TURN])
        await pause()
    known.difference_update(kept.first)
    found: list[Item] = []
    for begin in range(0, len(items), MERGED_PER_TURN):
        found += [each for each in items[begin : begin + MERGED_PER_TURN] if each not in known]
        await pause()
    return found


def _sure(kept: _Order, first: list[Item]) -> list[Item]:
    """Return those of ``first`` that are certainly the first: after the last of the former ones,
    items may belong that were never looked at."""
    if len(kept.first) == len(kept.items):
        return first
    were = set(kept.first)
    while first and first[-1] not in were:
        first.pop()
    return first


async def in_order(
    items: Sequence[Item],
    figure: Callable[[Item], Any],
    pause: Pause,
    *,
    end: int | None = None,
    reverse: bool = False,
    at_once: int = FIGURES_PER_TURN,
) -> list[Item]:
    """Return the first ``end`` of ``items`` by ``figure``, equal ones in their present order; with
    ``reverse``, all in reverse. One turn reads ``at_once`` figures."""
    if reverse:
        items = items[::-1]
    end = len(items) if end is None else end
    figures: list[Any] = []
    for begin in range(0, len(items), at_once):
        figures += map(figure, items[begin : begin + at_once])
        await pause()
    figures = await _comparable(figures, pause)
    pieces: list[list[int]] = []
    for begin in range(0, len(items), FIGURES_PER_TURN):
        piece = range(begin, min(begin + FIGURES_PER_TURN, len(items)))
        pieces.append(sorted(piece, key=figures.__getitem__, reverse=reverse)[:end])
        if len(pieces) % 4 == 0:
            await pause()
    while len(pieces) > 1:
        pieces = await _merged_by_two(pieces, figures.__getitem__, pause, end, reverse=reverse)
    return [items[index] for piece in pieces for index in piece]


async def _merged_by_two(
    pieces: list[list[int]], key: Callable[[int], Any], pause: Pause, end: int, *, reverse: bool
) -> list[list[int]]:
    """Merge pieces in pairs. Python's sort detects sorted runs."""
    merged: list[list[int]] = []
    handled = 0
    for left in range(0, len(pieces), 2):
        both = [index for piece in pieces[left : left + 2] for index in piece]
        both.sort(key=key, reverse=reverse)
        del both[end:]
        merged.append(both)
        handled += len(both)
        if handled >= MERGED_PER_TURN:
            handled = 0
            await pause()
    return merged


async def _comparable(figures: list[Any], pause: Pause) -> list[Any]:
    """Return the figures themselves if they can be compared, else keys for them."""
    kinds = set(map(type, figures))
    if kinds <= {int, float} or (len(kinds) == 1 and kinds <= {str, bool, tuple}):
        return figures
    compared: list[Any] = []
    for begin in range(0, len(figures), FIGURES_PER_TURN):
        compared += map(comparable, figures[begin : begin + FIGURES_PER_TURN])
        await pause()
    return compared


def comparable(value: Any) -> tuple[int, Any]:
    """Return a sort key in Erlang's order: numbers come before everything else, and a missing value
    counts as 0."""
    if value is None:
        return (0, 0)
    if isinstance(value, bool):
        return (1, str(value).lower())
    if isinstance(value, int | float):
        return (0, value)
    return (2, value if isinstance(value, str) else str(value))
