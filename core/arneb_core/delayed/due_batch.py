"""A due batch: what came due behind one place, for all subscriptions that stand there.

The rule: it is in log order, put together in steps, each a turn's worth, shared by whoever wants
the same, and never changed. The larger it is, the more of its entries stand in one block of the
log, which is checked as a whole whenever something of it is read.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyroaring import BitMap, BitMap64

from arneb_core.api.due_key import AFTER_ALL_TIME, DueKey, places_in, time_of
from arneb_core.cursor.holes import chunks_of
from arneb_core.delayed.tracker import Reading

BATCH_STEP: Final = 8_192
"""Keys asked for at a time: some milliseconds to read and to sort."""


@dataclass(frozen=True, slots=True)
class DueBatch:
    """Entries that came due; perhaps none."""

    after: DueKey
    """It has all of the index behind this,"""
    last: DueKey
    """up to this, save what came in later and was due by then."""
    first: DueKey
    """The key that comes due the earliest."""
    next_ms: int
    """Not before this is there anything more; a time that has come = at once."""
    is_vouched: bool
    """Nobody can have been given these before this process was there."""
    places: "array[int]"
    """Where they stand, in log order."""
    members: BitMap64
    """The same."""
    chunks: Sequence[tuple[int, BitMap]]
    """The same, by chunk of a cursor's holes."""

    def __repr__(self) -> str:
        return f"<DueBatch of {len(self.places)} entries>"


class Gathering:
    """A batch that is being put together."""

    def __init__(self, after: DueKey, most: int, vouched_from: DueKey) -> None:
        """Of about ``most`` entries, whose keys all lie on one side of ``vouched_from``."""
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
        """It is what it was to be."""

    def __repr__(self) -> str:
        return f"<Gathering of {len(self._members)} entries>"

    @property
    def is_full(self) -> bool:
        """It ends because it is large enough; there may be more."""
        return len(self._members) >= self._most

    def add(self, reading: Reading, until_ms: int) -> None:
        """``reading`` is what comes due next, up to ``until_ms``."""
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
            self._members.update(places_in(keys))
        self.is_done |= self.is_full or self.next_ms > until_ms

    def batch(self) -> DueBatch:
        """What it has become."""
        places = array("Q", self._members.to_array())
        first = self.after if self.first is None else self.first
        return DueBatch(
            self.after,
            self.last,
            first,
            self.next_ms,
            first >= self._vouched_from,
            places,
            self._members,
            chunks_of(places),
        )
