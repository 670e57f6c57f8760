"""The salvaged cursor: where a subscription is in what is left of its log.

The rule: doubtful entries are delivered again rather than not at all. Of old rows the lowest
counts, or none if the current row may not be among them, because a seek may have gone back since.
What a cursor says about unknown entries is left out.
"""

from collections.abc import Callable, Iterator

from pyroaring import BitMap

from arneb_core.api.entries.position import BEFORE_ALL, Position, before
from arneb_core.store.format.records import (
    CursorRecord,
    pack_holes,
    pack_mask,
    unpack_holes,
    unpack_mask,
)
from arneb_core.store.format.schema import (
    CHUNK_BITS,
    CHUNK_MASK,
    PLACE_SUFFIX,
    CursorKind,
    holes_suffix,
    mask_suffix,
)
from arneb_core.store.salvage.salvaged_log import SalvagedLog


class SalvagedCursor:
    """What is left of one cursor."""

    def __init__(self) -> None:
        self.place = CursorRecord(BEFORE_ALL, Position(BEFORE_ALL + 1))
        self.is_live = False
        self.holes: dict[int, BitMap] = {}
        self.masks: dict[Position, int] = {}

    def __repr__(self) -> str:
        return f"<SalvagedCursor at {self.place}, {len(self.holes)} chunks of holes>"

    @property
    def last_known(self) -> Position:
        """The last position at which it knows of an entry, or of a bound."""
        return max(self.place.mark_delete, before(self.place.read_position))

    def take(self, kind: CursorKind, low: int, value: bytes) -> None:
        """Take a current row. Raises :class:`ValueError` when it is malformed."""
        if kind is CursorKind.PLACE:
            self.place = CursorRecord.unpack(value)
            self.is_live = True
        elif kind is CursorKind.HOLES:
            self.holes[low] = unpack_holes(value)
        else:
            self.masks[Position(low)] = unpack_mask(value)

    def drop(self, kind: CursorKind, low: int) -> None:
        """Drop a row that was deleted; never that of the place."""
        if kind is CursorKind.HOLES:
            self.holes.pop(low, None)
        elif kind is CursorKind.MASK:
            self.masks.pop(Position(low), None)

    def take_old(self, values: list[bytes], *, goes_back: bool) -> None:
        """Take rows that may be old: of several the lowest, so that no entry is skipped.

        ``goes_back``: to the start; the rows then only show how far there were entries.
        """
        records = [CursorRecord.unpack(value) for value in values]
        lowest = BEFORE_ALL if goes_back else min(each.mark_delete for each in records)
        furthest = max(each.read_position for each in records)
        self.place = CursorRecord(lowest, max(furthest, Position(lowest + 1)))
        self.holes.clear()
        self.masks.clear()

    def rows(
        self, log: SalvagedLog, messages_at: Callable[[SalvagedLog, Position], int]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the rest of the keys, and the values, adapted to the log."""
        mark_delete = log.floored(self.place.mark_delete)
        furthest = max(log.floored(before(self.place.read_position)), mark_delete)
        yield PLACE_SUFFIX, CursorRecord(mark_delete, Position(furthest + 1)).pack()
        if not self.is_live:
            return
        for chunk, holes in self.holes.items():
            low = chunk << CHUNK_BITS
            kept = BitMap(
                each
                for each in holes
                if low + each > mark_delete and log.contains(Position(low + each))
            )
            if kept:
                yield holes_suffix(chunk), pack_holes(kept)
        for place, mask in self.masks.items():
            acked = place & CHUNK_MASK in self.holes.get(place >> CHUNK_BITS, ())
            if mask and place > mark_delete and not acked and not mask >> messages_at(log, place):
                yield mask_suffix(place), pack_mask(mask)
