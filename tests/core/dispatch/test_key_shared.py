"""Key_Shared dispatch against the rule in words: one receiver a key at a time, and in log order."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pyroaring import BitMap64

from arneb_core.api.consumers import ConsumerSpec
from arneb_core.api.position import Position
from arneb_core.dispatch.auto_split import AutoSplitSelector
from arneb_core.dispatch.key_shared import LOOK_AHEAD_PER_RECEIVER, KeySharedDispatcher
from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.selector import SLOTS

SLOT_OF = [slot * (SLOTS // 5) + 1 for slot in range(5)]
"""Far apart, so that receivers that come and go take some of them over."""


def receiver(name: str, permits: int) -> Receiver:
    made = Receiver(ConsumerSpec(name))
    made.permits = permits
    return made


def slot_of(place: int) -> int:
    return SLOT_OF[place % 7 % 5]


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


def test_without_order_nobody_waits_for_a_former_owner() -> None:
    dispatcher = KeySharedDispatcher(AutoSplitSelector(), in_order=False)
    old, new = receiver("old", 10), receiver("new", 10)
    dispatcher.add(old)
    dispatcher.share([1])
    dispatcher.took(old, [Position(0)], [1])
    dispatcher.add(new)
    assert dispatcher.share([1]).given == {new: [0]}


@pytest.mark.parametrize("receivers", [1, 3])
def test_how_much_may_wait_depends_on_how_many_there_are(receivers: int) -> None:
    dispatcher = KeySharedDispatcher(AutoSplitSelector())
    for number in range(receivers):
        dispatcher.add(receiver(str(number), 0))
    most = LOOK_AHEAD_PER_RECEIVER * receivers
    dispatcher.wait([Position(each) for each in range(most - 1)], [1] * (most - 1))
    assert dispatcher.may_look_ahead
    dispatcher.wait([Position(most)], [1])
    assert not dispatcher.may_look_ahead


class KeyShared(RuleBasedStateMachine):
    """``in_flight`` and ``waiting``: what the subscription knows; all else the dispatcher says."""

    def __init__(self) -> None:
        super().__init__()
        self.selector = AutoSplitSelector()
        self.dispatcher = KeySharedDispatcher(self.selector)
        self.receivers: list[Receiver] = []
        self.in_flight: dict[Position, Receiver] = {}
        self.waiting: set[Position] = set()
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
        mine = [place for place, owner in self.in_flight.items() if owner is gone]
        self.dispatcher.left(mine)
        for place in mine:
            del self.in_flight[place]
        self.dispatcher.remove(gone)
        self.waiting.update(mine)
        self.dispatcher.wait_again(BitMap64(mine))

    @precondition(lambda self: self.receivers)
    @rule(index=st.integers(0, 3), permits=st.integers(1, 4))
    def grant(self, index: int, permits: int) -> None:
        self.receivers[index % len(self.receivers)].permits += permits

    @rule(count=st.integers(1, 6))
    def new_entries(self, count: int) -> None:
        run = [Position(self.next + each) for each in range(count)]
        slots = [slot_of(each) for each in run]
        decision = self.dispatcher.share(slots)
        looked = run[: decision.looked_at]
        self.next += len(looked)
        given = {run[index]: each for each, indexes in decision.given.items() for index in indexes}
        wait = [run[index] for index in decision.waiting]
        assert sorted([*given, *wait]) == looked
        for place, each in given.items():
            self.may_have(place, each)
            self.in_flight[place] = each
        for each, indexes in decision.given.items():
            self.dispatcher.took(each, [run[i] for i in indexes], [slots[i] for i in indexes])
        self.dispatcher.wait(wait, [slot_of(each) for each in wait])
        self.waiting.update(wait)

    @rule()
    def hand_out_what_waits(self) -> None:
        for each in self.dispatcher.due_receivers:
            while each.room > 0 and (place := self.dispatcher.next_due(each)) is not None:
                assert self.dispatcher.take_due(each) == (place, slot_of(place))
                self.may_have(place, each)
                self.waiting.remove(place)
                self.in_flight[place] = each
                each.given(1)
                self.dispatcher.took(each, [place], [slot_of(place)])
        # Nobody with room is left without something that it may have.
        for each in self.receivers:
            lowest = {slot: min(self.of_slot(slot), default=None) for slot in SLOT_OF}
            for slot, place in lowest.items():
                if place is not None and each.room > 0 and self.owner(slot) is each:
                    assert self.held_by(slot) not in (None, each), (place, each.name)

    @precondition(lambda self: self.in_flight)
    @rule(index=st.integers(0, 50), is_answered=st.booleans())
    def answer(self, index: int, is_answered: bool) -> None:
        place = sorted(self.in_flight)[index % len(self.in_flight)]
        del self.in_flight[place]
        self.dispatcher.left([place])
        if is_answered:
            self.answered.add(place)
            self.dispatcher.wait_again(BitMap64())
        else:
            self.waiting.add(place)
            self.dispatcher.wait_again(BitMap64([place]))

    @invariant()
    def nothing_is_lost(self) -> None:
        assert set(self.dispatcher.waiting.places) == self.waiting
        known = {*self.in_flight, *self.waiting, *self.answered}
        assert known == {Position(each) for each in range(self.next)}

    def of_slot(self, slot: int) -> list[Position]:
        return [place for place in self.waiting if slot_of(place) == slot]

    def owner(self, slot: int) -> Receiver | None:
        return self.selector.select(slot)

    def held_by(self, slot: int) -> Receiver | None:
        return next((r for p, r in self.in_flight.items() if slot_of(p) == slot), None)

    def may_have(self, place: Position, each: Receiver) -> None:
        slot = slot_of(place)
        assert self.owner(slot) is each
        assert self.held_by(slot) in (None, each), "one receiver a key"
        earlier = [other for other in self.of_slot(slot) if other < place]
        assert not earlier, "nothing overtakes what waits"


TestKeyShared: Any = KeyShared.TestCase
