"""Outstanding: what was handed over to go elsewhere, and is not there yet.

The rule: it is bounded, in entries and in bytes; what is done with is looked for only when the
bound is met.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from arneb_core.api.position import Position
from arneb_core.subscription.in_flight import InFlight

OUTSTANDING_MAX: Final = 1_024
"""Entries; a commit holds a few thousand at the most, so more would only wait."""

OUTSTANDING_BYTES_MAX: Final = 4 * 1024 * 1024
"""And their bytes; a single entry may be larger."""


class Outstanding:
    """What of one subscription was handed over."""

    def __init__(self) -> None:
        self._sizes: dict[Position, int] = {}
        """In bytes, of what is outstanding, or was when that was last looked at."""

    def __repr__(self) -> str:
        return f"<Outstanding {len(self._sizes)} entries>"

    @property
    def places(self) -> AbstractSet[Position]:
        """Where they stand."""
        return self._sizes.keys()

    def add(self, positions: Sequence[Position], entries: Sequence[bytes]) -> None:
        """These are handed over."""
        self._sizes.update(zip(positions, map(len, entries), strict=True))

    def remove(self, positions: Iterable[Position]) -> None:
        """These were not taken."""
        for place in positions:
            self._sizes.pop(place, None)

    def clear(self) -> None:
        """Nothing is."""
        self._sizes.clear()

    def fitting(self, entries: Sequence[bytes], holder: InFlight) -> int:
        """How many of ``entries``, from the first on, may be handed over now. What ``holder`` has
        in flight no more is outstanding no more."""
        left = OUTSTANDING_BYTES_MAX - sum(self._sizes.values())
        if left <= 0 or len(self._sizes) >= OUTSTANDING_MAX:
            whole, masks = holder.whole, holder.masks
            self._sizes = {
                place: size
                for place, size in self._sizes.items()
                if place in whole or place in masks
            }
            left = OUTSTANDING_BYTES_MAX - sum(self._sizes.values())
        for index, entry in enumerate(entries[: OUTSTANDING_MAX - len(self._sizes)]):
            if left <= 0:
                return index
            left -= len(entry)
        return min(len(entries), OUTSTANDING_MAX - len(self._sizes))
