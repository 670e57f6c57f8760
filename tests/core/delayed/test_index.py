"""Due entries are gathered once for all subscriptions that want the same, in bounded batches."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.entries.due_key import BEFORE_ALL_TIME, DueKey, due_key, position_of
from arneb_core.api.entries.position import AFTER_ALL, Position
from arneb_core.api.topics.settings import DelayedSettings
from arneb_core.delayed import index
from arneb_core.delayed.due_batch import DueBatch, Gathering
from arneb_core.delayed.index import BATCH_FIRST, BATCH_MAX, BATCH_MIN, QUICK_MS, DelayedIndex
from arneb_core.delayed.memory import InMemoryDelayedDeliveryTracker
from arneb_core.log.tail_cache import CacheBudget


@dataclass
class FakeReader:
    """A subscription, as far as an index knows one."""

    reached: DueKey = BEFORE_ALL_TIME
    after: Position = AFTER_ALL
    is_wanting: bool = True
    has_due: bool = True

    def added(self, count: int, soonest_ms: int) -> None: ...

    def set_back(self) -> None: ...


class FakeLog:
    """Of which only the end is asked."""

    last = None
    stamped_ms = 0


def index_of(keys: list[DueKey], readers: list[FakeReader], opened_ms: int = 0) -> DelayedIndex:
    tracker, log = InMemoryDelayedDeliveryTracker(keys), FakeLog()
    settings, budget = DelayedSettings(), CacheBudget()
    return DelayedIndex(
        "t", log, tracker, settings, budget, lambda: readers, opened_ms  # type: ignore[arg-type]
    )  # fmt: skip


def next_batch(found: DelayedIndex, reader: FakeReader, now_ms: int) -> DueBatch:
    """The batch that ``reader`` takes, in as many turns as it takes."""
    while isinstance(got := found.batch(reader.reached, now_ms, lambda error: None), Gathering):
        pass
    assert got is not None
    reader.reached = got.last
    found.passed()
    return got


def many(count: int, at_ms: int = 5) -> list[DueKey]:
    return [due_key(at_ms + reached % 7, Position(reached)) for reached in range(count)]


def test_subscriptions_that_have_reached_the_same_key_share_a_batch() -> None:
    readers = [FakeReader(after=Position(0)) for _ in range(3)]
    found = index_of(many(100_000), readers)
    batches = [next_batch(found, each, 1_000) for each in readers]
    assert batches[0] is batches[1] is batches[2]
    assert batches[0].positions.tolist() == sorted(batches[0].members)
    first, second, third = (next_batch(found, each, 1_000) for each in readers)
    assert first is second is third and first.after == batches[0].last


def test_a_fast_reader_gets_twice_as_much_and_a_slow_one_half() -> None:
    reader = FakeReader()
    found, now_ms, sizes = index_of(many(600_000), [reader]), 1_000, []
    for wait_ms in (0, QUICK_MS - 1, QUICK_MS - 1, QUICK_MS - 1, 2 * QUICK_MS + 1, QUICK_MS + 1):
        now_ms += wait_ms
        sizes.append(len(next_batch(found, reader, now_ms).positions))
    half = BATCH_MAX // 2
    assert sizes == [BATCH_FIRST, 2 * BATCH_FIRST, BATCH_MAX, BATCH_MAX, half, half]


def test_all_batches_of_a_topic_have_a_bound() -> None:
    readers = [FakeReader() for _ in range(100)]
    found = index_of(many(100_000), readers)
    size = len(next_batch(found, readers[0], 1_000).positions)
    assert BATCH_MIN <= size < BATCH_MIN + index.BATCHES_MAX // 100


def test_entries_that_no_subscription_waits_for_are_not_kept() -> None:
    readers = [FakeReader(after=Position(0)) for _ in range(2)]
    found = index_of(many(300_000), readers)
    for _ in range(4):
        next_batch(found, readers[0], 1_000)
    assert len(found._batches) <= 2, (
        "only the other subscription's batch and the latest may be kept"
    )


times = st.lists(st.integers(0, 60), min_size=1, max_size=60)


@given(times, st.integers(0, 70), st.integers(0, 70))
def test_a_batch_is_vouched_for_as_a_whole_or_not_at_all(
    due_ms: list[int], opened_ms: int, now_ms: int
) -> None:
    keys = sorted(due_key(at_ms, Position(reached)) for reached, at_ms in enumerate(due_ms))
    reader = FakeReader()
    found = index_of(keys, [reader], opened_ms)
    wanted = [key for key in keys if key >> 64 <= now_ms]
    seen: list[DueKey] = []
    for _ in range(len(keys) + 1):
        batch = next_batch(found, reader, now_ms)
        part = wanted[len(seen) : len(seen) + len(batch.positions)]
        assert batch.positions.tolist() == sorted(map(position_of, part))
        if part:
            assert (batch.first, batch.last) == (part[0], part[-1])
            assert {key >> 64 > opened_ms for key in part} == {batch.is_vouched}
        seen += part
        if batch.next_ms > now_ms:
            break
    assert seen == wanted
