"""Sticky ranges: every receiver names its own slots.

The rule: ranges do not overlap; a slot in none of them has no owner, and its entries wait until a
receiver comes with a range that has it. Source: Pulsar
``HashRangeExclusiveStickyKeyConsumerSelector``.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import itemgetter

from arneb_core.api.errors import KeyRangesRefused
from arneb_core.api.subscriptions.key_sharing import SlotRange
from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.selector import SLOTS, slots_of

Owned = tuple[int, int, Receiver]
"""First and last slot, and their owner."""

FIRST = itemgetter(0)


class StickyRangesSelector:
    """The ranges, by their first slot."""

    def __init__(self) -> None:
        self._owned: list[Owned] = []

    def __repr__(self) -> str:
        ranges = ", ".join(f"{each.name} {first}-{last}" for first, last, each in self._owned)
        return f"<StickyRangesSelector {ranges}>"

    def add(self, receiver: Receiver) -> None:
        """Add its ranges, which have passed :func:`check_ranges`."""
        for first, last in receiver.ranges:
            insort(self._owned, (first, last, receiver), key=FIRST)

    def remove(self, receiver: Receiver) -> None:
        """Remove its ranges: their slots have no owner."""
        self._owned = [each for each in self._owned if each[2] is not receiver]

    def select(self, slot: int) -> Receiver | None:
        """Return the receiver whose range has the slot."""
        index = bisect_right(self._owned, slot, key=FIRST) - 1
        if index < 0:
            return None
        _, last, receiver = self._owned[index]
        return receiver if slot <= last else None

    def slots(self, hashes: Sequence[int]) -> list[int]:
        """As :func:`.slots_of`."""
        return slots_of(hashes)

    def ranges(self) -> Iterable[Owned]:
        """The ranges as they were asked for."""
        return self._owned


def check_ranges(wanted: Sequence[SlotRange], taken: Iterable[SlotRange]) -> None:
    """Raise :class:`KeyRangesRefused` unless ``wanted`` are valid ranges that overlap none."""
    if not wanted:
        raise KeyRangesRefused("expected ranges of key hashes, got none")
    for first, last in wanted:
        if not 0 <= first <= last < SLOTS:
            raise KeyRangesRefused(
                f"expected a range inside [0, {SLOTS - 1}], got [{first}, {last}]"
            )
    present = sorted([*wanted, *taken])
    for (first, last), (following, end) in pairwise(present):
        if following <= last:
            raise KeyRangesRefused(
                f"expected ranges apart, got [{first}, {last}] and [{following}, {end}]"
            )
