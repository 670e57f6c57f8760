"""Held keys: which receiver has entries of a slot in flight.

The rule: a slot has at most one holder, from the delivery of its first entry until its last is
answered. It costs two dictionary entries for each entry in flight, and nothing for others.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from arneb_core.api.entries.position import Position
from arneb_core.dispatch.receiver import Receiver


class HeldKeys:
    """The slots of everything in flight."""

    def __init__(self) -> None:
        self.holders: dict[int, Receiver] = {}
        """By slot; not to be changed by others."""
        self._counts: Counter[int] = Counter()
        self._slots: dict[Position, int] = {}

    def __repr__(self) -> str:
        return f"<HeldKeys {len(self._slots)} entries, {len(self.holders)} slots>"

    def took(self, receiver: Receiver, positions: Sequence[Position], slots: Sequence[int]) -> None:
        """Note that ``positions``, whose slots are ``slots``, are in flight at ``receiver``."""
        self._slots.update(zip(positions, slots, strict=True))
        self._counts.update(slots)
        self.holders.update(dict.fromkeys(slots, receiver))

    def count(self, slot: int) -> int:
        """Return how many entries of the slot are in flight."""
        return self._counts[slot]

    def left(self, positions: Iterable[Position]) -> dict[Position, int]:
        """Note that these are not in flight any more; return the slots of those that were."""
        slots, counts = self._slots, self._counts
        found: dict[Position, int] = {}
        for position in positions:
            slot = slots.pop(position, None)
            if slot is not None:
                found[position] = slot
                counts[slot] -= 1
                if not counts[slot]:
                    counts.pop(slot)
                    self.holders.pop(slot)
        return found
