"""A due source: entries that came due and were not handed out yet, in the order of their times.

The rule: it stands between the replay set and the reader. Entries whose times lie in one tick go
in log order, so that what is handed out together stands together; the order of ticks is kept. It
holds a bounded number of positions, and the bytes of one read.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from arneb_core.fetch import Fetch
from arneb_core.log import Log, Read, Runs
from arneb_core.position import Position, before
from arneb_core.replay import REPLAY_RUN_MAX, REPLAY_RUN_MIN

READ_BYTES: Final = 512 * 1024
"""One read of entries that came due."""

READ_ENTRIES_MAX: Final = 512
"""Each may lie in a block of its own."""

GAP_MAX: Final = 8
"""Entries in memory that lie further apart are looked for one by one."""


class DueSource:
    """What came due for one subscription. Invariant: no run of ``_runs`` is empty, and each
    ascends."""

    def __init__(self, log: Log, told: Callable[[], None], failed: Callable[[Fetch], None]) -> None:
        self._log = log
        self.fetch = Fetch(self, told, failed)
        self._runs: deque[list[Position]] = deque()
        self._fetched: dict[Position, bytes] = {}
        self._run_max = REPLAY_RUN_MIN
        self.is_sorting = False
        """The index is being asked what came due."""

    def __repr__(self) -> str:
        return f"<DueSource {len(self)} entries>"

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def __bool__(self) -> bool:
        """There is something, or it is not known yet."""
        return bool(self._runs) or self.is_sorting

    def __contains__(self, place: Position) -> bool:
        return any(place in run for run in self._runs)

    def add(self, run: list[Position]) -> None:
        """``run``, which ascends and is not empty, came due next."""
        if self._runs and self._runs[-1][-1] < run[0]:
            self._runs[-1] += run
        else:
            self._runs.append(run)

    def discard(self, positions: Iterable[Position]) -> None:
        """``positions`` were acknowledged."""
        if self._runs:
            gone = set(positions)
            self._keep(lambda place: place not in gone)

    def discard_through(self, place: Position) -> None:
        """Everything up to ``place`` was acknowledged."""
        self._keep(lambda each: each > place)

    def clear(self) -> None:
        """Forget everything."""
        self._runs.clear()
        self.let_go()

    def let_go(self) -> None:
        """Hold no entries; they are read again when they are needed."""
        self._fetched.clear()
        self.fetch.forget()

    def peek(self) -> tuple[list[Position], list[bytes]] | None:
        """The first entries, if they are at hand; None while they are being read, or when they
        could not be. Entries that the log no longer has are dropped."""
        while self._runs and self.fetch.is_free:
            positions, entries = self._at_hand(self._runs[0])
            if positions:
                return positions, entries
            place = self._runs[0][0]
            if self._log.after(before(place)) != place:
                self.discard([place])
            else:
                self.fetch.ask(place, READ_BYTES, self._read)
        return None

    def take(self, positions: list[Position]) -> None:
        """``positions``, the first of :meth:`peek`, were handed out."""
        self._run_max = min(REPLAY_RUN_MAX, max(REPLAY_RUN_MIN, 2 * len(positions)))
        if self._fetched:
            for place in positions:
                self._fetched.pop(place, None)
        run = self._runs[0]
        del run[: len(positions)]
        if not run:
            self._runs.popleft()

    # What the fetch reads: not the log, but what of it is wanted

    def after(self, place: Position) -> Position | None:
        """The first entry wanted next above ``place``."""
        if not self._runs:
            return None
        run = self._runs[0]
        index = bisect_right(run, place)
        return run[index] if index < len(run) else None

    def read_cold(self, place: Position, bytes_max: int, then: Read) -> None:
        """Read what is wanted from ``place`` on."""
        run = self._runs[0]
        start = bisect_left(run, place)
        self._log.read_places(run[start : start + READ_ENTRIES_MAX], bytes_max, then)

    # Inside

    def _at_hand(self, run: Sequence[Position]) -> tuple[list[Position], list[bytes]]:
        positions: list[Position] = []
        entries: list[bytes] = []
        stop = min(len(run), self._run_max)
        index = 0
        while index < stop:
            place = run[index]
            entry = self._fetched.get(place)
            if entry is not None:
                positions.append(place)
                entries.append(entry)
                index += 1
                continue
            is_dense = index + 1 < stop and run[index + 1] - place <= GAP_MAX
            hot = self._log.read_hot(place, run[stop - 1] - place + 1 if is_dense else 1)
            if hot is None:
                break
            found = hot[1]
            while index < stop and run[index] - place < len(found):
                positions.append(run[index])
                entries.append(found[run[index] - place])
                index += 1
        return positions, entries

    def _read(self, runs: Runs) -> None:
        self._fetched = {first: entries[0] for first, entries in runs}

    def _keep(self, stays: Callable[[Position], bool]) -> None:
        front = self._runs[0][0] if self._runs else None
        kept = [[place for place in run if stays(place)] for run in self._runs]
        self._runs = deque(run for run in kept if run)
        if front is not None and (not self._runs or self._runs[0][0] != front):
            self.let_go()
