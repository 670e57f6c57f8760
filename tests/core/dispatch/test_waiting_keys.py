"""Waiting keys against what the words say: log order in a slot, the lowest entry first; and groups
part from their slot and come back to it."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from pyroaring import BitMap64

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.waiting_keys import WaitingKeys

RECEIVERS = [Receiver(ConsumerSpec(name)) for name in "ab"]
SLOTS = st.integers(0, 4)


def owner_of(line: int) -> Receiver:
    """Of a slot, or of a group: whichever."""
    return RECEIVERS[(line + line // 10) % len(RECEIVERS)]


def slot_of(position: int) -> int:
    return position % 5


def group_of(position: int) -> int:
    """Of each slot there are two groups, and entries without one."""
    return 10 * (position // 5 % 3) + slot_of(position) if position // 5 % 3 else 0


class Waiting(RuleBasedStateMachine):
    """``model``: what waits, by place, and in which line: its slot's, or that of its group if this
    has parted; ``may_go``: the lines that may have their turn."""

    def __init__(self) -> None:
        super().__init__()
        self.keys = WaitingKeys()
        self.model: dict[Position, int] = {}
        self.may_go: set[int] = set()
        self.apart: set[int] = set()

    def line(self, position: int) -> int:
        return group_of(position) if group_of(position) in self.apart else slot_of(position)

    @rule(positions=st.lists(st.integers(0, 60), min_size=1, max_size=6, unique=True))
    def wait(self, positions: list[int]) -> None:
        """An entry has one slot for ever, and what waits already does not come again."""
        more = {Position(each): self.line(each) for each in positions if each not in self.model}
        changed = self.keys.add(list(more), list(more.values()), [group_of(each) for each in more])
        for slot in set(more.values()):
            mine = [position for position, each in more.items() if each == slot]
            others = [position for position, each in self.model.items() if each == slot]
            if not others or min(mine) < min(others):
                assert slot in changed
        self.model |= more
        for slot in changed & self.may_go:
            self.keys.line_up(slot, owner_of(slot))

    @precondition(lambda self: not self.may_go)
    @rule(slot=SLOTS, number=st.integers(1, 2))
    def part(self, slot: int, number: int) -> None:
        group = 10 * number + slot
        if group not in self.apart:
            self.apart.add(group)
            self.keys.part(slot, group)
            self.model = {position: self.line(position) for position in self.model}

    @rule(number=st.integers(0, 5))
    def rejoin(self, number: int) -> None:
        if not self.apart:
            return
        group = sorted(self.apart)[number % len(self.apart)]
        self.apart.remove(group)
        self.may_go.discard(group)
        self.keys.rejoin(slot_of(group), group)
        self.model = {position: self.line(position) for position in self.model}
        if slot_of(group) in self.may_go:
            self.keys.line_up(slot_of(group), owner_of(slot_of(group)))

    @rule(number=st.integers(0, 5))
    def let_a_group_on(self, number: int) -> None:
        if self.apart:
            self.let_on(sorted(self.apart)[number % len(self.apart)])

    @rule(slot=SLOTS)
    def let_on(self, slot: int) -> None:
        self.may_go.add(slot)
        self.keys.line_up(slot, owner_of(slot))

    @rule(slot=SLOTS)
    def hold_up(self, slot: int) -> None:
        self.may_go.discard(slot)
        self.keys.hold_up(slot)

    @rule(kept=st.sets(st.integers(0, 60)))
    def keep_only(self, kept: set[int]) -> None:
        self.keys.keep_only(BitMap64(kept))
        self.model = {position: slot for position, slot in self.model.items() if position in kept}
        if not self.model:
            self.may_go.clear()  # no slot stands in a queue any more

    @rule()
    def disperse(self) -> None:
        self.keys.disperse()
        self.may_go.clear()

    @precondition(lambda self: self.model)
    @rule(receiver=st.sampled_from(RECEIVERS))
    def take(self, receiver: Receiver) -> None:
        slot = self.keys.front(receiver)
        if slot is not None:
            position = self.keys.take(slot)
            assert self.model.pop(position) == slot
            self.keys.line_up(slot, receiver)

    @invariant()
    def the_lowest_that_may_go_is_in_front(self) -> None:
        for receiver in RECEIVERS:
            ready = [
                position
                for position, slot in self.model.items()
                if slot in self.may_go and owner_of(slot) is receiver
            ]
            front = self.keys.front(receiver)
            assert front == (self.model[min(ready)] if ready else None)

    @invariant()
    def what_waits_waits_in_log_order(self) -> None:
        assert set(self.keys.positions) == set(self.model)
        assert self.keys._groups == {p: group_of(p) for p in self.model if group_of(p)}
        for slot in {*range(5), *self.apart}:
            mine = [position for position, each in self.model.items() if each == slot]
            assert self.keys.first(slot) == min(mine, default=None)


TestWaiting: Any = Waiting.TestCase
