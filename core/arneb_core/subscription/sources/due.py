"""A due source: entries that came due and were not handed out yet, in the order of their times.

The rule: it stands between the replay set and the reader. Ticks keep their order; the entries of
one tick go in log order, so that entries handed out together lie together. It holds a bounded
number of positions, and the bytes of one read.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Final, cast

from pyroaring import BitMap64

from arneb_core.api.entries.position import Position, before
from arneb_core.api.errors import StoreFailed
from arneb_core.delayed.due_cache import DueCache, Page
from arneb_core.log.durable_log import Read, Runs
from arneb_core.log.memory_log import Log
from arneb_core.subscription.sources.fetch import Fetch
from arneb_core.subscription.sources.gathering import gather, gathered_max
from arneb_core.subscription.sources.replay import REPLAY_RUN_MIN

READ_BYTES: Final = 512 * 1024
"""Bytes of one read of entries that came due."""

DUE_RUN_MAX: Final = 512
"""Entries handed out at a time, as with new ones."""

READ_ENTRIES_MAX: Final = 2_048
"""Entries asked for at a time; each may lie in a block of its own."""

AHEAD_ENTRIES: Final = 2_048
"""Entries read ahead below which the next read starts, so that it is done in time."""

GAP_MAX: Final = 8
"""Positions; entries in memory that lie further apart are looked up one by one."""


class DueFetch(Fetch):
    """Reads the entries that came due for one subscription."""

    __slots__ = ("_source",)

    def __init__(
        self, source: "DueSource", finished: Callable[[], None], failed: Callable[[Fetch], None]
    ) -> None:
        super().__init__(source, source.read, finished, failed)
        self._source = source

    def _believable(self, position: Position, found: Runs) -> Runs | None:
        if self._source.is_next(position, found):
            return found
        return super()._believable(position, found)


class DueSource:
    """The entries that came due for one subscription.

    Invariants: no run of ``_runs`` is empty, each ascends, and none is shortened: other
    subscriptions may share it. The entries left are those in ``_positions``, each of which is in
    some run, and in the first run not before ``_at``.
    """

    def __init__(
        self,
        log: Log,
        cache: DueCache,
        finished: Callable[[], None],
        failed: Callable[[Fetch], None],
    ) -> None:
        self._log = log
        self._cache = cache
        self.fetch = DueFetch(self, finished, failed)
        self._runs: deque[array[int]] = deque()
        self._at = 0
        self._positions = BitMap64()
        self._is_last_own = False
        """The last run is not shared, so it may be extended."""
        self._has_gaps = False
        """Some entries of the runs are not in ``_positions``: acknowledged, or never wanted."""
        self._page: Page | None = None
        """The rest of a page, all of it wanted."""
        self._page_at = 0
        self._page_ends = 0
        """Where that page ends in the first run."""
        self._run_max = REPLAY_RUN_MIN
        self._asked = 0
        """Everything before this in the first run was read, or is being read."""
        self._is_cold = False
        """The entries handed out last had to be read."""
        self.is_sorting = False
        """The index is being asked what came due: nothing goes out before it answers."""

    def __repr__(self) -> str:
        return f"<DueSource {len(self)} entries>"

    def __len__(self) -> int:
        return len(self._positions)

    def __bool__(self) -> bool:
        """True if there is something, or if that is not known yet."""
        return bool(self._runs) or self.is_sorting

    def __contains__(self, position: Position) -> bool:
        return position in self._positions

    @property
    def positions(self) -> BitMap64:
        """The entries left; not to be changed."""
        return self._positions

    def add(self, run: "array[int]", wanted: BitMap64 | None = None) -> None:
        """Add ``run``, which ascends and is not empty, after the others. ``wanted``, if given, has
        the entries of it that are wanted, at least one; this source then owns ``wanted``, and
        shares ``run``."""
        if self._has_gaps and self._runs:
            self._close_gaps()
        if wanted is None:
            self._positions.update(run)
            if self._is_last_own and self._runs and self._runs[-1][-1] < run[0]:
                self._runs[-1].extend(run)
                return
        else:
            self._has_gaps = len(wanted) < len(run)
            self._positions = wanted if not self._positions else self._positions | wanted
        self._is_last_own = wanted is None
        self._runs.append(run)
        self._pass_gaps()

    def positions_through(self, position: Position) -> list[Position]:
        """Return the entries up to ``position``, in log order."""
        return [Position(each) for each in self._positions if each <= position]

    def discard(self, positions: Iterable[Position]) -> None:
        """Remove ``positions``, which were acknowledged."""
        if self._positions:
            before = len(self._positions)
            self._positions.difference_update(BitMap64(positions))
            if len(self._positions) < before:
                self._lacks_some()

    def discard_through(self, position: Position) -> None:
        """Remove everything up to ``position``, which was acknowledged."""
        if self._positions and self._positions.min() <= position:
            self._positions.remove_range(0, position + 1)
            self._lacks_some()

    def clear(self) -> None:
        """Forget everything."""
        self._runs.clear()
        self._positions.clear()
        self._at, self._has_gaps = 0, False
        self.drop_cached()

    def drop_cached(self) -> None:
        """Drop the entries held; they are read again when they are needed."""
        self._page = None
        self._asked = self._page_ends = 0
        self.fetch.forget()

    def peek(self) -> tuple[list[Position], list[bytes]] | None:
        """Return the first entries, if they are at hand; None while they are being read, or when
        they could not be. Entries that the log no longer has are dropped."""
        while self._runs and self.fetch.is_free and not self.is_sorting:
            if self._page is not None or self._find_page():
                return self._of_page()
            at_hand = self._at_hand()
            if at_hand is not None:
                return at_hand
            position = Position(self._runs[0][self._at])
            if self._log.after(before(position)) != position:
                self.discard([position])
            else:
                self.fetch.ask(position, READ_BYTES, self._read)
        return None

    def take(self, positions: list[Position]) -> None:
        """Remove ``positions``, the first of :meth:`peek`, which were handed out."""
        count = len(positions)
        self._run_max = min(DUE_RUN_MAX, max(REPLAY_RUN_MIN, 2 * count))
        run = self._runs[0]
        if len(self._runs) == 1:
            # Everything left up to there was handed out: a range, without building a bitmap.
            self._positions.remove_range(0, positions[-1] + 1)
        else:
            self._positions.difference_update(BitMap64(positions))
        if self._has_gaps:
            self._at = bisect_right(run, positions[-1], self._at)
        else:
            self._at += count
        if self._page is not None:
            self._page_at += count
            if self._page_at == len(self._page.positions):
                self._page = None
        self._pass_gaps()
        if self._runs and self._runs[0] is run and self._is_cold:
            self._read_ahead(run)

    # What the fetch reads: not the log, but the wanted entries of it

    def after(self, position: Position) -> Position | None:
        """Return the first entry of the first run above ``position``."""
        if not self._runs:
            return None
        run = self._runs[0]
        index = bisect_right(run, position)
        return Position(run[index]) if index < len(run) else None

    def read(self, position: Position, bytes_max: int, then: Read) -> None:
        """Read the entries wanted from ``position`` on."""
        run = self._runs[0]
        if len(self._runs) > 1 and run[self._at] == position:
            self._gather(position, lambda: self._give(position, bytes_max, then))
        else:
            self._ask(run, bisect_left(run, position), bytes_max, then)

    def is_next(self, position: Position, found: Runs) -> bool:
        """Return whether ``found`` is exactly what the first run has from ``position`` on."""
        run = self._runs[0]
        start = bisect_left(run, position)
        positions = self._cache.page_of(found).positions
        return bool(found) and positions == run[start : start + len(found)].tolist()

    # Inside

    def _read_ahead(self, run: "array[int]") -> None:
        """Read the next entries into the cache, where every subscription finds them."""
        start = max(self._asked, self._page_ends, self._at)
        if start >= min(len(run), self._at + AHEAD_ENTRIES):
            return
        position = Position(run[start])
        if (page := self._cache.page(position)) is not None:
            self._asked = start + len(page.positions)
        elif self._cache.get(position) is not None:
            self._asked = start + DUE_RUN_MAX
        else:
            self._ask(run, start, READ_BYTES, self._cached)

    def _gather(self, position: Position, done: Callable[[], None]) -> None:
        """Read the entries of all runs into the cache, in log order. When several ticks are due,
        many of them want entries of the same blocks, and a block is checked as a whole whenever it
        is read: tick by tick, that takes ten times as long."""
        positions = cast(Iterator[Position], chain.from_iterable(self._runs))
        positions = islice(positions, self._at, self._at + gathered_max(self._log))
        gather(self._cache, positions, READ_BYTES, lambda: self._wants(position), done)

    def _give(self, position: Position, bytes_max: int, then: Read) -> None:
        """Answer with what was gathered; if it is not there, read it after all."""
        if not self._wants(position):
            then([])
            return
        run = self._runs[0]
        found: Runs = []
        for each in self._listed(run, self._at, READ_ENTRIES_MAX):
            entry = self._cache.get(each)
            if entry is None:
                break
            found.append((each, [entry]))
        if found:
            then(found)
        else:
            self._ask(run, self._at, bytes_max, then)

    def _wants(self, position: Position) -> bool:
        """Return whether ``position`` is still the first."""
        return bool(self._runs) and self._runs[0][self._at] == position

    def _ask(self, run: "array[int]", start: int, bytes_max: int, then: Read) -> None:
        positions = self._listed(run, start, READ_ENTRIES_MAX)
        self._asked = start + len(positions)
        self._cache.read_page(positions, bytes_max, then)

    def _cached(self, found: Runs | StoreFailed) -> None:
        """Take note of what was read ahead; a failed read is tried again when it is needed."""
        if not isinstance(found, StoreFailed) and found and self._runs:
            ends = bisect_right(self._runs[0], found[-1][0])
            self._asked = min(self._asked, ends)

    @staticmethod
    def _listed(run: "array[int]", start: int, count: int) -> list[Position]:
        return cast(list[Position], run[start : start + count].tolist())

    def _find_page(self) -> bool:
        """Open the page that begins with the next entry, if there is one."""
        run, at = self._runs[0], self._at
        page = self._cache.page(Position(run[at]))
        # The subscription that read it may want other entries.
        if page is None or page.positions != self._listed(run, at, len(page.positions)):
            return False
        return self._open(page)

    def _open(self, page: Page) -> bool:
        """Go on with ``page``; return whether any of it is wanted."""
        self._page_ends = bisect_right(self._runs[0], page.positions[-1], self._at)
        self._page, self._page_at = page, 0
        if self._has_gaps:
            self._leave_out()
        return self._page is not None

    def _leave_out(self) -> None:
        """Leave out of the page what is not wanted."""
        if self._page is not None:
            left = self._page.only(self._positions, self._page_at)
            self._page, self._page_at = left if left.positions else None, 0

    def _of_page(self) -> tuple[list[Position], list[bytes]]:
        page = self._page
        assert page is not None, "it was looked for"
        self._is_cold = True
        start, stop = self._page_at, self._page_at + self._run_max
        return page.positions[start:stop], page.entries[start:stop]

    def _at_hand(self) -> tuple[list[Position], list[bytes]] | None:
        """Return the first entries, from what was gathered or is in memory anyway."""
        positions = self._listed(self._runs[0], self._at, self._run_max)
        if self._has_gaps:
            positions = [position for position in positions if position in self._positions]
        cached = self._cache.get
        gathered = list(map(cached, positions))
        self._is_cold = gathered[0] is not None
        if None not in gathered:
            return positions, cast(list[bytes], gathered)
        entries: list[bytes] = []
        stop = len(positions)
        while (index := len(entries)) < stop:
            position = positions[index]
            entry = cached(position)
            if entry is not None:
                entries.append(entry)
                continue
            is_dense = index + 1 < stop and positions[index + 1] - position <= GAP_MAX
            hot = self._log.read_hot(position, positions[-1] - position + 1 if is_dense else 1)
            if hot is None:
                break
            there = hot[1]
            while index < stop and positions[index] - position < len(there):
                entries.append(there[positions[index] - position])
                index += 1
        return (positions[: len(entries)], entries) if entries else None

    def _read(self, runs: Runs) -> None:
        if not runs or not self._runs:
            return
        page, run = self._cache.page_of(runs), self._runs[0]
        if page.positions != self._listed(run, self._at, len(page.positions)):
            # Another subscription, which wants other entries, read it from the same place on.
            stop = bisect_right(run, page.positions[-1], self._at)
            page = page.only(set(run[self._at : stop]))
        if page.positions:
            self._open(page)
            self._asked = self._page_ends

    def _lacks_some(self) -> None:
        """Adjust to entries that are not wanted any more."""
        self._has_gaps = True
        self._leave_out()
        self._pass_gaps()

    def _close_gaps(self) -> None:
        """Rebuild the runs from the entries left, lest a new run brings removed ones back."""
        # An entry handed out from the first run that is due again belongs to a later run.
        left = (run[0 if number else self._at :] for number, run in enumerate(self._runs))
        kept = (array("Q", [e for e in run if e in self._positions]) for run in left)
        self._runs = deque(run for run in kept if run)
        self._at, self._has_gaps, self._is_last_own = 0, False, True
        self.drop_cached()

    def _pass_gaps(self) -> None:
        """Go on to the next wanted entry."""
        runs, positions = self._runs, self._positions
        while runs:
            run = runs[0]
            while self._has_gaps and self._at < len(run) and run[self._at] not in positions:
                wanted = next(positions.iter_equal_or_larger(run[self._at]), None)
                self._at = len(run) if wanted is None else bisect_left(run, wanted, self._at)
            if self._at < len(run):
                return
            runs.popleft()
            self._at = 0
            self.drop_cached()
        self._has_gaps = False
