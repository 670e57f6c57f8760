"""Unsealed keys: the part of an index that is in memory, sorted by time.

The rule: new runs are sorted and made into keys only when somebody asks for something that may be
among them. A run that nobody asks for before it is sealed stays a run.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.entries.due_key import POSITION_MASK, DueKey, TimedRun
from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.delayed.sorted_runs import FloatForm, SortedRuns, float_form_of, records_of_keys
from arneb_core.store.format.delayed_rows import keys_of

SORTED_AT_ONCE: Final = 8_192
"""Keys sorted at once as they come in, so that no turn has to sort all: the parts are only merged
later."""


class UnsealedKeys:
    """Keys in memory. Invariants: ``_sorted`` is sorted and shares no key with ``_fresh`` or
    ``_runs``; all runs have one ``_form``, and the first ``_sorted_runs`` are in ``_floats``."""

    __slots__ = (
        "_after",
        "_floats",
        "_form",
        "_fresh",
        "_fresh_min",
        "_part_ends",
        "_run_entries",
        "_runs",
        "_sorted",
        "_sorted_entries",
        "_sorted_runs",
        "_staying",
    )

    def __init__(self, keys: Iterable[DueKey] = ()) -> None:
        self._sorted = sorted(keys)
        self._fresh: list[DueKey] = []
        self._part_ends = [0]
        """Where the sorted parts of ``_fresh`` end, the first being 0; the keys after the last are
        in no order."""
        self._runs: list[TimedRun] = []
        """Runs that came in and that nobody asked for yet."""
        self._run_entries = 0
        """The entries of those runs."""
        self._floats: list[list[float]] = []
        """The keys of the first of those runs as floats, in sorted parts."""
        self._sorted_runs = self._sorted_entries = 0
        self._form: FloatForm | None = None
        self._fresh_min: int = 0
        """No key outside ``_sorted`` is less than this."""
        self._after: int = BEFORE_ALL
        self._staying = 0
        """How many keys at the front are known to have entries after ``_after``."""

    def __len__(self) -> int:
        return len(self._sorted) + len(self._fresh) + self._run_entries

    def __repr__(self) -> str:
        return f"<UnsealedKeys {len(self)}>"

    def add(self, keys: Sequence[DueKey], low: DueKey) -> None:
        """Add ``keys``, the least of which is ``low``."""
        self._came(low)
        self._take_in(keys)

    def _take_in(self, keys: Sequence[DueKey]) -> None:
        self._fresh += keys
        start = self._part_ends[-1]
        if len(self._fresh) - start >= SORTED_AT_ONCE:
            self._fresh[start:] = sorted(self._fresh[start:])
            self._part_ends.append(len(self._fresh))

    def add_run(self, run: TimedRun) -> None:
        """Add ``run``. Hot path: nothing is made for each key."""
        form = float_form_of(run)
        if form is None or (self._runs and form != self._form):
            self.add(run.all_keys(), run.low)
            return
        self._came(run.low)
        self._form = form
        self._runs.append(run)
        self._run_entries += run.entries
        if self._run_entries - self._sorted_entries >= SORTED_AT_ONCE:
            self._sort_runs()

    def _came(self, low: DueKey) -> None:
        self._fresh_min = min(self._fresh_min, low) if self._fresh or self._runs else low

    def _sort_runs(self) -> None:
        """Sort the runs that are not sorted yet."""
        runs = self._runs[self._sorted_runs :]
        if runs and self._form is not None:
            self._floats.append(sorted(self._form.floats(runs)))
            self._sorted_runs, self._sorted_entries = len(self._runs), self._run_entries

    def sorted_runs(self) -> SortedRuns:
        """Return all keys, to be sealed."""
        if self._sorted or self._fresh or self._form is None:
            self._expand()
            ends, fresh = self._part_ends, self._fresh
            parts = [self._sorted[:], sorted(fresh[ends[-1] :])]
            parts += [fresh[start:end] for start, end in pairwise(ends)]
            return SortedRuns([part for part in parts if part], records_of_keys, None)
        self._sort_runs()
        members = BitMap64()
        for run in self._runs:
            members.add_range(run.first, run.last + 1)
        return SortedRuns(self._floats[:], self._form.records, members)

    def keys(self) -> list[DueKey]:
        """Return all keys, in order."""
        return self._all()

    def between(self, reached: DueKey, end: DueKey, limit: int) -> tuple[list[DueKey], int]:
        """Return at most ``limit`` keys after ``reached`` and before ``end``, and the first key
        that follows those, -1 for none. Keys not asked for yet are not sorted."""
        is_waiting = bool(self._fresh or self._runs)
        if is_waiting and self._fresh_min < end:
            self._all()
            is_waiting = False
        keys = self._sorted
        start = bisect_right(keys, reached)
        stop = min(start + limit, bisect_left(keys, end, start))
        following: int = keys[stop] if stop < len(keys) else -1
        if is_waiting and not (0 <= following <= self._fresh_min):
            following = self._fresh_min
        return keys[start:stop], following

    def count(self, reached: DueKey, end: DueKey) -> int:
        """Count the keys after ``reached`` and before ``end``."""
        keys = self._all()
        return max(0, bisect_left(keys, end) - bisect_right(keys, reached))

    def drop(self, reached: DueKey, after: Position) -> BitMap64:
        """Drop the keys up to ``reached`` whose entries are at or before ``after``; return the
        positions of those."""
        keys = self._all()
        if after != self._after:
            self._after, self._staying = after, 0
        start, stop = self._staying, bisect_right(keys, reached)
        if start >= stop:
            return BitMap64()
        looked_at = keys[start:stop]
        stay = [key for key in looked_at if key & POSITION_MASK > after]
        self._staying += len(stay)
        if len(stay) == len(looked_at):
            return BitMap64()
        keys[start:stop] = stay
        return BitMap64([key & POSITION_MASK for key in looked_at if key & POSITION_MASK <= after])

    def drop_through(self, floor: Position) -> None:
        """Drop the keys of entries up to ``floor``."""
        self._sorted = [key for key in self._all() if key & POSITION_MASK > floor]
        self._staying = 0

    def _expand(self) -> None:
        """Make keys of runs."""
        if not self._runs:
            return
        for part in self._floats:
            assert self._form is not None, "they are of one form"
            self._take_in(keys_of(self._form.records(part)))
        for run in self._runs[self._sorted_runs :]:
            self._take_in(run.all_keys())
        self._runs, self._floats = [], []
        self._run_entries = self._sorted_runs = self._sorted_entries = 0

    def _all(self) -> list[DueKey]:
        self._expand()
        if self._fresh:
            self._sorted += self._fresh
            self._sorted.sort()  # sorted runs, mostly: cheap
            self._fresh = []
            self._part_ends = [0]
            self._staying = 0
        return self._sorted
