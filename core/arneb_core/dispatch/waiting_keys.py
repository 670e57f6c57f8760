"""Waiting keys: the entries of slots that cannot be delivered now, and which of them go next.

The rule: inside a slot entries go in log order; among a receiver's deliverable slots, the one
with the lowest entry is first. Nothing here looks at all waiting entries: a slot is looked at when
something of it changes, and a queue is a heap. The waiting entries of a group may part from their
slot; they then stand in a line of their own, under the group's number, which is no slot's, and that
line is treated like one more slot.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush

from pyroaring import BitMap64

from arneb_core.api.entries.position import Position
from arneb_core.dispatch.receiver import Receiver


class WaitingKeys:
    """The waiting entries by slot, and the queues of slots in front of receivers.

    Invariant: ``_turn`` has a slot if and only if it stands in a queue, with that entry. Queues may
    also hold outdated turns.
    """

    def __init__(self) -> None:
        self._by_slot: dict[int, deque[Position]] = {}
        self.positions = BitMap64()
        """All that waits. Entries of a line that are not in here were answered, and are skipped."""
        self._queues: dict[Receiver, list[tuple[Position, int]]] = {}
        self._turn: dict[int, Position] = {}
        self._groups: dict[Position, int] = {}
        """The groups of waiting entries that have one."""

    def __repr__(self) -> str:
        return f"<WaitingKeys {len(self.positions)} of {len(self._by_slot)} slots>"

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def slots(self) -> Mapping[int, object]:
        """The slots with entries that wait, or waited a moment ago."""
        return self._by_slot

    def add(
        self,
        positions: Sequence[Position],
        slots: Sequence[int],
        groups: Sequence[int] | None = None,
    ) -> set[int]:
        """Let these wait too; return the slots whose first entry may have changed."""
        self.positions.update(positions)
        if groups is not None:
            pairs = zip(positions, groups, strict=True)
            self._groups.update((position, group) for position, group in pairs if group)
        changed: set[int] = set()
        unsorted: set[int] = set()
        for position, slot in zip(positions, slots, strict=True):
            line = self._by_slot.get(slot)
            if line is None:
                self._by_slot[slot] = deque((position,))
                changed.add(slot)
                continue
            if position < line[-1]:
                unsorted.add(slot)
            line.append(position)
        for slot in unsorted:
            self._by_slot[slot] = deque(sorted(set(self._by_slot[slot])))
        return changed | unsorted

    def count(self, slot: int) -> int:
        """Return how many entries of the slot wait."""
        return sum(position in self.positions for position in self._by_slot.get(slot, ()))

    def keep_only(self, positions: BitMap64) -> None:
        """Forget entries not in ``positions``, which were answered by a consumer without them."""
        if self._groups:
            for number in self.positions - positions:
                self._groups.pop(Position(number), None)
        self.positions &= positions
        if not self.positions:
            self.clear()

    def first(self, slot: int) -> Position | None:
        """Return the lowest waiting entry of the slot."""
        line = self._by_slot.get(slot)
        while line:
            if line[0] in self.positions:
                return line[0]
            line.popleft()
        self._by_slot.pop(slot, None)
        return None

    def take(self, slot: int) -> Position:
        """Take the slot's first entry out; its turn has ended."""
        position = self._by_slot[slot].popleft()
        self.positions.discard(position)
        self._groups.pop(position, None)
        self._turn.pop(slot, None)
        self.first(slot)
        return position

    def line_up(self, slot: int, receiver: Receiver) -> None:
        """Put the slot, which may continue, into the queue of ``receiver``."""
        position = self.first(slot)
        if position is not None and not self._turn.get(slot, position + 1) <= position:
            self._turn[slot] = position
            heappush(self._queues.setdefault(receiver, []), (position, slot))

    def front(self, receiver: Receiver) -> int | None:
        """Return the slot at the front of the receiver's queue."""
        queue = self._queues.get(receiver)
        while queue:
            position, slot = queue[0]
            if self._turn.get(slot) == position:
                if self.first(slot) == position:
                    return slot
                self.hold_up(slot)  # that entry was answered
                self.line_up(slot, receiver)
            heappop(queue)
        return None

    def hold_up(self, slot: int) -> None:
        """End the slot's turn, until it lines up again."""
        self._turn.pop(slot, None)

    def part(self, slot: int, group: int) -> None:
        """Give the group's waiting entries a line of their own. No slot may be in a queue."""
        line, groups = self._by_slot.get(slot, ()), self._groups
        own = deque(position for position in line if groups.get(position) == group)
        if own:
            self._by_slot[group] = own
            self._by_slot[slot] = deque(
                position for position in line if groups.get(position) != group
            )
            self.first(slot)

    def rejoin(self, slot: int, group: int) -> None:
        """Put the group's waiting entries back into the slot's line, in their places."""
        own = self._by_slot.pop(group, None)
        self._turn.pop(group, None)
        if own:
            self._by_slot[slot] = deque(sorted({*self._by_slot.get(slot, ()), *own}))
            self.first(slot)

    def disperse(self) -> None:
        """Take all slots out of the queues: they have other owners now."""
        self._queues.clear()
        self._turn.clear()
        for slot in list(self._by_slot):
            self.first(slot)

    def clear(self) -> None:
        """Forget everything."""
        self._by_slot.clear()
        self.positions.clear()
        self._queues.clear()
        self._turn.clear()
        self._groups.clear()
