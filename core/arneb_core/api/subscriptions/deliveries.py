"""Deliveries: a run of entries on its way to a consumer.

The rule: the lists of a run are shared, so nobody changes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from arneb_core.api.entries.entry import messages_in
from arneb_core.api.entries.position import Position


@dataclass(slots=True)
class Deliveries:
    """A run of entries for one consumer, in delivery order, as parallel lists.

    A plain mutable container of lists, not a list of values: this is the hot path, and the
    frontends work through it with ``zip`` and slices.
    """

    positions: list[Position]
    entries: list[bytes]
    redelivered: set[Position] | None = None
    """Those of ``positions`` that some consumer may have seen before; None: none of them."""
    redelivery_counts: Mapping[Position, int] | None = None
    """Counts above 0 by position; only negative acks and time-outs raise them."""
    masks: dict[Position, int] | None = None
    """For batches: bit *i* set: message *i* is delivered now (or is still unacknowledged, for an
    entry-level consumer). A position without a mask is delivered whole."""
    offsets: list[int] | None = None
    """The offset of each entry's first message, if a frontend's sink has set it."""

    def sizes(self) -> list[int]:
        """Return how many messages of each entry are delivered, which is its cost in permits."""
        masks = self.masks or {}
        return [
            masks[position].bit_count() if position in masks else messages_in(entry)
            for position, entry in zip(self.positions, self.entries, strict=True)
        ]
