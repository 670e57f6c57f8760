"""Auto-split hash ranges: every receiver has one range of slots, and they cover all.

The rule: a new receiver takes the lower half of the biggest range, and one that leaves gives its
range to its right neighbour, so only one other receiver is concerned. Source: Pulsar
``HashRangeAutoSplitStickyKeyConsumerSelector``.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from arneb_core.dispatch.receiver import Receiver
from arneb_core.dispatch.selector import SLOTS, slots_of


class AutoSplitSelector:
    """Ranges by their last slot, in order; the last one ends at :data:`SLOTS`."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._receivers: list[Receiver] = []

    def __repr__(self) -> str:
        pairs = zip(self._receivers, self._ends, strict=True)
        return f"<AutoSplitSelector {', '.join(f'{each.name} to {end}' for each, end in pairs)}>"

    def add(self, receiver: Receiver) -> None:
        """Split the biggest range, the lowest of several."""
        if not self._ends:
            self._ends, self._receivers = [SLOTS], [receiver]
            return
        starts = [0, *self._ends[:-1]]
        sizes = [end - start for start, end in zip(starts, self._ends, strict=True)]
        index = sizes.index(max(sizes))
        assert sizes[index] > 1, "there are fewer consumers than slots"
        self._ends.insert(index, self._ends[index] - sizes[index] // 2)
        self._receivers.insert(index, receiver)

    def remove(self, receiver: Receiver) -> None:
        """Merge its range into the next one, the last range into the one before it."""
        index = self._receivers.index(receiver)
        self._receivers.pop(index)
        self._ends.pop(index)
        if self._ends:
            self._ends[-1] = SLOTS

    def select(self, slot: int) -> Receiver | None:
        """Return the receiver whose range has the slot."""
        return self._receivers[bisect_left(self._ends, slot)] if self._ends else None

    def slots(self, hashes: Sequence[int]) -> list[int]:
        """As :func:`.slots_of`."""
        return slots_of(hashes)

    def ranges(self) -> Iterable[tuple[int, int, Receiver]]:
        """One range for each receiver. No key has the slot :data:`SLOTS`."""
        first = 1
        for receiver, end in zip(self._receivers, self._ends, strict=True):
            yield first, min(end, SLOTS - 1), receiver
            first = end + 1
