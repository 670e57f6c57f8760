"""The tail cache: a topic's most recent entries in memory, shared by its consumers.

The rule: it holds only committed entries, as one contiguous stretch of runs that ends at the log's
last entry, so that a consumer that keeps up never touches the store. A :class:`CacheBudget` bounds
the bytes of all caches of a process together.
"""

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, Protocol

from arneb_core.api.entries.position import Position

CACHE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of all tail caches together. A consumer further behind reads the store, which is faster for
a backlog anyway: one read there returns a thousand entries."""


class Cache(Protocol):
    """What counts against the bound: numbered runs, the oldest with the lowest number."""

    def drop_before(self, position: int) -> None:
        """Forget the runs that begin before ``position``, and report each to the budget."""
        ...


class CacheBudget:
    """Keeps the sum of all caches under a bound by dropping the oldest runs of all."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.cache_reads_total = 0
        """Runs that were read from the caches."""
        # Oldest first. A run can leave from the middle: while one topic's consumer is stuck, the
        # runs of all other topics come and go.
        self._runs: OrderedDict[tuple[Cache, int], int] = OrderedDict()

    def __repr__(self) -> str:
        return f"<CacheBudget {self.bytes}/{self.bytes_max} bytes>"

    def added(self, cache: Cache, first: int, size: int) -> None:
        """Count a run that ``cache`` took, and make room for it."""
        self.bytes += size
        self._runs[cache, first] = size
        while self.bytes > self.bytes_max and self._runs:
            oldest, position = next(iter(self._runs))
            oldest.drop_before(position + 1)

    def removed(self, cache: Cache, first: int) -> None:
        """Discount the run at ``first`` that ``cache`` dropped."""
        self.bytes -= self._runs.pop((cache, first))

    def __len__(self) -> int:
        return len(self._runs)


class TailCache:
    """One topic's recent runs, oldest first.

    The cache of a durable log is one stretch without gaps. That of a memory log, which is the whole
    log, may lack runs that everybody is done with (:meth:`drop_runs`).
    """

    def __init__(self, budget: CacheBudget) -> None:
        self._budget = budget
        self._firsts: list[int] = []
        self._runs: list[tuple[list[bytes], int]] = []

    def __repr__(self) -> str:
        return f"<TailCache {len(self._runs)} runs>"

    def __len__(self) -> int:
        """Return how many runs it holds."""
        return len(self._runs)

    @property
    def first(self) -> Position | None:
        """The oldest entry that is cached."""
        return Position(self._firsts[0]) if self._firsts else None

    def after(self, position: Position) -> Position | None:
        """Return the first cached entry above ``position``."""
        index = bisect_right(self._firsts, position + 1) - 1
        if index >= 0 and position + 1 - self._firsts[index] < len(self._runs[index][0]):
            return Position(position + 1)
        index += 1
        return Position(self._firsts[index]) if index < len(self._firsts) else None

    def spans(self) -> Iterator[tuple[Position, Position]]:
        """Yield the first and last entry of every run."""
        for first, (entries, _) in zip(self._firsts, self._runs, strict=True):
            yield Position(first), Position(first + len(entries) - 1)

    def append(self, first: Position, entries: list[bytes], size: int) -> None:
        """Keep a committed run of ``size`` bytes."""
        self._firsts.append(first)
        self._runs.append((entries, size))
        self._budget.added(self, first, size)

    def read(self, position: Position, limit: int) -> tuple[Position, list[bytes]] | None:
        """Return up to ``limit`` entries from ``position`` on, from one run; None when not
        cached."""
        index = bisect_right(self._firsts, position) - 1
        if index < 0:
            return None
        entries = self._runs[index][0]
        offset = position - self._firsts[index]
        if offset >= len(entries):
            return None
        self._budget.cache_reads_total += 1
        if offset == 0 and len(entries) <= limit:
            return position, entries
        return position, entries[offset : offset + limit]

    def drop_before(self, position: int) -> None:
        """Forget the runs that begin before ``position``."""
        keep = bisect_right(self._firsts, position - 1)
        self._drop(keep)

    def drop_through(self, position: Position) -> None:
        """Forget the runs whose entries all lie at or before ``position``."""
        keep = 0
        for first, (entries, _) in zip(self._firsts, self._runs, strict=True):
            if first + len(entries) - 1 > position:
                break
            keep += 1
        self._drop(keep)

    def drop_runs(self, firsts: set[Position]) -> None:
        """Forget the runs that begin at ``firsts``, wherever they are."""
        for first in firsts:
            self._budget.removed(self, first)
        kept = [
            (first, run)
            for first, run in zip(self._firsts, self._runs, strict=True)
            if first not in firsts
        ]
        self._firsts = [first for first, _ in kept]
        self._runs = [run for _, run in kept]

    def clear(self) -> None:
        """Forget everything."""
        self._drop(len(self._runs))

    def _drop(self, count: int) -> None:
        if count:
            for first in self._firsts[:count]:
                self._budget.removed(self, first)
            del self._firsts[:count], self._runs[:count]
