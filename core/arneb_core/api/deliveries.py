"""Deliveries: a run of entries on its way to somebody.

The rule: what is handed over is shared, so nobody changes the lists of a run.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from arneb_core.api.entry import messages_in
from arneb_core.api.position import Position


@dataclass(slots=True)
class Deliveries:
    """A run of entries for one consumer, in delivery order, as parallel lists.

    A plain mutable container of lists, not a list of values: this is the hot path, and
    the frontends work through it with ``zip`` and slices.
    """

    positions: list[Position]
    entries: list[bytes]
    redelivered: set[Position] | None = None
    """Those of ``positions`` that some consumer may have seen before; None = none of them."""
    redelivery_counts: Mapping[Position, int] | None = None
    """Counts above 0 by position; only negative acks and time-outs raise them."""
    masks: dict[Position, int] | None = None
    """For batches: bit *i* set = message *i* is delivered now (bit set = still unacked, for an
    entry-level consumer). A position that is absent is delivered whole."""
    offsets: list[int] | None = None
    """The offset of each entry's first message, where a frontend's sink put it."""

    def sizes(self) -> list[int]:
        """How many messages of each entry are delivered, which is what it costs of the permits."""
        masks = self.masks or {}
        return [
            masks[position].bit_count() if position in masks else messages_in(entry)
            for position, entry in zip(self.positions, self.entries, strict=True)
        ]
