"""The tail cache: a topic's most recent entries in memory, shared by its consumers.

The rule: it holds only committed entries, as one gap-free stretch of runs that ends
at the log's last entry, so that a consumer that keeps up never touches the store.
The bytes of all caches of a process are bounded together by a :class:`CacheBudget`.
"""

from bisect import bisect_right
from collections import deque
from typing import Final

from arneb_core.position import Position

CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
"""All tail caches together. A consumer more than this behind reads the store, which for a
backlog is faster anyway: one read there brings a thousand entries."""


class CacheBudget:
    """Keeps the sum of all caches under a bound by dropping the oldest runs of all."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self._order: deque[tuple[TailCache, Position, int]] = deque()

    def __repr__(self) -> str:
        return f"<CacheBudget {self.bytes}/{self.bytes_max} bytes>"

    def added(self, cache: "TailCache", first: Position, size: int) -> None:
        """``cache`` took a run; make room for it."""
        self.bytes += size
        self._order.append((cache, first, size))
        while self.bytes > self.bytes_max and self._order:
            oldest, place, _ = self._order.popleft()
            oldest.drop_before(place + 1)
        # Runs that their caches dropped by themselves leave only their order entry behind;
        # those must not pile up while the bytes stay low.
        while self._order and not self._order[0][0].holds_run(self._order[0][1]):
            self._order.popleft()

    def removed(self, size: int) -> None:
        """A cache dropped a run by itself."""
        self.bytes -= size


class TailCache:
    """One topic's recent runs, oldest first."""

    def __init__(self, budget: CacheBudget) -> None:
        self._budget = budget
        self._firsts: list[int] = []
        self._runs: list[tuple[list[bytes], int]] = []

    def __repr__(self) -> str:
        return f"<TailCache {len(self._runs)} runs>"

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def first(self) -> Position | None:
        """The oldest entry that is cached."""
        return Position(self._firsts[0]) if self._firsts else None

    def append(self, first: Position, entries: list[bytes], size: int) -> None:
        """Keep a committed run; ``size`` is its bytes."""
        self._firsts.append(first)
        self._runs.append((entries, size))
        self._budget.added(self, first, size)

    def read(self, place: Position, limit: int) -> tuple[Position, list[bytes]] | None:
        """Up to ``limit`` entries from ``place`` on, out of one run; None when not cached."""
        index = bisect_right(self._firsts, place) - 1
        if index < 0:
            return None
        entries = self._runs[index][0]
        offset = place - self._firsts[index]
        if offset >= len(entries):
            return None
        if offset == 0 and len(entries) <= limit:
            return place, entries
        return place, entries[offset : offset + limit]

    def holds_run(self, first: Position) -> bool:
        """A run that begins at ``first`` is still kept."""
        return bool(self._firsts) and self._firsts[0] <= first

    def drop_before(self, place: int) -> None:
        """Forget the runs that begin before ``place``."""
        keep = bisect_right(self._firsts, place - 1)
        self._drop(keep)

    def drop_through(self, place: Position) -> None:
        """Forget the runs whose entries all lie at or before ``place``."""
        keep = 0
        for first, (entries, _) in zip(self._firsts, self._runs, strict=True):
            if first + len(entries) - 1 > place:
                break
            keep += 1
        self._drop(keep)

    def clear(self) -> None:
        """Forget everything."""
        self._drop(len(self._runs))

    def _drop(self, count: int) -> None:
        if count:
            for _, size in self._runs[:count]:
                self._budget.removed(size)
            del self._firsts[:count], self._runs[:count]
