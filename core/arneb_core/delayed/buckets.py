"""The index on disk: buckets, and in memory only what comes due next.

The rule: keys in memory alone can be rebuilt from the log after the position that buckets cover.
So nothing is written with each delayed entry: when enough keys are in memory, or a ledger closes,
they are sealed as one bucket, in a commit of its own; a crash before that costs a pass over the
last ledger. Source of the scheme: Pulsar's PIP-195 (``BucketDelayedDeliveryTracker``); there each
subscription has an index of its own.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from pyroaring import BitMap64

from arneb_core.api.entries.due_key import POSITION_MASK, DueKey, TimedRun, end_of, time_of
from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.api.errors import CommitFailed, StoreFailed
from arneb_core.api.topics.settings import DelayedSettings
from arneb_core.delayed.bucket import (
    Bucket,
    Put,
    all_members,
    count_between,
    highest_position,
    keys_between,
)
from arneb_core.delayed.merging import Merging
from arneb_core.delayed.sealing import Sealing
from arneb_core.delayed.segment_store import SegmentName, Segments, SegmentStore
from arneb_core.delayed.tracker import NEVER_MS, OnRead, Reading
from arneb_core.delayed.unsealed import UnsealedKeys
from arneb_core.store.format.delayed_rows import Span, pack_through
from arneb_core.store.format.schema import Table, TopicId, through_key

logger = logging.getLogger(__name__)

SEGMENTS_HELD_MIN: Final = 16
"""Segments in memory besides two for each bucket: subscriptions may have reached different keys."""


class BucketDelayedDeliveryTracker:
    """An index in buckets; see :class:`.DelayedDeliveryTracker`.

    Invariant: every key is in ``_last``, in ``_sealing`` or in one of ``_buckets``, and its entry
    in :attr:`members`.
    """

    def __init__(
        self,
        topic_id: TopicId,
        store: SegmentStore,
        settings: DelayedSettings,
        *,
        buckets: Iterable[Bucket] = (),
        unsealed: Sequence[DueKey] = (),
        through: Position = BEFORE_ALL,
    ) -> None:
        self._topic_id = topic_id
        self._store = store
        self._settings = settings
        self._buckets = list(buckets)
        self._next_id = max((each.id for each in self._buckets), default=0) + 1
        self._last = UnsealedKeys(unsealed)
        self._sealing: UnsealedKeys | None = None
        self._through = through
        self.members: BitMap64 = all_members(self._buckets)
        self.members.update([key & POSITION_MASK for key in unsealed])
        self._segments: OrderedDict[SegmentName, bytes] = OrderedDict()
        self._waiting: dict[SegmentName, list[OnRead]] = {}
        self._watermark_ms = -1
        self._merging: Merging | None = None
        self._until_merged: dict[OnRead, None] = {}
        """To be told when the merge under way ends."""

    def __repr__(self) -> str:
        return f"<BucketDelayedDeliveryTracker {self._buckets!r}, {len(self._last)} unsealed>"

    @property
    def buckets(self) -> int:
        """How many buckets there are."""
        return len(self._buckets)

    # Coming

    def add(self, keys: Sequence[DueKey], through: Position, *, rolled: bool) -> int:
        """Add entries that were committed just now."""
        self._through = through
        low = min(keys, default=None)
        # A subscription may be past these; its reader delivers their entries instead.
        if low is not None and time_of(low) <= self._watermark_ms:
            keys = [key for key in keys if time_of(key) > self._watermark_ms]
            low = min(keys, default=None)
        if low is not None:
            self._last.add(keys, low)
            self.members.update([key & POSITION_MASK for key in keys])
        self._seal_if_enough(rolled=rolled)
        return NEVER_MS if low is None else time_of(low)

    def add_run(self, run: TimedRun, *, rolled: bool) -> int:
        """Add a run of which every entry is delayed. Hot path: nothing is made for each key."""
        low_ms = time_of(run.low)
        if low_ms <= self._watermark_ms:
            return self.add(run.all_keys(), run.last, rolled=rolled)
        self._through = run.last
        self._last.add_run(run)
        self.members.add_range(run.first, run.last + 1)
        self._seal_if_enough(rolled=rolled)
        return low_ms

    def _seal_if_enough(self, *, rolled: bool) -> None:
        if rolled or len(self._last) >= self._settings.seal_entries:
            self._seal()

    def _seal(self) -> None:
        if self._sealing is not None:
            return  # the next seal takes what came meanwhile
        settings = self._settings
        rows: list[Put] = [
            (Table.DELAYED, through_key(self._topic_id), pack_through(self._through))
        ]
        self._sealing, self._last = self._last, UnsealedKeys()

        def put(bucket: Bucket | None, puts: Sequence[Put]) -> None:
            self._store.put([*rows, *puts], lambda error: self._sealed(bucket, error))

        if self._sealing:
            runs = self._sealing.sorted_runs()
            sealing = Sealing(self._topic_id, self._new_id(), runs, settings, self._store)
            sealing.start(put, lambda error: self._sealed(None, error))
        else:
            put(None, ())

    def _sealed(self, bucket: Bucket | None, error: CommitFailed | None) -> None:
        sealing, self._sealing = self._sealing, None
        assert sealing is not None, "a seal is answered once"
        if error is not None:
            if sealing:
                keys = sealing.keys()
                self._last.add(keys, keys[0])  # they are in the log too: try again later
        elif bucket is not None:
            bucket.members &= self.members  # some may have been passed meanwhile
            if bucket.members:
                self._buckets.append(bucket)
                self._merge_if_many()
            else:
                self._remove([bucket])

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    # Answering

    def read(self, reached: DueKey, until_ms: int, limit: int, on_read: OnRead) -> Reading | None:
        """Return what comes due after ``reached``."""
        self._watermark_ms = max(self._watermark_ms, until_ms)
        return self._read(reached, until_ms, limit, on_read)

    def look(self, reached: DueKey, limit: int, on_read: OnRead) -> Reading | None:
        """As :meth:`read`, whatever the time; nothing counts as handed out."""
        return self._read(reached, NEVER_MS - 1, limit, on_read)

    def _read(self, reached: DueKey, until_ms: int, limit: int, on_read: OnRead) -> Reading | None:
        end, next_ms = end_of(until_ms), NEVER_MS
        segments: list[bytes] = []
        missing: list[SegmentName] = []
        complete = end
        for bucket in self._buckets:
            index = bucket.segment_after(reached)
            if index is None:
                continue
            span = bucket.spans[index]
            if span.first >= end:
                next_ms = min(next_ms, time_of(span.first))
                continue
            records = self._held((bucket.id, index))
            if records is None:
                missing.append((bucket.id, index))
                continue
            segments.append(records)
            if index < len(bucket.spans) - 1:
                # Behind this the bucket goes on in a segment not looked at here.
                complete = min(complete, DueKey(span.last + 1))
        if missing:
            self.fetch(missing, on_read)
            return None
        found: list[DueKey] = []
        parts = [keys_between(records, reached, complete, limit) for records in segments]
        parts += [
            unsealed.between(reached, complete, limit)
            for unsealed in (self._sealing, self._last)
            if unsealed
        ]
        for keys, following in parts:
            found += keys
            if following >= 0:
                next_ms = min(next_ms, time_of(following))
        found.sort()  # sorted runs: cheap
        if len(found) > limit:
            next_ms = min(next_ms, time_of(found[limit]))
            del found[limit:]
        return Reading(found, next_ms if complete == end else min(next_ms, until_ms))

    def count_due(self, reached: DueKey, until_ms: int) -> int:
        """Count roughly the keys after ``reached`` that come due up to ``until_ms``. In a segment
        that is not in memory, times are taken as evenly spread."""
        end = end_of(until_ms)
        count = self._last.count(reached, end)
        if self._sealing:
            count += self._sealing.count(reached, end)
        for bucket in self._buckets:
            start = bucket.segment_after(reached)
            if start is None:
                continue
            for index, span in enumerate(bucket.spans[start:], start):
                if span.first >= end:
                    break
                if reached < span.first and span.last < end:
                    count += span.entries
                else:
                    count += self._count_part((bucket.id, index), span, reached, end)
        return count

    def _count_part(self, name: SegmentName, span: Span, reached: DueKey, end: DueKey) -> int:
        records = self._segments.get(name)
        if records is not None:
            return count_between(records, reached, end)
        first_ms, last_ms = time_of(span.first), time_of(span.last)
        low, high = max(first_ms, time_of(reached)), min(last_ms, time_of(end))
        return round(span.entries * max(0, high - low) / max(1, last_ms - first_ms))

    # Segments in memory

    def _held(self, name: SegmentName) -> bytes | None:
        records = self._segments.get(name)
        if records is not None:
            self._segments.move_to_end(name)
        return records

    def fetch(self, names: Sequence[SegmentName], on_read: OnRead) -> None:
        """Have segments read; ``on_read`` is called when some of them have come, or could not."""
        wanted = [name for name in names if name not in self._waiting]
        for name in names:
            tellers = self._waiting.setdefault(name, [])
            if on_read not in tellers:
                tellers.append(on_read)
        if wanted:
            self._store.get(wanted, lambda found: self._fetched(wanted, found))

    def _fetched(self, wanted: Sequence[SegmentName], found: Segments | StoreFailed) -> None:
        waiting: dict[OnRead, None] = {}
        for name in wanted:
            waiting.update(dict.fromkeys(self._waiting.pop(name, ())))
        if isinstance(found, StoreFailed):
            self._tell(waiting, found)
            return
        known = {bucket.id: bucket for bucket in self._buckets}
        self._segments.update((name, found[name]) for name in found if name[0] in known)
        self._shrink()
        absent = {name[0] for name in wanted if name not in found}
        missed = [known[each] for each in absent & known.keys()]
        lost = [each for each in missed if not each.is_merging]
        if lost:
            self._repair(lost, waiting)
        elif missed:
            # The merge may be on disk, with the news of it still on its way.
            self._until_merged.update(waiting)
        else:
            self._tell(waiting, None)

    def _tell(self, waiting: Iterable[OnRead], error: StoreFailed | None) -> None:
        for each in waiting:
            each(error)

    def _repair(self, buckets: Sequence[Bucket], waiting: Iterable[OnRead]) -> None:
        """Rebuild buckets with lost or damaged segments: what they said is in the log too."""
        logger.error("damaged buckets of the delayed index are rebuilt from the log: %r", buckets)
        members = all_members(buckets) & self.members

        def looked_up(found: list[DueKey] | StoreFailed) -> None:
            if isinstance(found, StoreFailed):
                self._tell(waiting, found)
                return
            present = [e for e in buckets if e in self._buckets and not e.is_merging]
            if len(present) == len(buckets):
                self._remove(buckets)
                if found:
                    self._last.add(found, min(found))
                    self.members.update([key & POSITION_MASK for key in found])
            self._tell(waiting, None)

        self._store.look_up(members, looked_up)

    def _shrink(self) -> None:
        held_max = SEGMENTS_HELD_MIN + 2 * len(self._buckets)
        while len(self._segments) > held_max:
            self._segments.popitem(last=False)

    # Going

    def passed(self, reached: DueKey, after: Position) -> None:
        """Drop keys up to ``reached`` whose entries are at or before ``after``: nobody wants
        them."""
        self.members.difference_update(self._last.drop(reached, after))
        gone = [
            each
            for each in self._buckets
            if each.last <= reached and highest_position(each) <= after and not each.is_merging
        ]
        if gone:
            self._remove(gone)

    def set_back(self) -> None:
        """The clock was set back, and every subscription reads from the beginning."""
        self._watermark_ms = -1

    def log_trimmed(self, floor: Position) -> None:
        """Drop keys of entries up to ``floor``, which the log no longer has."""
        if not self.members or self.members.min() > floor:
            return
        self._last.drop_through(floor)
        self.members.remove_range(0, floor + 1)
        gone = [e for e in self._buckets if highest_position(e) <= floor and not e.is_merging]
        if gone:
            self._remove(gone)

    def _remove(self, buckets: Sequence[Bucket]) -> None:
        """Remove ``buckets``. If the commit fails, their rows are left over; the next start finds
        them passed, as they are now."""
        for bucket in buckets:
            self.members.difference_update(bucket.members)
            if bucket in self._buckets:
                self._buckets.remove(bucket)
            for index in range(len(bucket.spans)):
                self._segments.pop((bucket.id, index), None)
        rows = [row for bucket in buckets for row in bucket.removal(self._topic_id)]
        self._store.put(rows, lambda error: None)

    # Merging

    def _merge_if_many(self) -> None:
        """Merge small buckets when there are too many."""
        settings = self._settings
        if self._merging is not None or len(self._buckets) <= settings.buckets_max:
            return
        small = sorted(self._buckets, key=lambda each: each.entries)
        small = small[: max(2, settings.buckets_max // 2)]
        while small and sum(each.entries for each in small) > settings.bucket_entries_max:
            small.pop()
        if len(small) < 2:
            return
        for each in small:
            each.is_merging = True
        self._merging = Merging(self._topic_id, self._new_id(), small, settings, self._store)
        self._merging.start(self._merged)

    def _merged(self, made: Bucket | None, sources: Sequence[Bucket]) -> None:
        self._merging = None
        for each in sources:
            each.is_merging = False
        if made is not None:
            self._replace(sources, made)
            self._merge_if_many()
        # Otherwise it is tried again at the next seal.
        waiting, self._until_merged = self._until_merged, {}
        self._tell(waiting, None)

    def _replace(self, sources: Sequence[Bucket], made: Bucket) -> None:
        for each in sources:
            if each in self._buckets:
                self._buckets.remove(each)
            for index in range(len(each.spans)):
                self._segments.pop((each.id, index), None)
        self._buckets.append(made)
