"""What is due against a list, and what was read for it against its bounds."""

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from arneb_core.api.entries.due_key import DueKey, due_key
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import StoreFailed
from arneb_core.delayed.due_cache import ENTRY_BYTES, DueCache
from arneb_core.delayed.unsealed import UnsealedKeys
from arneb_core.log.durable_log import Read, Runs
from arneb_core.log.tail_cache import CacheBudget
from arneb_core.subscription.sources import gathering
from arneb_core.subscription.sources.due import DueSource


def entry_at(position: int) -> bytes:
    return b"%010d" % position


class FakeLog:
    """Entries at all places above ``floor``; reads are answered when the test says so."""

    def __init__(self, mean_bytes: int = 10) -> None:
        self.ledgers = SimpleNamespace(entries=1_000, bytes=1_000 * mean_bytes)
        self.floor = -1
        self.hot = range(0)
        self.reads = 0
        self.fails = False
        self.most = 1_000
        self._answers: deque[Callable[[], None]] = deque()

    def after(self, position: Position) -> Position | None:
        return Position(max(position, self.floor) + 1)

    def read_hot(self, position: Position, limit: int) -> tuple[Position, list[bytes]] | None:
        if position not in self.hot or position <= self.floor:
            return None
        stop = min(self.hot.stop, position + limit)
        return position, [entry_at(each) for each in range(position, stop)]

    def read_positions(self, positions: Sequence[Position], bytes_max: int, then: Read) -> None:
        self.reads += 1

        def answer() -> None:
            if self.fails:
                then(StoreFailed("as told"))
                return
            there = [each for each in positions[: self.most] if each > self.floor]
            then([(each, [entry_at(each)]) for each in there])

        self._answers.append(answer)

    def answer(self) -> bool:
        if self._answers:
            self._answers.popleft()()
            return True
        return False


def source_of(log: Any, cache: DueCache | None = None) -> DueSource:
    cache = DueCache(log, CacheBudget()) if cache is None else cache
    return DueSource(log, cache, lambda: None, lambda fetch: None)


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sets(st.integers(0, 60), min_size=1, max_size=12)),
        st.tuples(
            st.just("share"),
            st.sets(st.integers(0, 60), min_size=1, max_size=12),
            st.sets(st.integers(0, 60), max_size=6),
        ),
        st.tuples(st.just("other"), st.integers(1, 6)),
        st.tuples(st.just("take"), st.integers(1, 6)),
        st.tuples(st.just("discard"), st.sets(st.integers(0, 60), max_size=6)),
        st.tuples(st.just("through"), st.integers(0, 40)),
        st.tuples(st.just("trim"), st.integers(0, 30)),
        st.tuples(st.just("hot"), st.integers(0, 60), st.integers(0, 20)),
        st.tuples(st.just("short"), st.integers(1, 5)),
        st.tuples(st.just("fail"), st.booleans()),
        st.tuples(st.just("drop cached")),
    ),
    max_size=40,
)


@given(OPS)
@example(
    [("add", {0, 1, 2}), ("take", 1), ("take", 2), ("share", {0, 1}, {0}), ("add", {0})]
)  # what was handed out comes due again, and a run before it is not at its end
@settings(max_examples=300)
def test_each_that_is_due_comes_once_in_its_turn(ops: list[tuple[Any, ...]]) -> None:
    log: Any = FakeLog()
    held = 10 * (ENTRY_BYTES + 10)
    cache = DueCache(log, CacheBudget(), bytes_max=held, gathered_bytes_max=held)
    source, model = source_of(log, cache), list[list[int]]()
    other, others = source_of(log, cache), list[list[int]]()
    for op in ops:
        match op:
            case ("add", positions):
                run = sorted(positions - set(chain(*model)))
                if run:
                    source.add(array("Q", run))
                    model.append(run)
            case ("share", positions, unwanted):
                # Another subscription has the same run, and wants all of it.
                run = array("Q", sorted(positions - set(chain(*model)) - set(chain(*others))))
                wanted = [each for each in run if each not in unwanted]
                if wanted:
                    source.add(run, BitMap64(wanted))
                    model.append(wanted)
                    other.add(run, BitMap64(run))
                    others.append(run.tolist())
            case ("other", count):
                take(other, log, others, count)
            case ("take", count):
                take(source, log, model, count)
            case ("discard", positions):
                source.discard(map(Position, positions))
                model = [[each for each in run if each not in positions] for run in model]
            case ("through", position):
                source.discard_through(Position(position))
                model = [[each for each in run if each > position] for run in model]
            case ("trim", position):
                # A start of the log that goes is told of, but later.
                log.floor = max(log.floor, position)
            case ("hot", first, count):
                log.hot = range(first, first + count)
            case ("short", most):
                log.most = most
            case ("fail", fails):
                log.fails = fails
            case ("drop cached",):
                source.drop_cached()
        flat = list(chain(*model))
        assert len(source) == len(flat) and bool(source) is bool(flat)
        assert all(Position(each) in source for each in flat)
        assert sorted(source.positions) == sorted(flat)
        assert cache.size <= held
    log.fails = False
    source.fetch.retry()
    other.fetch.retry()
    for _ in range(1_000):
        take(source, log, model, 1)
        take(other, log, others, 1)
    assert not source and not any(model) and not other and not any(others)


def take(source: DueSource, log: FakeLog, model: list[list[int]], count: int) -> None:
    """Hand out what is at hand, or have it read."""
    at_hand = source.peek()
    flat = list(chain(*model))
    if at_hand is None:
        left = len(source)
        for run in model:  # those that the log no longer has may have been dropped
            while len(flat) > left and run and run[0] <= log.floor:
                flat.remove(run.pop(0))
        assert len(flat) == left
        log.answer()
        if not log.fails:
            source.fetch.retry()
        return
    positions, entries = at_hand
    assert entries == list(map(entry_at, positions))
    while flat and flat[0] != positions[0]:
        assert flat.pop(0) <= log.floor
    assert positions == flat[: len(positions)]
    source.take(positions[:count])
    model[:] = [[each for each in flat if each not in positions[:count]]]


def test_what_several_want_is_read_once() -> None:
    log: Any = FakeLog()
    cache = DueCache(log, CacheBudget())
    sources = [source_of(log, cache) for _ in range(10)]
    wanted = range(0, 9_000, 3)
    for source in sources:
        source.add(array("Q", wanted))
        assert source.peek() is None
    seen: list[list[Position]] = [[] for _ in sources]
    while any(sources):
        for source, its in zip(sources, seen, strict=True):
            at_hand = source.peek()
            if at_hand is not None:
                its += at_hand[0]
                source.take(at_hand[0])
        log.answer()
    assert all(its == list(wanted) for its in seen)
    assert log.reads <= 2 + len(wanted) / log.most
    assert cache.size <= 4 * 1024 * 1024


def test_a_page_that_begins_alike_and_goes_on_otherwise_is_not_taken() -> None:
    log: Any = FakeLog()
    cache = DueCache(log, CacheBudget())
    for wanted in ([0, 1, 2], [0, 3], [0, 1], [0, 1, 2, 4]):
        source = source_of(log, cache)
        source.add(array("Q", wanted))
        seen: list[Position] = []
        while source:
            at_hand = source.peek()
            if at_hand is None:
                assert log.answer()
                continue
            seen += at_hand[0]
            source.take(at_hand[0])
        assert seen == wanted


def test_a_slow_one_reads_again_and_keeps_nothing_from_going() -> None:
    log: Any = FakeLog()
    budget = CacheBudget()
    cache = DueCache(log, budget, bytes_max=100 * (ENTRY_BYTES + 10))
    quick, slow = source_of(log, cache), source_of(log, cache)
    log.most = 50
    for source in (quick, slow):
        source.add(array("Q", range(2_000)))
    for source in (quick, slow):
        seen: list[Position] = []
        while source:
            at_hand = source.peek()
            if at_hand is None:
                assert log.answer()
                continue
            seen += at_hand[0]
            source.take(at_hand[0])
            assert cache.size <= 100 * (ENTRY_BYTES + 10)
            assert budget.bytes == cache.size
        assert seen == list(range(2_000))
    cache.clear()
    assert not cache and not budget.bytes and not len(budget)


def test_other_caches_push_it_out() -> None:
    log: Any = FakeLog()
    budget = CacheBudget(bytes_max=30 * (ENTRY_BYTES + 10))
    caches = [DueCache(log, budget) for _ in range(4)]
    positions = [Position(each) for each in range(20)]
    for cache in caches:
        cache.read(positions, 1 << 20, lambda found: None)
        log.answer()
        assert len(cache) == 20
        assert budget.bytes == sum(each.size for each in caches) <= budget.bytes_max


def test_a_read_that_fails_is_reported_to_all_waiters() -> None:
    log: Any = FakeLog()
    cache = DueCache(log, CacheBudget())
    found: list[Runs | StoreFailed] = []
    log.fails = True
    for _ in range(3):
        cache.read([Position(7)], 1, found.append)
    log.answer()
    assert len(found) == 3 and all(isinstance(each, StoreFailed) for each in found)
    log.fails = False
    cache.read([Position(7)], 1, found.append)
    log.answer()
    assert found[3] == [(7, [entry_at(7)])] and log.reads == 2


UNSEALED_OPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, 30), min_size=1, max_size=8)),
        st.tuples(st.just("drop"), st.integers(0, 30), st.integers(-1, 40)),
        st.tuples(st.just("through"), st.integers(0, 40)),
        st.tuples(st.just("between"), st.integers(0, 30), st.integers(0, 30), st.integers(1, 5)),
    ),
    max_size=30,
)


@given(UNSEALED_OPS)
def test_unsealed_keys_are_a_sorted_list(ops: list[tuple[Any, ...]]) -> None:
    unsealed, model, position = UnsealedKeys(), list[DueKey](), 0
    for op in ops:
        match op:
            case ("add", times):
                keys = [due_key(at, Position(position + n)) for n, at in enumerate(times)]
                position += len(times)
                unsealed.add(keys, min(keys))
                model = sorted(model + keys)
            case ("drop", at_ms, after):
                end = due_key(at_ms, Position(0))
                gone = [key for key in model if key <= end and place_in(key) <= after]
                model = [key for key in model if key not in gone]
                assert set(unsealed.drop(end, Position(after))) == set(map(place_in, gone))
            case ("through", floor):
                unsealed.drop_through(Position(floor))
                model = [key for key in model if place_in(key) > floor]
            case ("between", low, high, limit):
                start, end = due_key(low, Position(0)), due_key(high, Position(0))
                found, _ = unsealed.between(start, end, limit)
                assert found == [key for key in model if start < key < end][:limit]
        assert len(unsealed) == len(model)
    assert unsealed.keys() == model


def place_in(key: int) -> int:
    return key & (1 << 64) - 1


@pytest.mark.parametrize("positions", [[], [0], [5, 7, 9]])
def test_discarding_what_is_not_there_changes_nothing(positions: list[int]) -> None:
    source = source_of(FakeLog())
    source.add(array("Q", [1, 2, 3]))
    source.discard(map(Position, positions))
    assert len(source) == 3


def test_what_is_due_at_many_times_is_read_together() -> None:
    log = FakeLog()
    source = source_of(log)
    for tick in range(50):
        source.add(array("Q", range(tick, 5_000, 50)))
    handed_out: list[Position] = []
    while source:
        at_hand = source.peek()
        if at_hand is None:
            assert log.answer()
            continue
        handed_out += at_hand[0]
        source.take(at_hand[0])
    assert handed_out == [position for tick in range(50) for position in range(tick, 5_000, 50)]
    assert log.reads == 5, "due entries are read a thousand at a time, not tick by tick"


@pytest.mark.parametrize(("mean_bytes", "gathered"), [(10, 1_500), (1, 2_000), (100_000, 64)])
def test_what_is_gathered_is_bounded(
    monkeypatch: pytest.MonkeyPatch, mean_bytes: int, gathered: int
) -> None:
    """By what the log's entries are on the average, so that nothing of the first ticks is missing
    when it ends, and by what they turn out to be: they have ten bytes here."""
    monkeypatch.setattr(gathering, "GATHER_BYTES_MAX", 1_500 * (ENTRY_BYTES + 10))
    log: Any = FakeLog(mean_bytes)
    cache = DueCache(log, CacheBudget())
    source = source_of(log, cache)
    for tick in range(50):
        source.add(array("Q", range(tick, 5_000, 50)))
    assert source.peek() is None
    while log.answer():
        pass
    if mean_bytes == 1:
        assert gathered > len(cache) > 1_500
    else:
        assert len(cache) == gathered
    assert log.reads == -(-gathered // 1_000)


def test_what_is_gathered_may_be_more_than_what_is_kept_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log: Any = FakeLog()
    cache = DueCache(log, CacheBudget(), bytes_max=ENTRY_BYTES)
    source = source_of(log, cache)
    for tick in range(50):
        source.add(array("Q", range(tick, 5_000, 50)))
    assert source.peek() is None
    while log.answer():
        pass
    assert len(cache) == 5_000


def test_nothing_goes_out_while_more_is_looked_for() -> None:
    log: Any = FakeLog()
    log.hot = range(100)
    source = source_of(log)
    source.add(array("Q", [4, 6]))
    source.is_sorting = True
    assert source and source.peek() is None
    source.add(array("Q", [5]))
    source.is_sorting = False
    assert source.peek() == ([4, 6], [entry_at(4), entry_at(6)])
