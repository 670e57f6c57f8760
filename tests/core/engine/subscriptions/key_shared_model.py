"""The model of a Key_Shared subscription: who holds which entry, and what each key is at.

The rule: it knows no queue and no heap, only the entries, their slots and groups and their holders;
what is right to deliver is looked up in all of them.
"""

from dataclasses import dataclass, field

from arneb_core.api.entries.position import Position
from arneb_core.api.subscriptions.consumer import ConsumerSpec
from arneb_core.api.subscriptions.deliveries import Deliveries
from arneb_core.api.subscriptions.key_sharing import KeySharing
from arneb_core.dispatch import SELECTORS, Receiver
from arneb_core.dispatch.groups import groups_of
from arneb_core.dispatch.selector import Selector, key_hashes
from arneb_core.engine.subscriptions.consumer import LogConsumer


@dataclass
class Model:
    """Entries by place, with their slots and the messages that are not acknowledged."""

    sharing: KeySharing
    slots: dict[Position, int] = field(default_factory=dict)
    groups: dict[Position, int] = field(default_factory=dict)
    """Of the entries that have one."""
    unacked: dict[Position, int] = field(default_factory=dict)
    held: dict[int, set[Position]] = field(default_factory=dict)
    """By the number of the consumer."""
    consumers: dict[int, LogConsumer] = field(default_factory=dict)
    stand_ins: dict[int, Receiver] = field(default_factory=dict)
    """For the consumers, in a selector of our own."""
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.selector: Selector = SELECTORS[self.sharing.mode]()

    def published(self, first: Position, entries: list[bytes], sizes: list[int]) -> None:
        positions = [Position(first + index) for index in range(len(entries))]
        slots = self.selector.slots(key_hashes(positions, entries))
        self.slots.update(zip(positions, slots, strict=True))
        self.groups.update(zip(positions, groups_of(entries, slots) or [], strict=False))
        self.unacked.update((each, (1 << n) - 1) for each, n in zip(positions, sizes, strict=True))

    def came(self, number: int, spec: ConsumerSpec) -> None:
        self.held[number] = set()
        self.stand_ins[number] = Receiver(spec)
        self.selector.add(self.stand_ins[number])

    def left(self, number: int) -> None:
        self.consumers.pop(number, None)
        self.held.pop(number, None)
        stand_in = self.stand_ins.pop(number, None)
        if stand_in is not None:
            self.selector.remove(stand_in)

    @property
    def ready(self) -> list[Position]:
        out = {position for positions in self.held.values() for position in positions}
        return sorted(position for position in self.unacked if position not in out)

    def stray_of(self, position: Position) -> int | None:
        """Who holds others of the entry's group, if that is not the owner of its slot."""
        group = self.groups.get(position)
        for number, positions in self.held.items():
            if group and any(self.groups.get(each) == group for each in positions):
                return None if number == self.owner(position) else number
        return None

    def line(self, position: Position) -> int:
        """What keeps its order with the entry: its slot, or its group if that strays."""
        return self.slots[position] if self.stray_of(position) is None else self.groups[position]

    def owner(self, position: Position) -> int | None:
        chosen = self.selector.select(self.slots[position])
        return next((n for n, each in self.stand_ins.items() if each is chosen), None)

    def holders(self, slot: int) -> set[int]:
        """Who holds something of the slot."""
        return {
            number
            for number, positions in self.held.items()
            if any(self.slots[position] == slot for position in positions)
        }

    def settle(self, position: Position, mask: int = -1) -> None:
        left = self.unacked.get(position, 0) & ~mask
        if left:
            self.unacked[position] = left
            return
        self.unacked.pop(position, None)
        for positions in self.held.values():
            positions.discard(position)

    def took(self, number: int, run: Deliveries) -> None:
        """A consumer was given a run: every entry of it must be the next of its line, be this
        consumer's, and nobody else may have the key; but that a stray group has its holder."""
        for position in run.positions:
            if position not in self.unacked:
                self.wrong.append(f"{position} was acknowledged")
                continue
            ready = self.ready
            line, stray = self.line(position), self.stray_of(position)
            if position not in ready:
                self.wrong.append(f"{position} is out already")
            elif position != next(each for each in ready if self.line(each) == line):
                self.wrong.append(f"{position} overtakes another of its key")
            if (self.owner(position) if stray is None else stray) != number:
                self.wrong.append(f"{position} went to {number}, who has neither key nor group")
            others = self.holders(self.slots[position]) - {number}
            if self.sharing.in_order and others:
                self.wrong.append(f"the key of {position} is at {others} and {number}")
            mask = (run.masks or {}).get(position)
            if mask is not None and mask != self.unacked[position]:
                self.wrong.append(f"{position} shows {mask:#x} of {self.unacked[position]:#x}")
            self.held[number].add(position)

    def stuck(self, position: Position) -> bool:
        """Nothing keeps this ready entry, the first of its line, from being delivered."""
        stray = self.stray_of(position)
        owner = self.owner(position) if stray is None else stray
        if owner is None or self.consumers[owner].receiver.room <= 0:
            return False
        return not self.sharing.in_order or not self.holders(self.slots[position]) - {owner}

    def first_of_lines(self) -> list[Position]:
        """Of each line the first ready entry."""
        first: dict[int, Position] = {}
        for position in self.ready:
            first.setdefault(self.line(position), position)
        return sorted(first.values())


class ModelSink:
    """Tells the model."""

    def __init__(self, model: Model, number: int) -> None:
        self.model = model
        self.number = number

    def deliver(self, run: Deliveries) -> None:
        if self.number not in self.model.held:
            self.model.wrong.append(f"{run.positions} was delivered to one who left")
            return
        self.model.took(self.number, run)

    def active_changed(self, active: bool) -> None:
        self.model.wrong.append("somebody is active")

    def closed_by_core(self, reason: str) -> None:
        self.model.left(self.number)
