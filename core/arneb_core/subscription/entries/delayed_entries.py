"""The delayed entries of one subscription: what it has reached in the topic's delayed index.

The rule: on a subscription that holds back, delayed entries come from the index and never from the
reader, which passes over them. So each comes once, at its time, whether the index or the reader is
ahead. Subscriptions with one consumer at a time (Exclusive, Failover) hold nothing back, as in
Pulsar: there the reader delivers everything in log order.
"""

import logging
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.entries.due_key import (
    AFTER_ALL_TIME,
    BEFORE_ALL_TIME,
    DueKey,
    end_of,
    positions_in,
    ticks_in,
)
from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.api.errors import StoreFailed
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.delayed.due_batch import DueBatch, Gathering
from arneb_core.delayed.index import DelayedIndex
from arneb_core.delayed.tracker import NEVER_MS, Reading
from arneb_core.subscription.entries.wanted import set_free, wanted_of, wanted_of_batch
from arneb_core.subscription.sources.due import DueSource
from arneb_core.subscription.sources.gathering import COLLECT_MAX, RELEASE_MAX
from arneb_core.subscription.sources.replay import ReplaySet
from arneb_core.subscription.state.effects import Continue, TryAgain, WakeAt
from arneb_core.subscription.state.past_deliveries import PastDeliveries
from arneb_core.subscription.state.state import SubscriptionState

RELEASE_AT_ONCE_MAX: Final = 32_768
"""Keys asked for when times do not count; with more keys, more share a block. 256 KiB."""

RELEASES_MAX: Final = 4
"""Attempts in one turn, when everything released turns out to be acknowledged."""

logger = logging.getLogger(__name__)


class DelayedEntries:
    """The delayed entries of one subscription.

    Invariant while it holds back: an unacknowledged entry of the index after ``_reached`` is
    nowhere else (unless it departs); any other unacknowledged one is in flight, in the replay set
    or in the due source.
    """

    def __init__(
        self,
        state: SubscriptionState,
        past: PastDeliveries,
        index: DelayedIndex,
        *,
        by_time: bool = False,
    ) -> None:
        """``by_time``: as the consumers that are attached already ask for."""
        self._state = state
        self._reader = reader = state.reader
        self._past = past
        self._index = index
        self._tracker = index.tracker
        self._due = DueSource(state.log, index.cache, state.wake, state.read_failed)
        self._reached: DueKey = BEFORE_ALL_TIME
        self._next_ms = 0
        """Nothing comes due before this."""
        self._released_ms = 0
        self._passed_after = BEFORE_ALL
        """Where the reader was when the index was last told what is no longer wanted."""
        self._freed: Position | None = None
        """While held entries are being set free: how far that has got."""
        self._free_through = BEFORE_ALL
        self._by_time = by_time
        self._out_through = BEFORE_ALL_TIME
        """The index is read again up to here, so some of these entries may be out already."""
        self._failed = False
        self._collects = False
        """More may be due, and is to go out together with what was taken already."""
        self._held = 0
        self._counted_from = BEFORE_ALL
        kind = state.type
        self.is_holding = kind is None or kind.traits.holds_back_delayed
        if self.is_holding:
            reader.skip = self._tracker.members
        self._count_anew()

    def __repr__(self) -> str:
        state = f"{self.entries} entries" if self.is_holding else "nothing"
        return f"<DelayedEntries {state}, {len(self._due)} due>"

    @property
    def goes_first(self) -> bool:
        """It must be asked before the replay set: held entries are being put there, and nothing
        goes out meanwhile; or a source that goes by urgency must see what is due."""
        return self.is_freeing or not isinstance(self._state.replay, ReplaySet)

    @property
    def is_freeing(self) -> bool:
        """Held entries are being put into the replay set."""
        return self._freed is not None

    @property
    def has_due(self) -> bool:
        """Something came due and was not handed out yet."""
        return len(self._due) > 0

    @property
    def is_wanting(self) -> bool:
        """It needs the index, now or later."""
        return self.is_holding or self._freed is not None

    @property
    def reached(self) -> DueKey:
        """Nothing of the index up to here is wanted any more."""
        return BEFORE_ALL_TIME if self._freed is not None else self._reached

    @property
    def after(self) -> Position:
        """The reader no longer needs the index up to here."""
        return self._reader.after

    @property
    def entries(self) -> int:
        """About how many entries are not due yet."""
        if not self.is_holding:
            return 0
        due = self._tracker.count_due(self._reached, self._state.now_ms()) if self._held else 0
        return max(0, self._held - due)

    # Coming

    def added(self, count: int, soonest_ms: int) -> None:
        """Note ``count`` entries added to the index, the first of them due at ``soonest_ms``."""
        self._held += count
        tick_ms = self._index.settings.tick_ms
        self._next_ms = min(self._next_ms, max(soonest_ms, self._released_ms + tick_ms))

    def begin(self, spec: ConsumerSpec) -> None:
        """Prepare for the first consumer, which asks for ``spec``."""
        self._by_time = spec.by_time
        holds = spec.type.traits.holds_back_delayed
        if holds is self.is_holding:
            return
        self._out_through = AFTER_ALL_TIME
        if holds:
            # Entries of the index come at their time, whatever became of them meanwhile.
            self.is_holding, self._freed = True, None
            replay = self._state.replay
            replay.discard([Position(each) for each in replay.positions & self._tracker.members])
            self._reached, self._next_ms = BEFORE_ALL_TIME, 0
            self._reader.skip = self._tracker.members
            self._count_anew()
        else:
            self.is_holding = False
            self._free_through = self._reader.after
            self._freed = self._state.acks.mark_delete
            # Due entries may have left the index, and the reader is past them.
            self._state.replay.add(self._due.positions_through(self._free_through))
            self._due.clear()
            # Entries that the index gave out ahead of the reader must not come twice.
            self._reader.skip = BitMap64(
                [position for position in self._out() if position > self._free_through]
            )
        self._reader.drop_cached()

    # Going

    def source(self) -> DueSource | None:
        """Return what is due and goes before anything new; None when there is nothing."""
        due = self._due
        if due and not self._collects:
            return due
        if self.is_freeing:
            return self._later() if self._free() else None
        if not self.is_holding:
            return None
        now_ms = self._state.now_ms()
        self._index.look_at_clock(now_ms)
        if now_ms >= self._next_ms and not self._failed:
            self._release(now_ms)
        if due:
            self._collects &= due.is_sorting
            return due
        if self._passed_after != self._reader.after and self._reached > BEFORE_ALL_TIME:
            self._passed_after = self._reader.after
            self._index.passed()
        self._index.rest()
        if self._next_ms < NEVER_MS and not self._failed:
            self._state.outbox.put(WakeAt(self._next_ms))
        return None

    def returning(self, positions: Sequence[Position], after: Position) -> list[Position]:
        """Return those of ``positions``, which came back, that neither the due source nor the
        reader at ``after`` hands out by itself: both still have batches that went out in part."""
        skip = self._reader.skip
        if skip is None:
            return [position for position in positions if position <= after]
        return [
            position
            for position in positions
            if (position not in self._due if position in skip else position <= after)
        ]

    def discard(self, positions: Sequence[Position]) -> None:
        """``positions`` were acknowledged."""
        self._due.discard(positions)

    def discard_through(self, position: Position) -> None:
        """Everything up to ``position`` was acknowledged."""
        self._due.discard_through(position)
        if self._held and not self._index.count_after(position):
            self._held, self._counted_from = 0, position

    def clear(self, position: Position) -> None:
        """Everything up to ``position`` that was ready, or not due yet, was acknowledged."""
        self._due.clear()
        self.discard_through(position)

    def drop_cached(self) -> None:
        """Drop the entries held; they are read again when they are needed."""
        self._due.drop_cached()

    def reset(self) -> None:
        """A seek: everything is judged again."""
        self._due.clear()
        self._due.is_sorting = False
        self._reached, self._next_ms = BEFORE_ALL_TIME, 0
        self._freed, self._out_through = None, BEFORE_ALL_TIME
        self._reader.skip = self._tracker.members if self.is_holding else None
        self._count_anew()

    def start_over(self) -> None:
        """A turn failed half-way: everything but what departs is judged again."""
        self.reset()
        self._out_through = AFTER_ALL_TIME

    def set_back(self) -> None:
        """The clock was set back. Released entries stay released; the rest come due by the clock
        as it is now."""
        if not self.is_holding:
            return
        self._out_through = max(self._out_through, self._reached)
        self._reached, self._next_ms, self._released_ms = BEFORE_ALL_TIME, 0, 0
        self._count_anew()
        self._state.wake()

    def retry(self) -> None:
        """Try again to read what could not be read."""
        self._failed = False
        self._due.fetch.retry()

    @property
    def unreadable(self) -> Position | None:
        """Where the log could not be read."""
        return self._due.fetch.failed_at

    # Inside

    def _release(self, now_ms: int) -> None:
        """Take what came due out of the index."""
        for _ in range(RELEASES_MAX):
            self._due.is_sorting = True
            reached = self._reached
            by_log = not (self._by_time or self._is_by_urgency)
            next_ms = self._take_batch(now_ms) if by_log else self._take_keys(now_ms)
            if next_ms is None:
                self._collects = self._by_time
                return
            self._due.is_sorting = self._collects = False
            self._next_ms = next_ms
            if has_moved := self._reached != reached:
                self._index.passed()
            if next_ms > now_ms:
                if has_moved:
                    self._released_ms = now_ms
                    self._next_ms = max(next_ms, now_ms + self._index.settings.tick_ms)
                return
            if self._due:
                if self._by_time and len(self._due) < COLLECT_MAX:
                    self._later()
                    self._collects = True
                return
        self._later()

    @property
    def _is_by_urgency(self) -> bool:
        """Priorities or keys decide what goes next, as they do among replays."""
        kind = self._state.type
        by_key = kind is not None and kind.traits.by_key
        return by_key or not isinstance(self._state.replay, ReplaySet)

    def _take_batch(self, now_ms: int) -> int | None:
        """Take the next whole batch, which subscriptions that have reached the same key share;
        return when there is more, None while the batch is being read or put together."""
        batch = self._index.batch(self._reached, now_ms, self._read_done)
        if isinstance(batch, Gathering):
            self._later()
        if not isinstance(batch, DueBatch):
            return None
        if batch.positions:
            self._reached = batch.last
            self._put_batch(batch)
        return batch.next_ms

    def _take_keys(self, now_ms: int) -> int | None:
        """Take some keys; return when there are more, None while they are being read."""
        limit = RELEASE_MAX if self._by_time else RELEASE_AT_ONCE_MAX
        reading = self._index.read(self._reached, now_ms, limit, self._read_done)
        if reading is None:
            return None
        if reading.keys:
            self._reached = reading.keys[-1]
            self._put(reading)
        return reading.next_ms

    def _later(self) -> DueSource:
        """Let others have their turn before more is looked through; see :meth:`resume`."""
        self._due.is_sorting = True
        self._state.outbox.put(Continue())
        return self._due

    def resume(self) -> None:
        """Others had their turn."""
        self._read_done(None)

    def _read_done(self, error: StoreFailed | None) -> None:
        """The index has read on, or could not."""
        self._due.is_sorting = False
        if error is not None:
            self._failed = True
            logger.error(
                "%s cannot read its delayed entries and will retry: %s", self._state.label, error
            )
            self._state.outbox.put(TryAgain(is_read=True))
        self._state.wake()

    def _put_batch(self, batch: DueBatch) -> None:
        """Make the wanted entries of ``batch`` due."""
        self._held -= len(batch.positions) - bisect_right(batch.positions, self._counted_from)
        wanted = wanted_of_batch(self._state, batch, self._out_by(batch.first))
        if wanted:
            if batch.is_vouched:
                self._past.vouch(wanted)
            self._due.add(batch.positions, wanted)

    def _put(self, reading: Reading) -> None:
        """Make the wanted entries of ``reading`` due."""
        keys, tick_ms = reading.keys, self._index.settings.tick_ms
        # Entries never go out early, so nobody can have had these before this process started.
        vouched = bisect_left(keys, end_of(self._index.opened_ms))
        if not self._by_time and vouched in {0, len(keys)}:
            self._put_run(self._index.positions_of(reading), keys[0], is_vouched=not vouched)
            return
        for part, is_vouched in ((keys[:vouched], False), (keys[vouched:], True)):
            for tick in ticks_in(part, tick_ms) if self._by_time else filter(None, [part]):
                self._put_run(positions_in(tick), tick[0], is_vouched=is_vouched)

    def _put_run(self, positions: Sequence[Position], first: DueKey, *, is_vouched: bool) -> None:
        """Make the wanted ones of ``positions``, which ascend, due next; ``first``: the first
        key."""
        state = self._state
        self._held -= len(positions) - bisect_right(positions, self._counted_from)
        run = wanted_of(state, positions, self._out_by(first))
        if not run:
            return
        if is_vouched:
            self._past.vouch(run)
        if self._is_by_urgency:
            state.replay.add(run)
            state.wake()
        else:
            self._due.add(array("Q", run))

    def _free(self) -> bool:
        """Set free more entries that the reader is past. Return True if there are more."""
        assert self._freed is not None, "there is something to set free"
        members = self._tracker.members
        self._freed = set_free(self._state, members, self._freed, self._free_through)
        return self._freed is not None

    def _out_by(self, first: DueKey) -> BitMap64:
        """Return what may be out already among entries due from ``first`` on."""
        return self._out() if first <= self._out_through else BitMap64()

    def _out(self) -> BitMap64:
        """Return the unacknowledged entries that neither the index nor the reader still has."""
        state = self._state
        out = BitMap64(state.positions_in_flight()) | BitMap64(state.holder.positions)
        return out | state.replay.positions | self._due.positions

    def _count_anew(self) -> None:
        self._counted_from = self._state.acks.mark_delete
        self._held = self._index.count_after(self._counted_from)
