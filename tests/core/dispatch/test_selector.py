"""Selectors: whose a key is, and what changes when somebody comes or goes."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arneb_core.api.encoding.hashing import key_hash, murmur3_32
from arneb_core.api.entries.entry import EntryHeader, Origin
from arneb_core.api.entries.position import Position
from arneb_core.api.errors import KeyRangesRefused
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.key_sharing import KeySharing, KeySharingMode
from arneb_core.dispatch import SELECTORS, Receiver
from arneb_core.dispatch.auto_split import AutoSplitSelector
from arneb_core.dispatch.consistent_hashing import ConsistentHashingSelector
from arneb_core.dispatch.selector import SLOTS, Selector, key_hashes
from arneb_core.dispatch.sticky_ranges import StickyRangesSelector, check_ranges

ORDER = b"Order-3459134"


def receiver(name: str, *ranges: tuple[int, int]) -> Receiver:
    sharing = KeySharing(KeySharingMode.STICKY, ranges)
    return Receiver(ConsumerSpec(name, sharing=sharing))


def shares(selector: Selector) -> list[tuple[str, int]]:
    """Who has the slots from 1 on, and up to which slot, in order."""
    found: list[tuple[str, int]] = []
    for slot in range(1, SLOTS):
        owner = selector.select(slot)
        name = owner.name if owner else "nobody"
        if found and found[-1][0] == name:
            found[-1] = name, slot
        else:
            found.append((name, slot))
    return found


def test_the_documented_key_has_the_documented_slot() -> None:
    assert murmur3_32(ORDER) == 3112179635
    assert murmur3_32(ORDER) % SLOTS == 6067
    for selector in (AutoSplitSelector(), StickyRangesSelector()):
        assert selector.slots([key_hash(ORDER)]) == [6067]


@pytest.mark.parametrize(
    ("number", "expected"), [(1, 1003084738), (2, 373317202), (100, 320276078)]
)
def test_the_documented_points_have_the_documented_hashes(number: int, expected: int) -> None:
    assert murmur3_32(b"orders-aggregator-pod-2345-consumer%d" % number) == expected


def test_ranges_split_and_merge_as_documented() -> None:
    selector = AutoSplitSelector()
    c1, c2, c3, c4 = [receiver(name) for name in ("C1", "C2", "C3", "C4")]
    selector.add(c1)
    assert shares(selector) == [("C1", 65535)]
    selector.add(c2)
    assert shares(selector) == [("C2", 32768), ("C1", 65535)]
    selector.add(c3)
    assert shares(selector) == [("C3", 16384), ("C2", 32768), ("C1", 65535)]
    owner = selector.select(6067)
    assert owner is c3
    selector.add(c4)
    quarters = [("C3", 16384), ("C2", 32768), ("C4", 49152), ("C1", 65535)]
    assert shares(selector) == quarters
    selector.remove(c4)
    assert shares(selector) == [("C3", 16384), ("C2", 32768), ("C1", 65535)]
    selector.remove(c1)
    assert shares(selector) == [("C3", 16384), ("C2", 65535)]
    selector.remove(c3)
    assert shares(selector) == [("C2", 65535)]


def test_sticky_ranges_as_documented() -> None:
    selector = StickyRangesSelector()
    c1 = receiver("C1", (0, 16383), (32768, 49151))
    selector.add(c1)
    assert selector.select(20000) is None
    selector.add(receiver("C2", (16384, 32767), (49152, 65535)))
    assert shares(selector) == [("C1", 16383), ("C2", 32767), ("C1", 49151), ("C2", 65535)]
    assert selector.select(6067) is c1
    selector.remove(c1)
    assert selector.select(6067) is None


def test_the_points_of_pulsar() -> None:
    """The ring of two consumers, computed from its definition."""
    selector = ConsistentHashingSelector()
    one, two = receiver("a"), receiver("a")
    selector.add(one)
    selector.add(two)
    ring: dict[int, Receiver] = {}
    for number, each in enumerate((one, two)):
        for point in range(100):
            key = f"a\0{number}\0{point}".encode()
            ring.setdefault((murmur3_32(key) & 0x7FFFFFFF) % 65535 + 1, each)
    points = sorted(ring)
    for slot in range(1, SLOTS, 97):
        point = next((each for each in points if each >= slot), points[0])
        assert selector.select(slot) is ring[point]
    assert selector.slots([65534, 65535, 0]) == [65535, 1, 1]


@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=25))
def test_consumers_that_come_and_go_move_only_the_keys_that_must_move(
    steps: list[int | None],
) -> None:
    """None = one comes. Whoever comes takes and takes over nothing else; whoever leaves gives
    away only what was its own."""
    for make in (AutoSplitSelector, ConsistentHashingSelector):
        selector: Selector = make()
        present: list[Receiver] = []
        slots = range(1, SLOTS, 509)
        before = [selector.select(slot) for slot in slots]
        assert set(before) == {None}
        for step in steps:
            if step is None:
                mover = receiver(f"c{len(present) % 3}")
                present.append(mover)
                selector.add(mover)
            elif present:
                mover = present.pop(step % len(present))
                selector.remove(mover)
            else:
                continue
            now = [selector.select(slot) for slot in slots]
            assert set(now) <= (set(present) or {None})
            for old, new in zip(before, now, strict=True):
                assert old is new or mover in (old, new)
            before = now


def test_consistent_hashing_is_fair_and_ranges_of_hashes_are_halved() -> None:
    selector = ConsistentHashingSelector()
    for number in range(4):
        selector.add(receiver(f"consumer-{number}"))
    counts = Counter(selector.select(slot) for slot in range(1, SLOTS))
    assert len(counts) == 4
    assert min(counts.values()) > SLOTS / 4 * 0.6


RANGES = st.lists(st.tuples(st.integers(-2, 40), st.integers(-2, 40)), max_size=4)


@given(st.lists(RANGES, max_size=4))
def test_ranges_that_overlap_are_refused(wanted: list[list[tuple[int, int]]]) -> None:
    selector = StickyRangesSelector()
    owners: dict[int, Receiver] = {}
    taken: list[tuple[int, int]] = []
    for ranges in wanted:
        spread = [slot for first, last in ranges for slot in range(first, last + 1)]
        fits = bool(ranges) and all(0 <= first <= last for first, last in ranges)
        fits = fits and len(set(spread)) == len(spread) and not owners.keys() & set(spread)
        try:
            check_ranges(ranges, taken)
        except KeyRangesRefused:
            assert not fits
            continue
        assert fits
        made = receiver("c", *ranges)
        selector.add(made)
        taken += ranges
        owners.update(dict.fromkeys(spread, made))
    for slot in range(45):
        assert selector.select(slot) is owners.get(slot)


@pytest.mark.parametrize("ranges", [(), ((5, 4),), ((0, 65536),), ((-1, 4),), ((1, 9), (9, 12))])
def test_ranges_that_are_none_are_refused(ranges: tuple[tuple[int, int], ...]) -> None:
    with pytest.raises(KeyRangesRefused):
        check_ranges(ranges, [])


def test_entries_without_a_key_are_for_everybody() -> None:
    """They have no order to keep, and one consumer must not get them all."""
    entry = EntryHeader(Origin.PULSAR).pack()
    keyed = EntryHeader(Origin.PULSAR, key_hash=77).pack()
    positions = [Position(1 << 32 | number) for number in range(1000)]
    assert key_hashes(positions, [keyed] * 1000) == [77] * 1000
    hashes = key_hashes(positions, [entry] * 1000)
    assert hashes == key_hashes(positions, [entry] * 1000)
    for mode in (KeySharingMode.HASH_RANGES, KeySharingMode.CONSISTENT_HASHING):
        selector = SELECTORS[mode]()
        for number in range(3):
            selector.add(receiver(f"c{number}"))
        counts = Counter(selector.select(slot) for slot in selector.slots(hashes))
        assert min(counts[each] for each in counts) > 150
        assert len(counts) == 3


@pytest.mark.parametrize("make", [AutoSplitSelector, ConsistentHashingSelector])
@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_ranges_say_whose_every_slot_is(make: Any, steps: list[bool]) -> None:
    selector, there = make(), [Receiver(ConsumerSpec("r0"))]
    selector.add(there[0])
    for number, comes in enumerate(steps, 1):
        if comes or len(there) == 1:
            there.append(Receiver(ConsumerSpec(f"r{number % 3}")))
            selector.add(there[-1])
        else:
            selector.remove(there.pop(number % len(there)))
    ranges = list(selector.ranges())
    assert (ranges[0][0], ranges[-1][1]) == (1, SLOTS - 1)
    for (_, last, _), (first, _, _) in pairwise(ranges):
        assert first == last + 1
    for first, last, receiver in ranges:
        assert selector.select(first) is receiver is selector.select(last)
        assert selector.select((first + last) // 2) is receiver


def test_one_consumer_has_one_range() -> None:
    selector, alone = ConsistentHashingSelector(), Receiver(ConsumerSpec("alone"))
    selector.add(alone)
    assert list(selector.ranges()) == [(1, SLOTS - 1, alone)]
    selector.remove(alone)
    assert list(selector.ranges()) == []
