"""The index in buckets answers as the one in memory does, whatever is on disk or fails."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from arneb_core.api.entries.due_key import (
    BEFORE_ALL_TIME,
    DueKey,
    due_key,
    position_of,
    time_of,
    timed_run,
)
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import CommitFailed, StoreFailed
from arneb_core.api.topics.settings import DelayedSettings
from arneb_core.delayed.bucket import Bucket, Put
from arneb_core.delayed.buckets import SEGMENTS_HELD_MIN, BucketDelayedDeliveryTracker
from arneb_core.delayed.memory import InMemoryDelayedDeliveryTracker
from arneb_core.delayed.segment_store import SegmentName, Segments
from arneb_core.delayed.tracker import NEVER_MS, Reading
from arneb_core.store.format.delayed_rows import unpack_head, unpack_members, unpack_segment
from arneb_core.store.format.schema import DelayedKind, TopicId, parse_delayed_key, segment_key

TOPIC = TopicId(7)
SMALL = DelayedSettings(seal_entries=6, segment_entries=3, segment_ms=20, buckets_max=2)


class FakeSegmentStore:
    """Rows in a dictionary; answers come when the test says so."""

    def __init__(self) -> None:
        self.rows: dict[bytes, bytes] = {}
        self._answers: deque[Callable[[], None]] = deque()
        self.fails = False
        self.tells_late = False
        """What is on disk is told of by :meth:`tell`: others may read it before that."""
        self._late: deque[Callable[[], None]] = deque()
        self.log: list[DueKey] = []

    def put(self, rows: Sequence[Put], done: Callable[[CommitFailed | None], None]) -> None:
        rows = list(rows)

        def answer() -> None:
            if self.fails:
                done(StoreFailed("as told"))
                return
            for _, key, value in rows:
                if value is None:
                    self.rows.pop(key, None)
                else:
                    self.rows[key] = value
            if self.tells_late:
                self._late.append(lambda: done(None))
            else:
                done(None)

        self._answers.append(answer)

    def get(
        self, names: Sequence[SegmentName], then: Callable[[Segments | StoreFailed], None]
    ) -> None:
        def answer() -> None:
            if self.fails:
                then(StoreFailed("as told"))
                return
            found = {name: self.rows.get(segment_key(TOPIC, *name)) for name in names}
            then({name: unpack_segment(row) for name, row in found.items() if row is not None})

        self._answers.append(answer)

    def look_up(
        self, members: BitMap64, then: Callable[[list[DueKey] | StoreFailed], None]
    ) -> None:
        found = [key for key in self.log if position_of(key) in members]
        self._answers.append(lambda: then(found))

    def answer(self) -> bool:
        """Give one answer; False when none is due."""
        if self._answers:
            self._answers.popleft()()
            return True
        return False

    def tell(self) -> bool:
        """Tell of one commit that is on disk; False when all are known."""
        if self._late:
            self._late.popleft()()
            return True
        return False

    def settle(self) -> None:
        """Answer and tell everything."""
        while self.answer() or self.tell():
            pass

    def buckets(self) -> list[Bucket]:
        """What a start would find."""
        made = []
        for key, value in self.rows.items():
            _, number, kind, _ = parse_delayed_key(key)
            if kind is DelayedKind.HEAD:
                members = {parse_delayed_key(k)[1:3]: v for k, v in self.rows.items()}
                found = unpack_members(members[number, DelayedKind.MEMBERS])
                made.append(Bucket(number, unpack_head(value), found))
        return made


def read_all(tracker: BucketDelayedDeliveryTracker, store: FakeSegmentStore, *args: Any) -> Reading:
    """A reading, waited for."""
    for _ in range(1000):
        reading = tracker.read(*args, lambda error: None)
        if reading is not None:
            return reading
        assert store.answer() or store.tell()
    raise AssertionError("it reads on and on")


OPS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["add", "add run"]),
            st.lists(st.integers(0, 99), max_size=9),
            st.booleans(),
        ),
        st.tuples(st.just("read"), st.integers(0, 1), st.integers(0, 99), st.integers(1, 9)),
        st.tuples(st.just("pass"), st.integers(0, 200)),
        st.tuples(st.just("trim"), st.integers(0, 200)),
        st.tuples(st.just("answer"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["fail", "work", "start"])),
    ),
    max_size=30,
)


ERAS = st.sampled_from([1, 1 << 40])
"""When the times begin: those of our days are sorted as floats, if they came as runs."""


@given(OPS, ERAS)
@settings(max_examples=500)
def test_buckets_and_memory_agree(ops: list[tuple[Any, ...]], era: int) -> None:
    store, twin = FakeSegmentStore(), InMemoryDelayedDeliveryTracker()
    tracker = BucketDelayedDeliveryTracker(TOPIC, store, SMALL)
    positions = [BEFORE_ALL_TIME, BEFORE_ALL_TIME]
    following, gone = 0, -1
    for op in ops:
        match op:
            case ("add", times, rolled):
                keys = [due_key(era + at, Position(following + i)) for i, at in enumerate(times)]
                following += len(times)
                through = Position(max(following - 1, 0))
                first = tracker.add(keys, through, rolled=rolled)
                assert first == twin.add(keys, through, rolled=rolled)
            case ("add run", times, rolled):
                stamps = b"".join((era + each).to_bytes(8, "big") for each in times or [50])
                run = timed_run(Position(following), stamps, era - 1)
                assert run is not None, "nothing is due"
                following = run.last + 1
                assert run.low >> 64 == min(run.all_keys()) >> 64
                assert tracker.add_run(run, rolled=rolled) == twin.add_run(run, rolled=rolled)
            case ("read", who, until, limit):
                store.fails = False
                until += era
                limit = limit if gone < 0 else 10_000
                found = read_all(tracker, store, positions[who], until, limit)
                expected = twin.read(positions[who], until, limit, lambda error: None)
                assert expected is not None
                found_keys, next_ms = list(found.keys), found.next_ms
                while next_ms <= until and len(found_keys) < limit:
                    reached = found_keys[-1] if found_keys else positions[who]
                    more = read_all(tracker, store, reached, until, limit - len(found_keys))
                    found_keys += more.keys
                    next_ms = more.next_ms
                assert _there(found_keys, gone) == _there(expected.keys, gone)
                # The limit may fall together with the end of a segment; what is trimmed is not
                # always taken out of the buckets; and when the clock is put back, the beginning of
                # a segment may have been read.
                put_back = until < time_of(positions[who])
                assert next_ms == expected.next_ms or next_ms <= until or gone >= 0 or put_back
                assert next_ms <= max(expected.next_ms, until) or gone >= 0
                if expected.keys:
                    positions[who] = max(expected.keys[-1], found_keys[-1] if found_keys else 0)
            case ("pass", after):
                reached = min(positions)
                tracker.passed(reached, Position(after))
                twin.passed(reached, Position(after))
            case ("trim", floor):
                gone = max(gone, min(floor, following - 1))
                if gone < 0:
                    continue
                tracker.log_trimmed(Position(gone))
            case ("answer", count):
                for _ in range(count):
                    store.answer()
            case ("start",):
                store.fails = False
                while store.answer():
                    pass
                unsealed = [*tracker._last.keys()]
                tracker = BucketDelayedDeliveryTracker(
                    TOPIC, store, SMALL, buckets=store.buckets(), unsealed=unsealed
                )
                tracker._watermark_ms = twin._watermark_ms
            case (word,):
                store.fails = word == "fail"
        low = min(positions)
        keys = twin._keys.keys()
        wanted = {position_of(k) for k in keys if k > low and position_of(k) > gone}
        assert wanted <= set(tracker.members), "an entry that is still wanted is missing"
        assert len(tracker._segments) <= SEGMENTS_HELD_MIN + 2 * (tracker.buckets + 1)


def _there(keys: Sequence[DueKey], gone: int) -> list[DueKey]:
    """Those of entries that the log still has."""
    return [key for key in keys if position_of(key) > gone]


def test_small_buckets_become_large_ones() -> None:
    store = FakeSegmentStore()
    tracker = BucketDelayedDeliveryTracker(TOPIC, store, SMALL)
    keys = [due_key(1000 - 7 * n % 90, Position(n)) for n in range(120)]
    for start in range(0, 120, 6):
        tracker.add(keys[start : start + 6], Position(start + 5), rolled=False)
        while store.answer():
            pass
    assert tracker.buckets <= SMALL.buckets_max
    found = []
    reached = BEFORE_ALL_TIME
    while (reading := read_all(tracker, store, reached, 2000, 10)).keys:
        found += reading.keys
        reached = reading.keys[-1]
    assert found == sorted(keys)
    tracker.passed(reached, Position(1 << 40))
    while store.answer():
        pass
    kinds = {parse_delayed_key(key)[2] for key in store.rows}
    assert kinds == {DelayedKind.THROUGH}, "only the row that says where the index ends may be left"
    assert not tracker.members


def test_a_bucket_that_was_merged_a_moment_ago_is_not_lost() -> None:
    store = FakeSegmentStore()
    store.tells_late = True
    tracker = BucketDelayedDeliveryTracker(TOPIC, store, SMALL)
    for start in range(0, 90, 6):
        keys = [due_key(1000 - 7 * n % 90, Position(n)) for n in range(start, start + 6)]
        store.log += keys
        tracker.add(keys, Position(start + 5), rolled=False)
        while True:
            while store.answer():
                pass
            # What was committed is on disk, and nobody was told.
            tracker._segments.clear()
            tracker.read(BEFORE_ALL_TIME, 2000, 3, lambda error: None)
            tracker._watermark_ms = -1  # so that those to come count as delayed
            while store.answer():
                pass
            if not store.tell():
                break
    found: list[DueKey] = []
    reached = BEFORE_ALL_TIME
    while (reading := read_all(tracker, store, reached, 2000, 10)).keys:
        found += reading.keys
        reached = reading.keys[-1]
    assert found == sorted(store.log), "each entry must come once"
    store.settle()
    on_disk = [reached for bucket in store.buckets() for reached in bucket.members]
    assert len(on_disk) == len(set(on_disk))


def test_memory_holds_what_comes_due_next() -> None:
    store = FakeSegmentStore()
    wide = DelayedSettings(seal_entries=1000, segment_entries=10, buckets_max=2)
    tracker = BucketDelayedDeliveryTracker(TOPIC, store, wide)
    keys = [due_key(n, Position(n)) for n in range(5000)]
    for start in range(0, 5000, 1000):
        tracker.add(keys[start : start + 1000], Position(start + 999), rolled=False)
        while store.answer():
            pass
    reached = BEFORE_ALL_TIME
    for until in range(0, 5000, 250):
        while (reading := read_all(tracker, store, reached, until, 100)).keys:
            reached = reading.keys[-1]
            assert time_of(reached) <= until
        assert reading.next_ms == until + 1
        assert len(tracker._segments) <= SEGMENTS_HELD_MIN + 2 * tracker.buckets


def test_what_is_due_already_is_the_readers() -> None:
    tracker = BucketDelayedDeliveryTracker(TOPIC, FakeSegmentStore(), SMALL)
    tracker.read(BEFORE_ALL_TIME, 50, 10, lambda error: None)
    late = due_key(50, Position(3))
    assert tracker.add([late], Position(3), rolled=False) == NEVER_MS
    assert not tracker.members
    assert tracker.add([due_key(51, Position(4))], Position(4), rolled=False) == 51


def test_a_failed_read_is_reported() -> None:
    store = FakeSegmentStore()
    tracker = BucketDelayedDeliveryTracker(TOPIC, store, SMALL)
    keys: list[DueKey] = [due_key(n, Position(n)) for n in range(6)]
    tracker.add(keys, Position(5), rolled=False)
    store.settle()
    calls: list[StoreFailed | None] = []
    assert tracker.read(BEFORE_ALL_TIME, 9, 9, calls.append) is None
    assert tracker.read(BEFORE_ALL_TIME, 9, 9, calls.append) is None
    store.fails = True
    assert store.answer()
    assert not store.answer(), "the segment was read twice"
    assert [type(each) for each in calls] == [StoreFailed]
    store.fails = False
    assert read_all(tracker, store, BEFORE_ALL_TIME, 9, 9).keys == keys[:3]


def test_a_seal_that_could_not_go_on_is_made_again() -> None:
    """Its keys are in memory again, and are sealed with those that came meanwhile."""
    store = FakeSegmentStore()
    tracker = BucketDelayedDeliveryTracker(TOPIC, store, SMALL)
    keys: list[DueKey] = [due_key(n, Position(n)) for n in range(7)]
    tracker.add(keys[:6], Position(5), rolled=False)
    store.fails = True
    assert store.answer()
    store.fails = False
    assert not store.answer()
    assert read_all(tracker, store, BEFORE_ALL_TIME, 5, 99).keys == keys[:6]
    tracker.add(keys[6:], Position(6), rolled=False)
    store.settle()
    (bucket,) = store.buckets()
    assert bucket.entries == len(keys)
    assert bucket.members == tracker.members
