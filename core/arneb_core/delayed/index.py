"""The delayed index of a topic: one tracker, and the subscriptions that hold back by it.

The rule: an entry is in the index as soon as it is in the log, before any subscription looks, so
that no reader comes across one that is not due. It is taken out when every subscription that holds
back is past it both in time and in the log.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from arneb_core.api.entries.due_key import (
    AFTER_ALL_TIME,
    BEFORE_ALL_TIME,
    DueKey,
    end_of,
    keys_at,
    positions_in,
    stamps_in,
    time_of,
    timed_run,
)
from arneb_core.api.entries.position import AFTER_ALL, BEFORE_ALL, FIRST_LEDGER, Position
from arneb_core.api.topics.settings import DelayedSettings
from arneb_core.delayed.due_batch import BATCH_STEP, DueBatch, Gathering
from arneb_core.delayed.due_cache import DueCache
from arneb_core.delayed.tracker import NEVER_MS, DelayedDeliveryTracker, OnRead, Reading
from arneb_core.log.memory_log import Log
from arneb_core.log.planning import PlannedRun
from arneb_core.log.tail_cache import CacheBudget

BATCH_MIN: Final = 8_192
BATCH_FIRST: Final = 32_768
BATCH_MAX: Final = 131_072
"""Entries of a due batch: at least, at first and at most, which is 1 MiB of positions."""

BATCHES_MAX: Final = 1_048_576
"""Entries of the batches that all subscriptions of a topic may hold: 8 MiB of positions."""

QUICK_MS: Final = 4_000
"""A batch handed out sooner than this is followed by one twice as large; one that took more than
twice as long, by one half the size. Within a batch entries go in log order, so this is about how
long an entry may wait for others that came due later, when more is due than can go out at once."""


class IndexReader(Protocol):
    """What an index has to know of a subscription that reads it."""

    @property
    def is_wanting(self) -> bool:
        """It needs the index, now or later."""
        ...

    @property
    def has_due(self) -> bool:
        """Something came due and was not handed out yet."""
        ...

    @property
    def reached(self) -> DueKey:
        """Nothing of the index up to here is wanted any more."""
        ...

    @property
    def after(self) -> Position:
        """The reader no longer needs the index up to here in the log."""
        ...

    def added(self, count: int, soonest_ms: int) -> None:
        """Note ``count`` entries added to the index, the first of them due at ``soonest_ms``."""
        ...

    def set_back(self) -> None:
        """The clock was set back."""
        ...


@dataclass(frozen=True, slots=True)
class _Read:
    """The latest reading: subscriptions that keep up with each other want the same."""

    reached: DueKey
    until_ms: int
    reading: Reading

    def after(self, reached: DueKey, until_ms: int, limit: int) -> Reading | None:
        """Return the part of it after ``reached``, if nothing came in since; None if it has none.
        Subscriptions that were apart so meet at its end."""
        keys = self.reading.keys
        if not (self.reached <= reached < keys[-1] and self.until_ms <= until_ms):
            return None
        start = bisect_right(keys, reached)
        if start == 0 and len(keys) <= limit:
            return self.reading
        if len(keys) - start <= limit:
            return Reading(keys[start:], self.reading.next_ms)
        return Reading(keys[start : start + limit], time_of(keys[start + limit]))


class DelayedIndex:
    """The delayed entries of one topic."""

    def __init__(
        self,
        name: str,
        log: Log,
        tracker: DelayedDeliveryTracker,
        settings: DelayedSettings,
        budget: CacheBudget,
        readers: Callable[[], Iterable[IndexReader]],
        now_ms: int,
    ) -> None:
        """``readers`` gives the topic's subscriptions that read it."""
        self._name = name
        self._readers = readers
        self.tracker = tracker
        self.settings = settings
        self.cache = DueCache(log, budget)
        self._last: _Read | None = None
        self._gatherings: dict[DueKey, Gathering] = {}
        self._batches: dict[DueKey, DueBatch] = {}
        """Batches by their start, for readers that are still there."""
        self._batch_entries = BATCH_FIRST
        self._full: tuple[DueKey, int] | None = None
        """Where the latest full batch ended, and when it was made."""
        self._sorted: tuple[Reading, list[Position]] | None = None
        self._passed = BEFORE_ALL_TIME
        """Keys up to here may be out of the tracker; after a seek the readers deliver those."""
        self._clock_ms = now_ms
        """What the clock showed last."""
        # An earlier process may have had a clock that was ahead of ours.
        self.opened_ms = max(now_ms, log.stamped_ms)
        """No earlier process gave out an entry that comes due later than this."""
        self.since = log.last or BEFORE_ALL
        """Whether entries up to here are delayed was decided by an earlier process."""

    def __repr__(self) -> str:
        return f"<DelayedIndex of {self._name}, {self.tracker!r}>"

    def confirm(self, run: PlannedRun, now_ms: int) -> None:
        """Add the delayed entries of ``run``, which is in the log now."""
        stamps = stamps_in(run.entries)
        is_delayed, rolled = any(stamps), run.opens and run.ledger.id > FIRST_LEDGER
        if not is_delayed and not rolled:
            return
        self._last = None
        count = len(self.tracker.members)
        self.look_at_clock(now_ms)
        if is_delayed and (timed := timed_run(run.first, stamps, now_ms)) is not None:
            soonest_ms = self.tracker.add_run(timed, rolled=rolled)
        else:
            now = end_of(now_ms)
            keys = [key for key in keys_at(run.first, stamps) if key >= now]
            soonest_ms = self.tracker.add(keys, run.last, rolled=rolled)
        if soonest_ms < NEVER_MS:
            for after, batch in self._batches.items():
                next_ms = min(batch.next_ms, soonest_ms)
                self._batches[after] = replace(batch, next_ms=next_ms)
            count = len(self.tracker.members) - count
            for each in self._readers():
                each.added(count, soonest_ms)

    def look_at_clock(self, now_ms: int) -> None:
        """Note that the clock shows ``now_ms``. If that is less than before, what every
        subscription has reached is ahead of it, and what comes due now would pass for handed out:
        set them back."""
        if now_ms < self._clock_ms:
            self._forget()
            self.tracker.set_back()
            for each in self._readers():
                each.set_back()
        self._clock_ms = now_ms

    def read(self, reached: DueKey, until_ms: int, limit: int, on_read: OnRead) -> Reading | None:
        """As :meth:`.DelayedDeliveryTracker.read`, once for all that want the same."""
        if self._last is not None and reached >= self._passed:
            known = self._last.after(reached, until_ms, limit)
            if known is not None:
                return known
        reading = self.tracker.read(reached, until_ms, limit, on_read)
        if reading is not None and reading.keys:
            self._last = _Read(reached, until_ms, reading)
        return reading

    def count_after(self, position: Position) -> int:
        """Count its entries after ``position`` in the log."""
        members = self.tracker.members
        return len(members) - members.rank(max(position, 0))

    def positions_of(self, reading: Reading) -> Sequence[Position]:
        """Return the positions of what was read, in log order, made once for all that read it."""
        if self._sorted is None or self._sorted[0] is not reading:
            self._sorted = reading, positions_in(reading.keys)
        return self._sorted[1]

    def batch(self, reached: DueKey, until_ms: int, on_read: OnRead) -> DueBatch | Gathering | None:
        """Return what comes due after ``reached``, in log order, made once for all that want it. A
        gathering: ask again after others had their turn. None: as of :meth:`read`."""
        # A subscription that has not reached that, after a seek, finds less than others found
        # there.
        is_shared = reached >= self._passed
        if is_shared and (known := self._batches.get(reached)) is not None:
            return known
        gathering = self._gatherings.pop(reached, None) if is_shared else None
        if gathering is None:
            entries = self._entries_after(reached, until_ms) if is_shared else 1
            gathering = Gathering(reached, entries, end_of(self.opened_ms))
        reading = self.tracker.read(gathering.last, until_ms, BATCH_STEP, on_read)
        if reading is not None:
            gathering.add(reading, until_ms)
        if reading is None or not gathering.is_done:
            if is_shared:
                self._gatherings[reached] = gathering
            return None if reading is None else gathering
        batch = gathering.batch()
        if is_shared and batch.positions:
            if gathering.is_full:
                self._full = batch.last, until_ms
            standing = {each.reached for each in self._readers()}
            self._batches[reached] = batch
            self._batches = {at: each for at, each in self._batches.items() if at in standing}
            kept = {at: each for at, each in self._gatherings.items() if at in standing}
            self._gatherings = kept
        return batch

    def _entries_after(self, reached: DueKey, now_ms: int) -> int:
        """Return how many entries the batch that begins after ``reached`` is to have."""
        if self._full is not None and self._full[0] == reached:
            took_ms = now_ms - self._full[1]
            if took_ms < QUICK_MS:
                self._batch_entries *= 2
            elif took_ms > 2 * QUICK_MS:
                self._batch_entries //= 2
            self._full = None
        most = min(BATCH_MAX, BATCHES_MAX // sum(1 for _ in self._readers()))
        self._batch_entries = max(BATCH_MIN, min(self._batch_entries, most))
        return self._batch_entries

    def log_trimmed(self, floor: Position) -> None:
        """Drop the keys of entries up to ``floor``, which the log no longer has."""
        self._forget()
        self.tracker.log_trimmed(floor)

    def passed(self) -> None:
        """Drop what nobody wants any more, now that a subscription moved on."""
        reached, after = AFTER_ALL_TIME, AFTER_ALL
        for each in self._readers():
            if each.is_wanting:
                reached, after = min(reached, each.reached), min(after, each.after)
        if reached < AFTER_ALL_TIME:
            self._passed = max(self._passed, reached)
            self.tracker.passed(reached, after)

    def rest(self) -> None:
        """Drop what was read, if no subscription has anything due; called by one that has not."""
        if (self.cache or self._last or self._batches) and not any(
            each.has_due for each in self._readers()
        ):
            self.cache.clear()
            self._forget()

    def _forget(self) -> None:
        """Drop what was read, so that nobody else gets it."""
        self._last = self._sorted = None
        self._batches.clear()
        self._gatherings.clear()
