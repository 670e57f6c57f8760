"""A due source: entries that came due and were not handed out yet, in the order of their times.

The rule: it stands between the replay set and the reader. Entries whose times lie in one tick go
in log order, so that what is handed out together stands together; the order of ticks is kept. It
holds a bounded number of positions, and the bytes of one read.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import chain, islice
from typing import Final, cast

from pyroaring import BitMap64

from arneb_core.api.errors import StoreFailed
from arneb_core.api.position import BEFORE_ALL, Position, before
from arneb_core.delayed.due_cache import CACHE_BYTES_MAX, ENTRY_BYTES, DueCache
from arneb_core.log.durable_log import Read, Runs
from arneb_core.log.memory_log import Log
from arneb_core.subscription.sources.fetch import Fetch
from arneb_core.subscription.sources.replay import REPLAY_RUN_MAX, REPLAY_RUN_MIN

READ_BYTES: Final = 512 * 1024
"""One read of entries that came due."""

READ_ENTRIES_MAX: Final = 2_048
"""Asked for at a time; each may lie in a block of its own."""

AHEAD_ENTRIES: Final = 2_048
"""Below this the next read is started, so that it is there when this one is used up."""

GATHER_ENTRIES_MAX: Final = 8_192
GATHER_BYTES_MAX: Final = CACHE_BYTES_MAX // 2
"""What is read at once of entries of many ticks, and stays until their turns come."""

GAP_MAX: Final = 8
"""Entries in memory that lie further apart are looked for one by one."""


class DueFetch(Fetch):
    """Reads what came due for one subscription."""

    __slots__ = ("_source",)

    def __init__(
        self, source: "DueSource", told: Callable[[], None], failed: Callable[[Fetch], None]
    ) -> None:
        super().__init__(source, source.read, told, failed)
        self._source = source

    def _believable(self, place: Position, found: Runs) -> Runs | None:
        if self._source.is_next(place, found):
            return found
        return super()._believable(place, found)


class DueSource:
    """What came due for one subscription. Invariant: no run of ``_runs`` is empty, and each
    ascends."""

    def __init__(
        self,
        log: Log,
        cache: DueCache,
        told: Callable[[], None],
        failed: Callable[[Fetch], None],
    ) -> None:
        self._log = log
        self._cache = cache
        self.fetch = DueFetch(self, told, failed)
        self._runs: deque[array[int]] = deque()
        self._places = BitMap64()
        self._fetched: Mapping[Position, bytes] = {}
        self._run_max = REPLAY_RUN_MIN
        self._asked = BEFORE_ALL
        """Of the first run, everything up to here was read, or is being read."""
        self._is_cold = False
        """What was handed out last had to be read."""
        self.is_sorting = False
        """The index is being asked what came due."""

    def __repr__(self) -> str:
        return f"<DueSource {len(self)} entries>"

    def __len__(self) -> int:
        return len(self._places)

    def __bool__(self) -> bool:
        """There is something, or it is not known yet."""
        return bool(self._runs) or self.is_sorting

    def __contains__(self, place: Position) -> bool:
        return place in self._places

    @property
    def places(self) -> BitMap64:
        """Where they stand; not to be changed."""
        return self._places

    def add(self, run: "array[int]") -> None:
        """``run``, which ascends and is not empty, came due next."""
        self._places.update(run)
        if self._runs and self._runs[-1][-1] < run[0]:
            self._runs[-1] += run
        else:
            self._runs.append(run)

    def places_through(self, place: Position) -> list[Position]:
        """Those up to ``place``, in log order."""
        return [Position(each) for each in self._places if each <= place]

    def discard(self, positions: Iterable[Position]) -> None:
        """``positions`` were acknowledged."""
        if self._places:
            self._forget(self._places & BitMap64(positions))

    def discard_through(self, place: Position) -> None:
        """Everything up to ``place`` was acknowledged."""
        if self._places and self._places.min() <= place:
            stay = self._places.copy()
            stay.remove_range(0, place + 1)
            self._forget(self._places - stay)

    def clear(self) -> None:
        """Forget everything."""
        self._runs.clear()
        self._places.clear()
        self.let_go()

    def let_go(self) -> None:
        """Hold no entries; they are read again when they are needed."""
        self._fetched = {}
        self._asked = BEFORE_ALL
        self.fetch.forget()

    def peek(self) -> tuple[list[Position], list[bytes]] | None:
        """The first entries, if they are at hand; None while they are being read, or when they
        could not be. Entries that the log no longer has are dropped."""
        while self._runs and self.fetch.is_free:
            positions, entries = self._at_hand(self._runs[0])
            if positions:
                return positions, entries
            place = Position(self._runs[0][0])
            if self._log.after(before(place)) != place:
                self.discard([place])
            else:
                self.fetch.ask(place, READ_BYTES, self._read)
        return None

    def take(self, positions: list[Position]) -> None:
        """``positions``, the first of :meth:`peek`, were handed out."""
        self._run_max = min(REPLAY_RUN_MAX, max(REPLAY_RUN_MIN, 2 * len(positions)))
        self._places.difference_update(BitMap64(positions))
        run = self._runs[0]
        del run[: len(positions)]
        if not run:
            self._runs.popleft()
            self._fetched = {}
            self._asked = BEFORE_ALL
        elif self._is_cold:
            self._read_ahead(run)

    # What the fetch reads: not the log, but what of it is wanted

    def after(self, place: Position) -> Position | None:
        """The first entry wanted next above ``place``."""
        if not self._runs:
            return None
        run = self._runs[0]
        index = bisect_right(run, place)
        return Position(run[index]) if index < len(run) else None

    def read(self, place: Position, bytes_max: int, then: Read) -> None:
        """Read what is wanted from ``place`` on."""
        run = self._runs[0]
        if len(self._runs) > 1 and run[0] == place:
            self._gather(place, lambda: self._give(place, bytes_max, then))
        else:
            self._ask(run, bisect_left(run, place), bytes_max, then)

    def is_next(self, place: Position, found: Runs) -> bool:
        """``found`` is just what is wanted from ``place`` on."""
        run = self._runs[0]
        start = bisect_left(run, place)
        places = run[start : start + len(found)].tolist()
        return bool(found) and [first for first, _ in found] == places

    # Inside

    def _read_ahead(self, run: "array[int]") -> None:
        """Into the cache, where it is found by whoever comes there first."""
        start = bisect_right(run, self._asked)
        if start >= min(len(run), AHEAD_ENTRIES):
            return
        if self._cache.get(Position(run[start])) is None:
            self._ask(run, start, READ_BYTES, self._cached)
        else:
            self._asked = Position(run[min(start + REPLAY_RUN_MAX, len(run)) - 1])

    def _gather(self, place: Position, done: Callable[[], None]) -> None:
        """Read what all runs want into the cache, in log order. When more is due than one tick's
        worth, many ticks want something of the same blocks, of which each is checked as a whole
        whenever it is read: tick by tick, that takes ten times as long."""
        runs = islice(chain.from_iterable(self._runs), GATHER_ENTRIES_MAX)
        wanted = sorted(Position(each) for each in runs if self._cache.get(Position(each)) is None)
        size = 0

        def more(found: Runs | StoreFailed) -> None:
            nonlocal wanted, size
            if isinstance(found, StoreFailed) or not found:
                done()
                return
            size += sum(len(entries[0]) + ENTRY_BYTES for _, entries in found)
            wanted = wanted[bisect_right(wanted, found[-1][0]) :]
            if wanted and size < GATHER_BYTES_MAX and self._wants(place):
                self._cache.read(wanted, READ_BYTES, more)
            else:
                done()

        self._cache.read(wanted, READ_BYTES, more)

    def _give(self, place: Position, bytes_max: int, then: Read) -> None:
        """Answer with what was gathered, or read it after all."""
        if not self._wants(place):
            then([])
            return
        run = self._runs[0]
        found: Runs = []
        for each in cast(list[Position], run[:READ_ENTRIES_MAX].tolist()):
            entry = self._cache.get(each)
            if entry is None:
                break
            found.append((each, [entry]))
        if found:
            then(found)
        else:
            self._ask(run, 0, bytes_max, then)

    def _wants(self, place: Position) -> bool:
        """``place`` is still the first."""
        return bool(self._runs) and self._runs[0][0] == place

    def _ask(self, run: "array[int]", start: int, bytes_max: int, then: Read) -> None:
        places = cast(list[Position], run[start : start + READ_ENTRIES_MAX].tolist())
        self._asked = places[-1]
        self._cache.read(places, bytes_max, then)

    def _cached(self, found: Runs | StoreFailed) -> None:
        """What was read ahead came; what failed is tried again when it is needed."""
        if not isinstance(found, StoreFailed) and found:
            self._asked = min(self._asked, found[-1][0])

    def _at_hand(self, run: "array[int]") -> tuple[list[Position], list[bytes]]:
        places = cast(list[Position], run[: self._run_max].tolist())
        found = list(map(self._fetched.get, places))
        if found[0] is None:
            found = list(map(self._cache.get, places))
        self._is_cold = found[0] is not None
        if None not in found:
            return places, cast(list[bytes], found)
        entries: list[bytes] = []
        stop, cached = len(places), self._cache.get
        while (index := len(entries)) < stop:
            place = places[index]
            entry = found[index] or cached(place)
            if entry is not None:
                entries.append(entry)
                continue
            is_dense = index + 1 < stop and places[index + 1] - place <= GAP_MAX
            hot = self._log.read_hot(place, places[-1] - place + 1 if is_dense else 1)
            if hot is None:
                break
            there = hot[1]
            while index < stop and places[index] - place < len(there):
                entries.append(there[places[index] - place])
                index += 1
        return places[: len(entries)], entries

    def _read(self, runs: Runs) -> None:
        self._fetched = self._cache.by_place(runs)
        if runs:
            self._asked = runs[-1][0]

    def _forget(self, gone: BitMap64) -> None:
        if not gone:
            return
        self._places -= gone
        front = self._runs[0][0]
        kept = [array("Q", [each for each in run if each not in gone]) for run in self._runs]
        self._runs = deque(run for run in kept if run)
        if not self._runs or self._runs[0][0] != front:
            self.let_go()
