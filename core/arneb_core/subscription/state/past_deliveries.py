"""The past deliveries of a subscription: which entries a consumer may have seen already, and how
often each was rejected.

The rule: an entry is marked redelivered if a consumer may have seen it, in an earlier process too,
and never if none can have. Acknowledged entries are forgotten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from arneb_core.api.entries.position import BEFORE_ALL, Position
from arneb_core.subscription.state.redeliveries import RedeliveryCounts


@dataclass(frozen=True, slots=True)
class Past:
    """What is remembered of the deliveries of some entries."""

    returned: BitMap64
    counts: Mapping[Position, int]


class PastDeliveries:
    """What is remembered of earlier deliveries."""

    __slots__ = ("_suspect_until", "_unseen", "counts", "returned")

    def __init__(self, suspect_until: Position) -> None:
        """``suspect_until``: entries up to here may have been delivered by an earlier process."""
        self._suspect_until = suspect_until
        self._unseen = BitMap64()
        """Those of them that no consumer can have seen."""
        self.returned = BitMap64()
        """Entries that came back from a consumer."""
        self.counts = RedeliveryCounts()

    def __repr__(self) -> str:
        return f"<PastDeliveries: {len(self.returned)} came back, {self.counts!r}>"

    def came_back(self, positions: Sequence[Position], *, count: bool) -> None:
        """Count these as seen, and with ``count`` as rejected once more."""
        self.returned.update(positions)
        if count:
            self.counts.raise_(positions)

    def vouch(self, positions: Sequence[Position] | BitMap64) -> None:
        """Note that no consumer can have seen these, whatever was stored before the start."""
        if positions[0] <= self._suspect_until:
            self._unseen.update(positions)

    def seen_before(self, positions: list[Position]) -> set[Position] | None:
        """Return those of ``positions`` that a consumer may have seen before, None if none."""
        seen: set[Position] = set()
        if positions[0] <= self._suspect_until:
            seen.update(each for each in positions if each <= self._suspect_until)
            if self._unseen:
                seen.difference_update(each for each in positions if each in self._unseen)
                self._unseen.difference_update(BitMap64(positions))
        if self.returned and positions[0] <= self.returned.max():
            returned = self.returned
            seen.update(each for each in positions if each in returned)
        return seen or None

    def redelivery_count(self, position: Position) -> int:
        """Return how often the entry came back by a negative acknowledgement, a requeue or a
        time-out. Returns because a consumer left do not count."""
        return self.counts.get(position)

    def acknowledged(self, positions: Sequence[Position]) -> None:
        """Forget these, which are acknowledged."""
        if self.counts:
            self.counts.forget(positions)
        if self.returned:
            self.returned.difference_update(BitMap64(positions))

    def acknowledged_through(self, position: Position) -> None:
        """Forget everything up to ``position``, which is acknowledged."""
        if self.returned:
            self.returned.remove_range(0, position + 1)
        if self.counts:
            self.counts.forget_through(position)

    def keep_only(self, positions: Sequence[Position]) -> None:
        """Forget everything but ``positions``, which is acknowledged."""
        past = self.of(positions)
        self.returned = past.returned
        self.counts.clear()
        self.counts.update(past.counts)

    def of(self, positions: Sequence[Position]) -> Past:
        """Return what is remembered of ``positions``."""
        known = self.counts.of(positions) if self.counts else {}
        return Past(self.returned & BitMap64(positions), known)

    def remember(self, past: Past) -> None:
        """Undo :meth:`acknowledged`: the acknowledgement was undone."""
        self.returned |= past.returned
        self.counts.update(past.counts)

    def forget(self) -> None:
        """A seek: nothing counts as seen."""
        self.returned.clear()
        self._unseen.clear()
        self.counts.clear()
        self._suspect_until = BEFORE_ALL
