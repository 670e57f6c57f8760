"""Joining large messages that their producer divided into several entries.

The rule: a message's position is that of its last part, so whoever reads that part gets the message
as one row, and the other parts have no rows. They are looked up before it in the same log, as far
back as :data:`LOOK_BACK_ENTRIES`. A last part without all the others is left as it is, and becomes
a raw row.
"""

from collections.abc import Mapping
from typing import Final

from arneb_core.api.entries.codec import Codec, PartCodec
from arneb_core.api.entries.entry import EntryFlag, Origin
from arneb_core.api.entries.position import Position, ledger_of, position_at
from arneb_core.store.format.block import BlockCorrupt
from pyspark_arneb.decode.chunks import READ_BYTES, Chunk, chunk_of
from pyspark_arneb.decode.heads import ORIGIN_OFFSET, Heads
from pyspark_arneb.log.block_source import BlockSource
from pyspark_arneb.plan.ranges import Span

LOOK_BACK_ENTRIES: Final = 10_000
"""How many entries before a span the first parts of a message are looked for: other producers'
entries may lie between the parts."""

PARTS_KNOWN_MAX: Final = 50_000
"""Positions of parts that one task keeps; the oldest message is dropped first."""


class Assembler:
    """Joins the divided messages of one span."""

    def __init__(self, source: BlockSource, span: Span, codecs: Mapping[Origin, Codec]) -> None:
        self._source = source
        self._span = span
        self._codecs = codecs
        self._places: dict[str, dict[int, Position]] = {}
        """The positions of each message's parts, by index; the oldest message first."""
        self._known = 0
        self._looked_back = False

    def __repr__(self) -> str:
        return f"<Assembler of {self._span}: {len(self._places)} messages begun>"

    def whole(self, chunk: Chunk) -> Chunk | None:
        """Return the chunk with each divided message in place of its last part; None if nothing is
        left."""
        if not chunk.heads.have(EntryFlag.GROUPED):
            return chunk
        places: list[int] = []
        entries: list[bytes] = []
        for place, entry, flags in zip(
            chunk.positions, chunk.entries, chunk.heads.flags, strict=True
        ):
            whole = self._taken(Position(place), entry) if flags & EntryFlag.GROUPED else entry
            if whole is not None:
                places.append(place)
                entries.append(whole)
        return chunk_of(places, entries) if entries else None

    def _taken(self, place: Position, entry: bytes) -> bytes | None:
        """Return the entry to pass on for a part; None if a later part completes the message."""
        codec = self._codecs.get(Origin(entry[ORIGIN_OFFSET]))
        part = codec.part_of(entry) if isinstance(codec, PartCodec) else None
        if part is None or not isinstance(codec, PartCodec):
            return entry
        if part.index < part.count - 1:
            self._note(part.message, part.index, place)
            return None
        if len(self._places.get(part.message, ())) < part.count - 1:
            self._look_back()
        found = self._places.pop(part.message, {})
        self._known -= len(found)
        parts = [self._read(found[index]) for index in range(part.count - 1) if index in found]
        try:
            return codec.join([*(each for each in parts if each is not None), entry])
        except ValueError:
            return entry

    def _note(self, message: str, index: int, place: Position) -> None:
        places = self._places.setdefault(message, {})
        self._known += index not in places
        # If a producer sent a part twice, the first one counts, as for Pulsar's consumers.
        places.setdefault(index, place)
        while self._known > PARTS_KNOWN_MAX:
            oldest = next(iter(self._places))
            self._known -= len(self._places.pop(oldest))

    def _look_back(self) -> None:
        """Find the parts before the span, once."""
        if self._looked_back:
            return
        self._looked_back = True
        later, self._places = self._places, {}
        self._known = 0
        place = Position(max(0, self._span.first - LOOK_BACK_ENTRIES))
        if ledger_of(place) < ledger_of(self._span.first):
            # Positions are not dense across ledgers: begin as far before the end of the last one.
            place = self._before_the_ledger()
        while place < self._span.first:
            last = Position(self._span.first - 1)
            blocks = self._source.read(self._span.topic_id, place, last, READ_BYTES)
            for block in blocks:
                try:
                    first, entries = block.decode()
                except BlockCorrupt:
                    continue
                for at, entry in enumerate(entries, first):
                    if place <= at <= last:
                        self._look_at(Position(at), entry)
            if not blocks:
                break
            place = Position(blocks[-1].last + 1)
        for message, places in later.items():
            for index, at in places.items():
                self._note(message, index, at)

    def _before_the_ledger(self) -> Position:
        """Return a position some :data:`LOOK_BACK_ENTRIES` before the span, when its ledger has
        fewer."""
        (extent,) = self._source.extents([self._span.topic])[:1] or (None,)
        ledger = ledger_of(self._span.first)
        missing = LOOK_BACK_ENTRIES - (self._span.first - position_at(ledger, 0))
        start = position_at(ledger, 0)
        for each in reversed(extent.ledgers if extent is not None else ()):
            if ledger_of(each.first) >= ledger or missing <= 0:
                continue
            start = Position(max(each.first, each.last + 1 - missing))
            missing -= each.entries
        return start

    def _look_at(self, place: Position, entry: bytes) -> None:
        heads = Heads.of([entry])
        if heads is None or not heads.have(EntryFlag.GROUPED):
            return
        codec = self._codecs.get(Origin(entry[ORIGIN_OFFSET]))
        part = codec.part_of(entry) if isinstance(codec, PartCodec) else None
        if part is not None and part.index < part.count - 1:
            self._note(part.message, part.index, place)

    def _read(self, place: Position) -> bytes | None:
        """Return the entry at a position, if it can be read."""
        for block in self._source.read(self._span.topic_id, place, place, 1):
            try:
                first, entries = block.decode()
            except BlockCorrupt:
                return None
            if first <= place < first + len(entries):
                return entries[place - first]
        return None
