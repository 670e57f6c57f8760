"""The blocks and shared bodies of a damaged store, as far as they are intact.

The rule: what a row leads to takes precedence over what was found without one. Where a block ends
is known from its row even if the block is damaged, so that its positions are not used again.
"""

from contextlib import suppress
from struct import error

from arneb_core.api.entries.entry import HEADER_BYTES, messages_in
from arneb_core.api.entries.position import Position
from arneb_core.store.format.block import (
    BlockCorrupt,
    decode_block,
    encode_shared_block,
    whole_parts,
)
from arneb_core.store.format.bodies import unpack_body
from arneb_core.store.format.records import unpack_trims
from arneb_core.store.format.schema import (
    META_AHEAD,
    META_TRIMS,
    BodyKey,
    Table,
    TopicId,
    parse_entry_key,
)
from arneb_core.store.salvage.salvaged_log import FoundBlock
from arneb_core.store.salvage.scan import Place, Remains


class SalvagedBlocks:
    """What can still be read of ENTRIES and BODIES."""

    def __init__(self, remains: Remains) -> None:
        self._remains = remains
        self._values: list[Place | bytes] = []
        self._bodies = _find_bodies(remains)
        self.live: dict[int, TopicId] = {}
        """The topics of blocks that a row leads to, by :attr:`.FoundBlock.value`."""
        self.ends: dict[TopicId, list[Position]] = {}
        """The ends of such blocks by their rows, including damaged blocks."""

    def __repr__(self) -> str:
        return f"<SalvagedBlocks {len(self._values)} blocks, {len(self._bodies)} bodies>"

    def body(self, key: BodyKey) -> bytes:
        """Return an entry that blocks share. Raises :class:`.BlockCorrupt` when it is lost."""
        place = self._bodies.get(key)
        return unpack_body(key, None if place is None else self._remains.read(place))

    def find(self) -> dict[TopicId, list[FoundBlock]]:
        """Return all blocks that have a row, in the tree or found outside it, by topic."""
        remains = self._remains
        live = remains.live[Table.ENTRIES]
        trims = []
        for key, value in remains.rows(Table.META):
            if key in (META_TRIMS, META_AHEAD):
                with suppress(ValueError):
                    trims += unpack_trims(value)
        places = {key: [place] for key, place in live.items()}
        for key, strays in remains.strays[Table.ENTRIES].items():
            places.setdefault(key, []).extend(strays)
        found: dict[TopicId, list[FoundBlock]] = {}
        for key in sorted(places):
            try:
                topic_id, last = parse_entry_key(key)
            except error:
                continue
            trimmed = [(low, high) for topic, low, high in trims if topic == topic_id]
            kept = [
                block
                for block in self._first_whole(places[key], last)
                if not any(low <= block.first and block.last <= high for low, high in trimmed)
            ]
            if kept:
                found.setdefault(topic_id, []).extend(kept)
            if key in live and not any(low <= last <= high for low, high in trimmed):
                self.ends.setdefault(topic_id, []).append(last)
                self.live.update({block.value: topic_id for block in kept})
        return found

    def at(self, place: Place) -> list[FoundBlock]:
        """Return the block at ``place``."""
        return self._blocks_of(self._remains.read(place), place)

    def note(self, first: Position, entries: list[bytes], value: Place | bytes) -> FoundBlock:
        """Register a block that will be written as ``value``, or as what is at that place."""
        self._values.append(value)
        messages = sum(messages_in(each) if len(each) >= HEADER_BYTES else 1 for each in entries)
        size = sum(map(len, entries))
        return FoundBlock(first, len(entries), messages, size, len(self._values) - 1)

    def value(self, block: FoundBlock) -> bytes:
        """Return the block as it will be written."""
        value = self._values[block.value]
        return self._remains.read(value) if isinstance(value, Place) else value

    def entries(self, block: FoundBlock) -> list[bytes]:
        """Return the entries of a block."""
        return decode_block(self.value(block), self.body)[1]

    def _first_whole(self, places: list[Place], last: Position) -> list[FoundBlock]:
        for place in places:
            blocks = self.at(place)
            if blocks and all(block.last <= last for block in blocks):
                return blocks
        return []

    def _blocks_of(self, value: bytes, place: Place) -> list[FoundBlock]:
        """Return the block as it is, or what is left of it when bodies are missing; nothing when it
        is damaged."""
        with suppress(BlockCorrupt):
            first, entries = decode_block(value, self.body)
            return [self.note(first, entries, place)]
        with suppress(BlockCorrupt):
            return [
                self.note(first, entries, bytes(encode_shared_block(first, entries, keys)))
                for first, entries, keys in whole_parts(value, self.body)
            ]
        return []


def _find_bodies(remains: Remains) -> dict[BodyKey, Place]:
    found = {BodyKey(key): place for key, place in remains.live[Table.BODIES].items()}
    for key, places in remains.strays[Table.BODIES].items():
        found.setdefault(BodyKey(key), places[0])
    return found
