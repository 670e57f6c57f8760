"""A due batch: the entries that came due after one key, for all subscriptions that have reached it.

The rule: it is in log order, gathered in steps of one turn each, shared by all subscriptions that
want the same, and never changed. The larger it is, the more of its entries share a block of the
log, which is checked as a whole whenever any of it is read.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyroaring import BitMap, BitMap64

from arneb_core.api.entries.due_key import AFTER_ALL_TIME, DueKey, positions_in, time_of
from arneb_core.cursor.holes import chunks_of
from arneb_core.delayed.tracker import Reading

BATCH_STEP: Final = 8_192
"""Keys asked for in one step: some milliseconds to read and to sort."""


@dataclass(frozen=True, slots=True)
class DueBatch:
    """Entries that came due; perhaps none."""

    after: DueKey
    """It has all of the index after this."""
    last: DueKey
    """Where it ends, save for keys that came in later and were due by then."""
    first: DueKey
    """The key that comes due the earliest."""
    next_ms: int
    """There is nothing more before this time; a time that has come means at once."""
    is_vouched: bool
    """Nobody can have been given these before this process started."""
    positions: "array[int]"
    """The positions, in log order."""
    members: BitMap64
    """The same positions as a bitmap."""
    chunks: Sequence[tuple[int, BitMap]]
    """The same positions by chunk, as in a cursor's holes."""

    def __repr__(self) -> str:
        return f"<DueBatch of {len(self.positions)} entries>"


class Gathering:
    """A batch that is being put together."""

    def __init__(self, after: DueKey, most: int, vouched_from: DueKey) -> None:
        """Gather about ``most`` entries, whose keys all lie on one side of ``vouched_from``."""
        self._most = most
        self._vouched_from = vouched_from
        self.after = after
        self.last = after
        """Up to here it has everything."""
        self.first: DueKey | None = None
        self.next_ms = 0
        self._end = AFTER_ALL_TIME
        self._members = BitMap64()
        self.is_done = False
        """It is complete."""

    def __repr__(self) -> str:
        return f"<Gathering of {len(self._members)} entries>"

    @property
    def is_full(self) -> bool:
        """It ends because it is large enough; there may be more."""
        return len(self._members) >= self._most

    def add(self, reading: Reading, until_ms: int) -> None:
        """Add ``reading``, which comes due next, up to ``until_ms``."""
        keys, self.next_ms = reading.keys, reading.next_ms
        if keys and self.first is None:
            self.first = keys[0]
            if keys[0] < self._vouched_from:
                self._end = self._vouched_from
        if keys and keys[-1] >= self._end:
            stop = bisect_left(keys, self._end)
            self.next_ms = time_of(keys[stop])
            keys, self.is_done = keys[:stop], True
        if keys:
            self.last = keys[-1]
            self._members.update(positions_in(keys))
        self.is_done |= self.is_full or self.next_ms > until_ms

    def batch(self) -> DueBatch:
        """Return the batch gathered."""
        positions = array("Q", self._members.to_array())
        first = self.after if self.first is None else self.first
        return DueBatch(
            self.after,
            self.last,
            first,
            self.next_ms,
            first >= self._vouched_from,
            positions,
            self._members,
            chunks_of(positions),
        )
