"""Unsealed keys: the part of an index that is in memory, sorted by time.

The rule: what came in is sorted only when somebody asks for something that may lie in it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.due_key import PLACE_MASK, DueKey
from arneb_core.api.position import BEFORE_ALL, Position

SORTED_AT_ONCE: Final = 8_192
"""What came in is sorted in parts of so many, so that no turn has to sort all of it: the rest is
merging them."""


class UnsealedKeys:
    """Keys in memory. Invariant: ``_sorted`` is sorted, and no key of ``_fresh`` is in it."""

    __slots__ = ("_after", "_fresh", "_fresh_min", "_part_ends", "_sorted", "_staying")

    def __init__(self, keys: Iterable[DueKey] = ()) -> None:
        self._sorted = sorted(keys)
        self._fresh: list[DueKey] = []
        self._part_ends = [0]
        """Where the sorted parts of those end, behind the beginning; what comes then is in no
        order."""
        self._fresh_min: int = 0
        self._after: int = BEFORE_ALL
        self._staying = 0
        """So many at the front were looked at, and stand behind ``_after``."""

    def __len__(self) -> int:
        return len(self._sorted) + len(self._fresh)

    def __repr__(self) -> str:
        return f"<UnsealedKeys {len(self)}>"

    def add(self, keys: Sequence[DueKey], low: DueKey) -> None:
        """Take in ``keys``, the least of which is ``low``."""
        self._fresh_min = min(self._fresh_min, low) if self._fresh else low
        self._fresh += keys
        start = self._part_ends[-1]
        if len(self._fresh) - start >= SORTED_AT_ONCE:
            self._fresh[start:] = sorted(self._fresh[start:])
            self._part_ends.append(len(self._fresh))

    def parts(self) -> list[list[DueKey]]:
        """All of them, in parts that are sorted, none of which is empty."""
        ends, fresh = self._part_ends, self._fresh
        parts = [self._sorted[:], sorted(fresh[ends[-1] :])]
        parts += [fresh[start:end] for start, end in pairwise(ends)]
        return [part for part in parts if part]

    def keys(self) -> list[DueKey]:
        """All of them, in order."""
        return self._all()

    def between(self, place: DueKey, end: DueKey, limit: int) -> tuple[list[DueKey], int]:
        """At most ``limit`` keys behind ``place`` and before ``end``, and the first one behind
        those that is there; -1 for none. What nobody asks for yet is not sorted."""
        keys = self._all() if self._fresh and self._fresh_min < end else self._sorted
        start = bisect_right(keys, place)
        stop = min(start + limit, bisect_left(keys, end, start))
        following: int = keys[stop] if stop < len(keys) else -1
        if self._fresh and not (0 <= following <= self._fresh_min):
            following = self._fresh_min
        return keys[start:stop], following

    def count(self, place: DueKey, end: DueKey) -> int:
        """How many keys lie behind ``place`` and before ``end``."""
        keys = self._all()
        return max(0, bisect_left(keys, end) - bisect_right(keys, place))

    def drop(self, place: DueKey, after: Position) -> BitMap64:
        """Forget the keys up to ``place`` whose entries stand up to ``after``; where those are."""
        keys = self._all()
        if after != self._after:
            self._after, self._staying = after, 0
        start, stop = self._staying, bisect_right(keys, place)
        if start >= stop:
            return BitMap64()
        looked_at = keys[start:stop]
        stay = [key for key in looked_at if key & PLACE_MASK > after]
        self._staying += len(stay)
        if len(stay) == len(looked_at):
            return BitMap64()
        keys[start:stop] = stay
        return BitMap64([key & PLACE_MASK for key in looked_at if key & PLACE_MASK <= after])

    def drop_through(self, floor: Position) -> None:
        """Forget the keys whose entries stand up to ``floor``."""
        self._sorted = [key for key in self._all() if key & PLACE_MASK > floor]
        self._staying = 0

    def _all(self) -> list[DueKey]:
        if self._fresh:
            self._sorted += self._fresh
            self._sorted.sort()  # sorted runs, mostly: cheap
            self._fresh = []
            self._part_ends = [0]
            self._staying = 0
        return self._sorted
