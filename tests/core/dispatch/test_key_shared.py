"""Key_Shared dispatch against the rule in words: one receiver a key at a time, and in log order."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pyroaring import BitMap64

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.key_sharing import DrainingSlot, KeyShare, LookAhead
from arneb_core.dispatch.auto_split import AutoSplitSelector
from arneb_core.dispatch.key_shared import KeySharedDispatcher
from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.selector import SLOTS

SLOT_OF = [slot * (SLOTS // 5) + 1 for slot in range(5)]
"""Far apart, so that receivers that come and go take some of them over."""


def receiver(name: str, permits: int) -> Receiver:
    made = Receiver(ConsumerSpec(name))
    made.permits = permits
    return made


def slot_of(position: int) -> int:
    return SLOT_OF[position % 7 % 5]


def test_a_slot_that_moves_drains_first() -> None:
    dispatcher = KeySharedDispatcher(AutoSplitSelector())
    old, new = receiver("old", 10), receiver("new", 10)
    dispatcher.add(old)
    slot = 1
    assert dispatcher.share([slot]).given == {old: [0]}
    dispatcher.took(old, [Position(0)], [slot])
    dispatcher.add(new)
    decision = dispatcher.share([slot, SLOTS - 1])
    assert (decision.given, decision.waiting) == ({old: [1]}, [0])
    dispatcher.took(old, [Position(2)], [SLOTS - 1])
    dispatcher.wait([Position(1)], [slot])
    assert dispatcher.next_due(new) is None
    dispatcher.left([Position(0)])
    assert dispatcher.next_due(new) == Position(1)
    assert dispatcher.take_due(new) == (Position(1), slot)


def test_draining_slots_are_reported_and_counted() -> None:
    dispatcher = KeySharedDispatcher(AutoSplitSelector())
    old, new = receiver("old", 10), receiver("new", 10)
    dispatcher.add(old)
    dispatcher.took(old, [Position(0), Position(1), Position(2)], [1, 1, SLOTS - 1])
    assert dispatcher.shares() == {old: KeyShare(((1, SLOTS - 1),))}
    dispatcher.add(new)
    dispatcher.wait([Position(3)], [1])
    half = SLOTS // 2
    mine = KeyShare(((half + 1, SLOTS - 1),), (DrainingSlot(1, 2, 1),))
    assert dispatcher.shares() == {old: mine, new: KeyShare(((1, half),))}
    dispatcher.left([Position(0)])
    assert dispatcher.shares()[old].draining == (DrainingSlot(1, 1, 1),)
    dispatcher.left([Position(1), Position(2)])
    assert dispatcher.shares()[old] == KeyShare(((half + 1, SLOTS - 1),), drained_total=1)


def test_without_order_nothing_drains() -> None:
    dispatcher = KeySharedDispatcher(AutoSplitSelector(), in_order=False)
    old, new = receiver("old", 10), receiver("new", 10)
    dispatcher.add(old)
    dispatcher.took(old, [Position(0)], [1])
    dispatcher.add(new)
    assert [(each.draining, each.drains) for each in dispatcher.shares().values()] == [
        ((), False),
        ((), False),
    ]
    dispatcher.left([Position(0)])
    assert [each.drained_total for each in dispatcher.shares().values()] == [0, 0]


def test_without_ordering_no_key_waits_for_a_former_owner() -> None:
    dispatcher = KeySharedDispatcher(AutoSplitSelector(), in_order=False)
    old, new = receiver("old", 10), receiver("new", 10)
    dispatcher.add(old)
    dispatcher.share([1])
    dispatcher.took(old, [Position(0)], [1])
    dispatcher.add(new)
    assert dispatcher.share([1]).given == {new: [0]}


def test_a_group_whose_slot_comes_back_waits_in_it_again() -> None:
    """Somebody came and left, and its holder owns its slot once more."""
    dispatcher = KeySharedDispatcher(AutoSplitSelector())
    holder, bystander, comer = receiver("a", 10), receiver("b", 10), receiver("c", 10)
    dispatcher.add(bystander)
    dispatcher.add(holder)
    slot, group = 1, SLOTS + 1
    assert dispatcher.share([slot], groups=[group]).given == {holder: [0]}
    dispatcher.took(holder, [Position(0)], [slot], [group])
    dispatcher.wait([Position(1), Position(2)], [slot, slot], [0, group])
    dispatcher.add(comer)
    assert [dispatcher.next_due(each) for each in (holder, comer)] == [Position(2), None]
    dispatcher.remove(comer)
    assert dispatcher.waiting.slots.keys() == {slot}
    assert dispatcher.next_due(bystander) is None
    assert [dispatcher.take_due(holder)[0] for _ in range(2)] == [Position(1), Position(2)]


@pytest.mark.parametrize(
    ("look_ahead", "receivers", "most"),
    [
        (LookAhead(), 1, 2_000),
        (LookAhead(), 3, 6_000),
        (LookAhead(), 11, 20_000),
        (LookAhead(5, 0), 3, 15),
        (LookAhead(0, 7), 3, 7),
    ],
)
def test_how_much_may_wait_depends_on_how_many_there_are(
    look_ahead: LookAhead, receivers: int, most: int
) -> None:
    dispatcher = KeySharedDispatcher(AutoSplitSelector(), look_ahead=look_ahead)
    for number in range(receivers):
        dispatcher.add(receiver(str(number), 0))
    dispatcher.wait([Position(each) for each in range(most - 1)], [1] * (most - 1))
    assert dispatcher.may_look_ahead
    dispatcher.wait([Position(most)], [1])
    assert not dispatcher.may_look_ahead


def test_without_limits_all_may_wait() -> None:
    assert LookAhead(0, 0).most(1) == float("inf")


class KeyShared(RuleBasedStateMachine):
    """``in_flight`` and ``waiting``: what the subscription knows; all else the dispatcher says."""

    in_order = True

    def __init__(self) -> None:
        super().__init__()
        self.selector = AutoSplitSelector()
        self.dispatcher = KeySharedDispatcher(self.selector, in_order=self.in_order)
        self.receivers: list[Receiver] = []
        self.in_flight: dict[Position, Receiver] = {}
        self.waiting: set[Position] = set()
        self.groups: dict[Position, int] = {}
        """Of all entries there ever were; 0 = none."""
        self.next = 0
        self.answered: set[Position] = set()
        self.names = 0

    @precondition(lambda self: len(self.receivers) < 4)
    @rule(permits=st.integers(0, 5))
    def come(self, permits: int) -> None:
        self.names += 1
        self.receivers.append(receiver(f"r{self.names}", permits))
        self.dispatcher.add(self.receivers[-1])

    @precondition(lambda self: self.receivers)
    @rule(index=st.integers(0, 3))
    def leave(self, index: int) -> None:
        """What it had in flight waits again."""
        gone = self.receivers.pop(index % len(self.receivers))
        mine = [position for position, owner in self.in_flight.items() if owner is gone]
        self.dispatcher.left(mine)
        for position in mine:
            del self.in_flight[position]
        self.dispatcher.remove(gone)
        self.waiting.update(mine)
        self.dispatcher.wait_again(BitMap64(mine))

    @precondition(lambda self: self.receivers)
    @rule(index=st.integers(0, 3), permits=st.integers(1, 4))
    def grant(self, index: int, permits: int) -> None:
        self.receivers[index % len(self.receivers)].permits += permits

    @rule(hints=st.lists(st.sampled_from([0, 0, 1, 2]), min_size=1, max_size=6))
    def new_entries(self, hints: list[int]) -> None:
        run = [Position(self.next + each) for each in range(len(hints))]
        slots = [slot_of(each) for each in run]
        groups = [hint and hint * SLOTS + slot for hint, slot in zip(hints, slots, strict=True)]
        has_groups = any(hints)
        decision = self.dispatcher.share(slots, groups=groups if has_groups else None)
        looked = run[: decision.looked_at]
        self.next += len(looked)
        self.groups.update(zip(looked, groups, strict=False))
        given = {run[index]: each for each, indexes in decision.given.items() for index in indexes}
        wait = [run[index] for index in decision.waiting]
        assert sorted([*given, *wait]) == looked
        for position in looked:
            if position in given:
                self.may_have(position, given[position])
                self.in_flight[position] = given[position]
            else:
                self.waiting.add(position)
        for each, indexes in decision.given.items():
            self.took(each, [run[index] for index in indexes])
        self.dispatcher.wait(
            wait, [slot_of(each) for each in wait], [self.groups[each] for each in wait]
        )

    def took(self, each: Receiver, positions: list[Position]) -> None:
        groups = [self.groups[position] for position in positions]
        slots = [slot_of(position) for position in positions]
        self.dispatcher.took(each, positions, slots, groups if any(groups) else None)

    @rule()
    def hand_out_what_waits(self) -> None:
        for each in self.dispatcher.due_receivers:
            while each.room > 0 and (position := self.dispatcher.next_due(each)) is not None:
                assert self.dispatcher.take_due(each) == (position, slot_of(position))
                self.may_have(position, each)
                self.waiting.remove(position)
                self.in_flight[position] = each
                each.given(1)
                self.took(each, [position])
        self.nobody_with_room_is_left_without()

    def nobody_with_room_is_left_without(self) -> None:
        """What could go next, of a slot or of a stray group, has its receiver full or drains."""
        firsts: dict[int, Position] = {}
        for position in sorted(self.waiting):
            firsts.setdefault(self.line(position), position)
        for line, position in firsts.items():
            each = self.stray_of(position) or self.owner(slot_of(position))
            if each is None or each.room <= 0:
                continue
            others = self.held_by(slot_of(position)) - {each}
            assert line < SLOTS and self.in_order and others, (position, each.name)

    @precondition(lambda self: self.in_flight)
    @rule(index=st.integers(0, 50), is_answered=st.booleans())
    def answer(self, index: int, is_answered: bool) -> None:
        position = sorted(self.in_flight)[index % len(self.in_flight)]
        del self.in_flight[position]
        self.dispatcher.left([position])
        if is_answered:
            self.answered.add(position)
            self.dispatcher.wait_again(BitMap64())
        else:
            self.waiting.add(position)
            self.dispatcher.wait_again(BitMap64([position]))

    @precondition(lambda self: self.waiting)
    @rule(index=st.integers(0, 50))
    def answered_by_another(self, index: int) -> None:
        """What waits is acknowledged by somebody who does not have it."""
        position = sorted(self.waiting)[index % len(self.waiting)]
        self.waiting.remove(position)
        self.answered.add(position)
        self.dispatcher.waiting.keep_only(BitMap64(self.waiting))

    @invariant()
    def nothing_is_lost(self) -> None:
        assert set(self.dispatcher.waiting.positions) == self.waiting
        known = {*self.in_flight, *self.waiting, *self.answered}
        assert known == {Position(each) for each in range(self.next)}

    def owner(self, slot: int) -> Receiver | None:
        return self.selector.select(slot)

    def held_by(self, slot: int) -> set[Receiver]:
        return {each for position, each in self.in_flight.items() if slot_of(position) == slot}

    def stray_of(self, position: Position) -> Receiver | None:
        """Who has others of the entry's group, if that is not the owner of its slot."""
        group = self.groups[position]
        found = {each for p, each in self.in_flight.items() if group and self.groups[p] == group}
        assert len(found) <= 1, "a group has more than one receiver"
        holder = found.pop() if found else None
        return None if holder is self.owner(slot_of(position)) else holder

    def line(self, position: Position) -> int:
        """What keeps its order with ``position``."""
        return slot_of(position) if self.stray_of(position) is None else self.groups[position]

    def may_have(self, position: Position, each: Receiver) -> None:
        slot, stray = slot_of(position), self.stray_of(position)
        assert each is (stray or self.owner(slot))
        if stray is None and self.in_order:
            assert self.held_by(slot) <= {each}, "a key has more than one receiver"
        line = self.line(position)
        earlier = [p for p in self.waiting if p < position and self.line(p) == line]
        assert not earlier, "nothing overtakes what waits"


class OutOfOrder(KeyShared):
    """Nobody but groups waits for a former owner."""

    in_order = False


TestKeyShared: Any = KeyShared.TestCase
TestOutOfOrder: Any = OutOfOrder.TestCase
