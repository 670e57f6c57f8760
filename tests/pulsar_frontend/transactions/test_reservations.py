"""Numbers that are given out without a commit: whoever has one is known after a crash."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_pulsar.transactions.outcomes import KEPT_MS
from arneb_pulsar.transactions.reservations import (
    COUNT_MAX,
    COUNT_MIN,
    GIVEN_MS,
    SEEN_MAX,
    Owner,
    Reservations,
    Reserved,
    Rows,
)

OWNERS: tuple[Owner, ...] = (("me", ""), ("you", ""), ("proxy", "you"))
TIMEOUT_MS = 60_000
KEYS = st.tuples(st.sampled_from(OWNERS), st.sampled_from((1_000, TIMEOUT_MS)))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("begin"), KEYS, st.integers(1, 40)),
        st.tuples(st.just("pass"), st.sampled_from((1, GIVEN_MS // 2, GIVEN_MS, KEPT_MS))),
        st.tuples(st.just("store"), st.booleans()),
        st.tuples(st.just("record"), st.integers(0, 100)),
        st.tuples(
            st.just("clean"),
        ),
        st.tuples(
            st.just("crash"),
        ),
    ),
    max_size=40,
)


@dataclass
class Disk:
    """A coordinator like :mod:`arneb_pulsar.services.transactions.beginning`, and its disk."""

    rows: dict[str, bytes] = field(default_factory=dict)
    reservations: Reservations = field(default_factory=lambda: Reservations({}))
    latest: int = 0
    now_ms: int = 1_000_000
    under_way: list[tuple[Reserved, Rows]] = field(default_factory=list)
    begun: dict[int, tuple[Owner, int, int]] = field(default_factory=dict)
    """Whose each number is that was given out without a record, and until when."""
    seen: set[int] = field(default_factory=set)
    needed: dict[int, int] = field(default_factory=dict)
    lapsed: set[int] = field(default_factory=set)
    """Numbers whose transactions are known to have timed out."""

    def begin(self, key: tuple[Owner, int], count: int) -> None:
        for _ in range(count):
            owner, timeout_ms = key
            taken = self.reservations.take(owner, timeout_ms, self.now_ms)
            if taken is None:
                self.latest += 1
                number = self.latest
            else:
                number, reserved = taken
                assert self.rows[reserved.key] == reserved.pack(), "it is on disk"
                self.begun[number] = owner, timeout_ms, self.now_ms + timeout_ms
                self.needed[number] = reserved.first
            assert number not in self.seen, "a number was given out twice"
            self.seen.add(number)
            wanted = self.reservations.reserve(self.latest + 1, owner, timeout_ms, self.now_ms)
            if wanted is not None:
                self.latest += wanted.count
                rows: Rows = [(wanted.key, wanted.pack()), *self.over()]
                self.under_way.append((wanted, rows))

    def over(self) -> Rows:
        return self.reservations.over(set(self.needed.values()), self.now_ms)

    def store(self, is_stored: bool) -> None:
        for wanted, rows in self.under_way:
            if is_stored:
                self.put(rows)
                self.reservations.removed(rows[1:])
                self.reservations.stored(wanted)
            else:
                self.reservations.failed(wanted)
        self.under_way = []

    def put(self, rows: Rows) -> None:
        for key, value in rows:
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value

    def record(self, number: int) -> None:
        """One of those that are known by their ranges alone."""
        if self.needed:
            number = [*self.needed][number % len(self.needed)]
            del self.needed[number], self.begun[number]

    def clean(self) -> None:
        lapsed = self.reservations.lapsed((), self.now_ms)
        rows = self.over() + [(each.key, None) for each in lapsed]
        self.put(rows)
        self.reservations.removed(rows)
        self.lapsed.update(number for each in lapsed for number in each.numbers)

    def crash(self) -> None:
        self.under_way, self.needed = [], {}
        self.latest = (self.latest // 10_000 + 1) * 10_000
        self.reservations = Reservations(self.rows)
        for number, (owner, timeout_ms, until_ms) in self.begun.items():
            if number in self.lapsed:
                assert until_ms <= self.now_ms
                continue
            found = self.reservations.find(number)
            assert found is not None, f"{number} is known"
            opened = found.opened
            assert (opened.owner, opened.timeout_ms) == (owner, timeout_ms)
            assert until_ms <= opened.until_ms <= until_ms + GIVEN_MS


@given(STEPS)
def test_a_number_that_was_given_out_is_known_after_any_crash(steps: list[tuple[Any, ...]]) -> None:
    disk = Disk()
    for kind, *rest in steps:
        if kind == "pass":
            disk.now_ms += rest[0]
        else:
            getattr(disk, kind)(*rest)
    disk.crash()


def opened(reservations: Reservations, count: int, first: int = 1) -> list[bool]:
    """Which of so many were given out without a record, where rows are stored at once."""
    found = []
    for _ in range(count):
        found.append(reservations.take(OWNERS[0], TIMEOUT_MS, 0) is not None)
        wanted = reservations.reserve(first, OWNERS[0], TIMEOUT_MS, 0)
        if wanted is not None:
            reservations.stored(wanted)
            first += wanted.count
    return found


def test_all_but_the_first_two_are_given_out_without_a_record() -> None:
    assert opened(Reservations({}), 5_000) == [False, False] + [True] * 4_998


def sizes(count: int, between_ms: int) -> list[int]:
    """Of the ranges that somebody has who opens so many, one each so often."""
    reservations, found, first = Reservations({}), list[int](), 1
    for number in range(count):
        now_ms = number * between_ms
        reservations.take(OWNERS[0], TIMEOUT_MS, now_ms)
        wanted = reservations.reserve(first, OWNERS[0], TIMEOUT_MS, now_ms)
        if wanted is not None:
            reservations.stored(wanted)
            first += wanted.count
            found.append(wanted.count)
    return found


def test_ranges_grow_only_for_fast_owners() -> None:
    fast = sizes(10 * COUNT_MAX, 0)
    assert fast == sorted(fast)
    assert (fast[0], fast[-1]) == (COUNT_MIN, COUNT_MAX)
    assert set(sizes(100, GIVEN_MS // 4)) == {COUNT_MIN}


def test_no_number_is_given_out_when_the_time_of_its_range_is_over() -> None:
    reservations = Reservations({})
    opened(reservations, 3)
    assert reservations.take(OWNERS[0], TIMEOUT_MS, GIVEN_MS - 1) is not None
    assert reservations.take(OWNERS[0], TIMEOUT_MS, GIVEN_MS) is None


def test_each_number_is_of_its_own_range() -> None:
    ranges = [Reserved(10 * n, 5, n, TIMEOUT_MS, owner) for n, owner in enumerate(OWNERS, 1)]
    reservations = Reservations({each.key: each.pack() for each in ranges})
    for number in range(50):
        expected = [each for each in ranges if each.first <= number < each.first + each.count]
        assert reservations.find(number) == (expected[0] if expected else None)


def test_a_range_from_before_the_start_lapses_with_its_transactions() -> None:
    reserved = Reserved(1, 5, GIVEN_MS, TIMEOUT_MS, OWNERS[0])
    reservations = Reservations({reserved.key: reserved.pack()})
    assert reservations.lapsed((), GIVEN_MS + TIMEOUT_MS - 1) == []
    assert reservations.lapsed((), GIVEN_MS + TIMEOUT_MS) == [reserved]
    assert reservations.lapsed({1}, GIVEN_MS + TIMEOUT_MS) == [], "one that is open has no record"


def test_a_client_seen_once_has_no_range_and_unused_rows_are_removed() -> None:
    reservations = Reservations({})
    for number in range(3 * SEEN_MAX):
        owner = str(number), ""
        assert reservations.take(owner, 1, 0) is None
        assert reservations.reserve(1, owner, 1, 0) is None
    opened(reservations, 3)
    used = reservations.over(set(), 0)
    assert used == [], "it is used"
    (row,) = reservations.over(set(), GIVEN_MS)
    assert row[1] is None
    assert reservations.over({1}, GIVEN_MS) == [], "one that is open has no record yet"
    reservations.removed([row])
    assert reservations.over(set(), GIVEN_MS) == []


@pytest.mark.parametrize("value", [b"", bytes(20), bytes(20) + b"{}", bytes(20) + b"[1]"])
def test_a_damaged_row_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        Reserved.unpack("pulsar/transaction/reserved/1", value)


def test_a_clock_that_is_set_back_gives_out_no_number_whose_row_is_gone() -> None:
    owner, reservations = OWNERS[0], Reservations({})
    assert reservations.reserve(1, owner, TIMEOUT_MS, 0) is None
    reserved = reservations.reserve(2, owner, TIMEOUT_MS, 0)
    assert reserved is not None
    reservations.stored(reserved)
    assert reservations.take(owner, TIMEOUT_MS, GIVEN_MS - 1) == (2, reserved)
    assert reservations.over((), GIVEN_MS) == [(reserved.key, None)]
    assert reservations.take(owner, TIMEOUT_MS, GIVEN_MS - 1) is None


def test_a_clock_that_is_set_back_ends_a_range() -> None:
    """The outcomes of its transactions would go before its row, and they would open again after the
    next start."""
    owner, reservations = OWNERS[0], Reservations({})
    assert reservations.reserve(1, owner, TIMEOUT_MS, GIVEN_MS) is None
    reserved = reservations.reserve(2, owner, TIMEOUT_MS, GIVEN_MS)
    assert reserved is not None
    reservations.stored(reserved)
    assert reservations.take(owner, TIMEOUT_MS, GIVEN_MS) == (2, reserved)
    assert reservations.take(owner, TIMEOUT_MS, GIVEN_MS - 1) is None
    assert reservations.over((), GIVEN_MS - 1) == [(reserved.key, None)]
