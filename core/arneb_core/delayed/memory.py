"""The index in memory: for topics that do not outlive the process, and where it is configured.

The rule: it is rebuilt from the log at every start. It costs about 50 bytes per pending entry, once
for the topic, however many subscriptions it has.
"""

from collections.abc import Sequence

from pyroaring import BitMap64

from arneb_core.api.entries.due_key import (
    AFTER_ALL_TIME,
    POSITION_MASK,
    DueKey,
    TimedRun,
    end_of,
    time_of,
)
from arneb_core.api.entries.position import Position
from arneb_core.delayed.tracker import NEVER_MS, OnRead, Reading
from arneb_core.delayed.unsealed import UnsealedKeys


class InMemoryDelayedDeliveryTracker:
    """An index that is wholly in memory; see :class:`.DelayedDeliveryTracker`."""

    buckets = 0

    def __init__(self, keys: Sequence[DueKey] = ()) -> None:
        self._keys = UnsealedKeys(keys)
        self.members = BitMap64([key & POSITION_MASK for key in keys])
        self._watermark_ms = -1

    def __repr__(self) -> str:
        return f"<InMemoryDelayedDeliveryTracker {len(self._keys)} entries>"

    def add(self, keys: Sequence[DueKey], through: Position, *, rolled: bool) -> int:
        """Add entries that were committed just now."""
        # A subscription may be past these; its reader delivers their entries instead.
        keys = [key for key in keys if time_of(key) > self._watermark_ms]
        if not keys:
            return NEVER_MS
        low = min(keys)
        self._keys.add(keys, low)
        self.members.update([key & POSITION_MASK for key in keys])
        return time_of(low)

    def add_run(self, run: TimedRun, *, rolled: bool) -> int:
        """Add a run of which every entry is delayed."""
        low_ms = time_of(run.low)
        if low_ms <= self._watermark_ms:
            return self.add(run.all_keys(), run.last, rolled=rolled)
        self._keys.add_run(run)
        self.members.add_range(run.first, run.last + 1)
        return low_ms

    def read(self, reached: DueKey, until_ms: int, limit: int, on_read: OnRead) -> Reading | None:
        """Return what comes due after ``reached``; never None."""
        self._watermark_ms = max(self._watermark_ms, until_ms)
        return self._read(reached, end_of(until_ms), limit)

    def look(self, reached: DueKey, limit: int, on_read: OnRead) -> Reading | None:
        """As :meth:`read`, whatever the time; nothing counts as handed out."""
        return self._read(reached, AFTER_ALL_TIME, limit)

    def _read(self, reached: DueKey, end: DueKey, limit: int) -> Reading:
        keys, following = self._keys.between(reached, end, limit)
        return Reading(keys, NEVER_MS if following < 0 else time_of(following))

    def count_due(self, reached: DueKey, until_ms: int) -> int:
        """Count the keys after ``reached`` that come due up to ``until_ms``."""
        return self._keys.count(reached, end_of(until_ms))

    def passed(self, reached: DueKey, after: Position) -> None:
        """Drop keys that nobody wants any more."""
        self.members.difference_update(self._keys.drop(reached, after))

    def set_back(self) -> None:
        """The clock was set back, and every subscription reads from the beginning."""
        self._watermark_ms = -1

    def log_trimmed(self, floor: Position) -> None:
        """Drop the keys of entries up to ``floor``, which the log no longer has."""
        if self.members and self.members.min() <= floor:
            self._keys.drop_through(floor)
            self.members.remove_range(0, floor + 1)
