"""A due cache: entries that came due, read once for all subscriptions of a topic.

The rule: subscriptions want the same entries at about the same time, so the others wait for a read
under way for one of them, and its entries are kept for those that come a little later. They count
against the bound of all tail caches, and are dropped when nobody has anything due any more.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyroaring import BitMap64

from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed
from arneb_core.api.process.callbacks import call
from arneb_core.log.durable_log import Read, Runs
from arneb_core.log.memory_log import Log
from arneb_core.log.tail_cache import CacheBudget

CACHE_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes for each topic: a subscription further behind reads again, as with a tail cache."""

GATHERED_BYTES_MAX: Final = 16 * 1024 * 1024
"""The same for a topic whose entries are handed out in order of time: each pass reads all blocks
for as many entries as fit in this, and entries dropped meanwhile are read once more."""

ENTRY_BYTES: Final = 200
"""Bytes of memory that a kept entry takes besides its own."""


class Page(NamedTuple):
    """The entries of one read, in log order, as parallel lists that nobody changes."""

    positions: list[Position]
    entries: list[bytes]

    def only(self, wanted: set[int] | BitMap64, start: int = 0) -> "Page":
        """Return the ``wanted`` entries of it, from index ``start`` on."""
        held = zip(self.positions[start:], self.entries[start:], strict=True)
        left = [(position, entry) for position, entry in held if position in wanted]
        return Page([position for position, _ in left], [entry for _, entry in left])


@dataclass(frozen=True, slots=True)
class _Kept:
    """What one read added."""

    number: int
    positions: Sequence[Position]
    """The entries added one by one."""
    first: Position | None
    """Where the page added begins, if one was."""
    size: int


class DueCache:
    """The due cache of one topic. Invariant: the positions of ``_reads`` are those of ``_entries``,
    its pages those of ``_pages``, each once, and ``_bytes`` is their sum."""

    def __init__(
        self,
        log: Log,
        budget: CacheBudget,
        bytes_max: int = CACHE_BYTES_MAX,
        gathered_bytes_max: int = GATHERED_BYTES_MAX,
    ) -> None:
        self._log = log
        self._budget = budget
        self._bytes_max = bytes_max
        self._gathered_bytes_max = gathered_bytes_max
        self._entries: dict[Position, bytes] = {}
        self._reads: deque[_Kept] = deque()
        self._bytes = self._next = 0
        self._pages: dict[Position, Page] = {}
        self._asked: dict[Position, list[Read]] = {}
        self._latest: tuple[Runs, Page] | None = None
        self.get = self._entries.get
        self.page = self._pages.get
        """Returns the page that begins at a position."""

    def __repr__(self) -> str:
        return f"<DueCache {len(self)} entries, {self._bytes} bytes>"

    def __len__(self) -> int:
        return len(self._entries) + sum(len(page.entries) for page in self._pages.values())

    def __bool__(self) -> bool:
        return bool(self._reads)

    @property
    def size(self) -> int:
        """Bytes held, as they are counted."""
        return self._bytes

    def make_room(self) -> None:
        """Allow more bytes, for gathered entries that stay until their turns come."""
        self._bytes_max = max(self._bytes_max, self._gathered_bytes_max)

    def read(self, positions: Sequence[Position], bytes_max: int, then: Read) -> None:
        """As :meth:`.DurableLog.read_positions`, and keep each entry. A read asked for while one
        from the same position is under way gets the answer of that one; its caller sorts out
        positions that it did not ask for."""
        self._read(positions, bytes_max, then, self._keep)

    def read_page(self, positions: Sequence[Position], bytes_max: int, then: Read) -> None:
        """As :meth:`read`, but keep the entries as one page."""
        self._read(positions, bytes_max, then, self._keep_page)

    def page_of(self, runs: Runs) -> Page:
        """Return the page of a read, made once for all who waited for it."""
        if self._latest is None or self._latest[0] is not runs:
            self._latest = (
                runs,
                Page([position for position, _ in runs], [each[0] for _, each in runs]),
            )
        return self._latest[1]

    def drop_before(self, number: int) -> None:
        """Forget the reads before ``number``."""
        while self._reads and self._reads[0].number < number:
            kept = self._reads.popleft()
            for position in kept.positions:
                del self._entries[position]
            if kept.first is not None:
                del self._pages[kept.first]
            self._bytes -= kept.size
            self._budget.removed(self, kept.number)

    def clear(self) -> None:
        """Forget everything."""
        self.drop_before(self._next)

    # Inside

    def _read(
        self,
        positions: Sequence[Position],
        bytes_max: int,
        then: Read,
        keep: Callable[[Runs], None],
    ) -> None:
        first = positions[0]
        waiting = self._asked.get(first)
        if waiting is not None:
            waiting.append(then)
            return
        self._asked[first] = [then]
        self._log.read_positions(
            positions, bytes_max, lambda found: self._answered(first, found, keep)
        )

    def _answered(
        self, first: Position, found: Runs | StoreFailed, keep: Callable[[Runs], None]
    ) -> None:
        waiting = self._asked.pop(first)
        if not isinstance(found, StoreFailed) and found:
            keep(found)
        for then in waiting:
            call(then, found)
        self._latest = None

    def _keep(self, runs: Runs) -> None:
        fresh = {position: each[0] for position, each in runs if position not in self._entries}
        self._entries.update(fresh)
        self._kept(list(fresh), None, fresh.values())

    def _keep_page(self, runs: Runs) -> None:
        page = self.page_of(runs)
        first = page.positions[0]
        if first not in self._pages:
            self._pages[first] = page
            self._kept((), first, page.entries)

    def _kept(
        self, positions: Sequence[Position], first: Position | None, entries: Collection[bytes]
    ) -> None:
        if not entries:
            return
        size = sum(map(len, entries)) + ENTRY_BYTES * len(entries)
        number, self._next = self._next, self._next + 1
        self._reads.append(_Kept(number, positions, first, size))
        self._bytes += size
        self._budget.added(self, number, size)
        while self._bytes > self._bytes_max:
            self.drop_before(self._reads[0].number + 1)
