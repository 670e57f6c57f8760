"""Outstanding: entries handed to the dead-letter target that have not arrived there yet.

The rule: they are bounded, in entries and in bytes; those that have arrived are looked for only
when the bound is met.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from arneb_core.api.entries.position import Position
from arneb_core.subscription.state.in_flight import InFlight

OUTSTANDING_MAX: Final = 1_024
"""Entries; a commit holds a few thousand at the most, so more would only wait."""

BYTES_PER_ENTRY: Final = 4 * 1024
"""And their bytes, for each entry that there may be; a single entry may be larger."""


class Outstanding:
    """The outstanding entries of one subscription."""

    def __init__(self) -> None:
        self.entries_max = OUTSTANDING_MAX
        self._sizes: dict[Position, int] = {}
        """In bytes, by entry, of those outstanding when that was last looked at."""

    def __repr__(self) -> str:
        return f"<Outstanding {len(self._sizes)} entries>"

    @property
    def positions(self) -> AbstractSet[Position]:
        """Their positions."""
        return self._sizes.keys()

    def add(self, positions: Sequence[Position], entries: Sequence[bytes]) -> None:
        """Note that these are handed over."""
        self._sizes.update(zip(positions, map(len, entries), strict=True))

    def remove(self, positions: Iterable[Position]) -> None:
        """Forget these, which were not taken."""
        for position in positions:
            self._sizes.pop(position, None)

    def clear(self) -> None:
        """Forget everything."""
        self._sizes.clear()

    def room_for(self, entries: Sequence[bytes], holder: InFlight) -> int:
        """Return how many of the leading ``entries`` may be handed over now. Entries no longer in
        flight at ``holder`` are no longer outstanding."""
        bytes_max = BYTES_PER_ENTRY * self.entries_max
        left = bytes_max - sum(self._sizes.values())
        if left <= 0 or len(self._sizes) >= self.entries_max:
            whole, masks = holder.whole, holder.masks
            self._sizes = {
                position: size
                for position, size in self._sizes.items()
                if position in whole or position in masks
            }
            left = bytes_max - sum(self._sizes.values())
        room = max(0, self.entries_max - len(self._sizes))
        for index, entry in enumerate(entries[:room]):
            if left <= 0:
                return index
            left -= len(entry)
        return min(len(entries), room)
