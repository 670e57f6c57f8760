"""Holes: the entries that are acknowledged one by one beyond the mark-delete position.

The rule: this module knows bitmaps, not the log and not mark-delete. A set of positions is kept in
chunks of 65,536 (``position >> 16``), each a roaring bitmap of the low 16 bits, so that a change
rewrites one chunk on disk and every operation on a run is C code.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from sys import byteorder
from typing import Final, cast

from pyroaring import BitMap

from arneb_core.api.entries.position import AFTER_ALL, ENTRY_MASK, Position
from arneb_core.cursor.unsaved import Unsaved

CHUNK_BITS: Final = 16
CHUNK_SIZE: Final = 1 << CHUNK_BITS
CHUNK_MASK: Final = CHUNK_SIZE - 1

LEDGER_MASK: Final = ENTRY_MASK & ~CHUNK_MASK
"""The bits of an entry id that say in which of its ledger's chunks it is."""

# Where the halves of a native u64 lie when it is read as two u32.
_LOW, _HIGH = (0, 1) if byteorder == "little" else (1, 0)


class Holes:
    """A set of positions. Invariants: no chunk is empty; ``count`` is the sum of the chunks."""

    __slots__ = ("_chunks", "_unsaved", "count")

    def __init__(self) -> None:
        self._chunks: dict[int, BitMap] = {}
        self._unsaved = Unsaved()
        self.count = 0

    def __repr__(self) -> str:
        return f"<Holes {self.count} in {len(self._chunks)} chunks, {self._unsaved!r}>"

    def add(self, position: Position) -> bool:
        """Add one position; return False when it was there."""
        key, low = position >> CHUNK_BITS, position & CHUNK_MASK
        chunk = self._chunks.get(key)
        if chunk is None:
            self._chunks[key] = BitMap((low,))
        elif low in chunk:
            return False
        else:
            chunk.add(low)
        self.count += 1
        self._unsaved.dirty[key] = None
        return True

    def add_lows(self, key: int, lows: BitMap) -> int:
        """Add positions of one chunk; return how many were not there. Takes ``lows`` over."""
        chunk = self._chunks.get(key)
        if chunk is None:
            newly = len(lows)
            if newly:
                self._chunks[key] = lows
        else:
            newly = -len(chunk)
            chunk |= lows
            newly += len(chunk)
        if newly:
            self.count += newly
            self._unsaved.dirty[key] = None
        return newly

    def discard_lows(self, key: int, lows: BitMap) -> int:
        """Remove positions of one chunk; return how many were there."""
        chunk = self._chunks.get(key)
        return 0 if chunk is None else self._replace(key, chunk, chunk - lows)

    def discard_range(self, first: Position, last: Position) -> int:
        """Remove everything in [first, last]; return how many those were."""
        gone = 0
        for key in self._keys_between(first, last):
            left = self._chunks[key].copy()
            left.remove_range(*_part(key, first, last))
            gone += self._replace(key, self._chunks[key], left)
        return gone

    def pop_run(self, first: Position) -> Position | None:
        """Remove the unbroken run that begins at ``first``, up to its chunk's end at most.

        Return its last position, None when ``first`` is not in. The chunk must have nothing below
        ``first``.
        """
        key, low = first >> CHUNK_BITS, first & CHUNK_MASK
        chunk = self._chunks.get(key)
        if chunk is None or low not in chunk:
            return None
        end, top = _run_end(chunk, low), chunk.max()
        self.count -= end + 1 - low
        if end == top:
            del self._chunks[key]
            self._unsaved.dropped(key)
        else:
            chunk.remove_range(low, end + 1)
            self._unsaved.dirty[key] = None
        return Position(key << CHUNK_BITS | end)

    def clear(self) -> None:
        """Remove everything."""
        for key in self._chunks:
            self._unsaved.dropped(key)
        self._chunks.clear()
        self.count = 0

    def __contains__(self, position: Position) -> bool:
        chunk = self._chunks.get(position >> CHUNK_BITS)
        return chunk is not None and (position & CHUNK_MASK) in chunk

    def count_between(self, first: Position, last: Position) -> int:
        """Count those in [first, last]."""
        found = 0
        for key in self._keys_between(first, last):
            start, stop = _part(key, first, last)
            chunk = self._chunks[key]
            whole = stop - start == CHUNK_SIZE
            found += len(chunk) if whole else chunk.range_cardinality(start, stop)
        return found

    def absent(self, positions: Sequence[int], after: Position) -> list[Position]:
        """Return those of ``positions``, which ascend, that lie beyond ``after`` and are not in."""
        found: list[int] = []
        start = bisect_right(positions, after)
        while start < len(positions):
            key = positions[start] >> CHUNK_BITS
            stop = bisect_left(positions, key + 1 << CHUNK_BITS, start)
            part = positions[start:stop]
            chunk = self._chunks.get(key)
            if chunk is not None:
                part = [position for position in part if position & CHUNK_MASK not in chunk]
            found += part
            start = stop
        return cast(list[Position], found)

    def unacknowledged(
        self, positions: Sequence[Position], ordered: Sequence[Position], after: Position
    ) -> list[Position]:
        """Return those of ``positions`` that lie beyond ``after`` and are not in; ``ordered`` has
        the same positions. Mostly it is all of them, and then no Python code runs once for each."""
        acknowledged: set[int] = set(ordered[: bisect_right(ordered, after)])
        if self.count:
            acknowledged.update(self.present(chunks_of(ordered)))
        return (
            [each for each in positions if each not in acknowledged]
            if acknowledged
            else [*positions]
        )

    def present(self, chunks: Iterable[tuple[int, BitMap]]) -> list[int]:
        """Return those of ``chunks`` that are in."""
        found: list[int] = []
        for key, lows in chunks:
            chunk = self._chunks.get(key)
            if chunk is not None and chunk.intersect(lows):
                base = key << CHUNK_BITS
                found += [base + low for low in chunk & lows]
        return found

    @property
    def runs(self) -> int:
        """How many unbroken runs there are."""
        found = 0
        for key, chunk in self._chunks.items():
            found += len(chunk - chunk.shift(1))
            before = self._chunks.get(key - 1) if key << CHUNK_BITS & ENTRY_MASK else None
            found -= before is not None and 0 in chunk and CHUNK_MASK in before
        return found

    def first_runs(self, limit: int) -> list[tuple[Position, Position]]:
        """Return the first and last positions of the first ``limit`` runs."""
        found: list[tuple[Position, Position]] = []
        for key in sorted(self._chunks):
            base, chunk = key << CHUNK_BITS, self._chunks[key]
            starts, ends = chunk - chunk.shift(1), chunk - chunk.shift(-1)
            for low, high in zip(starts, ends, strict=True):
                first, last = Position(base + low), Position(base + high)
                if found and found[-1][1] + 1 == first and first & ENTRY_MASK:
                    found[-1] = found[-1][0], last
                elif len(found) == limit:
                    return found
                else:
                    found.append((first, last))
        return found

    @property
    def packed_bytes(self) -> int:
        """About how many bytes they take on disk."""
        found = 0
        for chunk in self._chunks.values():
            figures = chunk.get_statistics()
            found += figures["n_bytes_array_containers"] + figures["n_bytes_run_containers"]
            found += figures["n_bytes_bitset_containers"]
        return found

    def missing(self, first: Position, last: Position, limit: int) -> list[int]:
        """Return the first ``limit`` positions in [first, last] that are not in, in order."""
        found: list[int] = []
        for key in range(first >> CHUNK_BITS, (last >> CHUNK_BITS) + 1):
            if (room := limit - len(found)) <= 0:
                break
            base = key << CHUNK_BITS
            start, stop = _part(key, first, last)
            chunk = self._chunks.get(key)
            if chunk is None:
                found += range(base + start, base + min(stop, start + room))
                continue
            free = BitMap(range(start, stop)) - chunk
            if len(free) > room:
                free = free[:room]
            found += [base + low for low in free.to_array()]
        return found

    @property
    def has_changes(self) -> bool:
        """:meth:`take_changes` would find some."""
        return bool(self._unsaved.dirty)

    def take_changes(self) -> list[tuple[int, bytes | None]]:
        """Return the chunks changed since the last call: serialised, or None for a removed one."""
        return [(key, self._pack(key)) for key in self._unsaved.take(self._chunks)]

    def mark_dirty_again(self, keys: Iterable[int]) -> None:
        """Have taken chunks, whose commit failed, taken again, as they are by then."""
        self._unsaved.failed(keys)

    def mark_loaded(self, key: int, *, altered: bool) -> None:
        """Note that what was just added to ``key`` came from the disk; ``altered``: only part of
        it was added."""
        self._unsaved.loaded(key)
        if altered:
            self._unsaved.dirty[key] = None
        else:
            self._unsaved.dirty.pop(key, None)

    def _pack(self, key: int) -> bytes | None:
        chunk = self._chunks.get(key)
        if chunk is None:
            return None
        # One stuck entry under a long acknowledged run is the common case: stored as runs it takes
        # some twenty bytes, and 8 KiB otherwise.
        chunk.run_optimize()
        return bytes(chunk.serialize())

    def _replace(self, key: int, old: BitMap, new: BitMap) -> int:
        """Replace the chunk ``old`` by ``new``, a part of it; return by how much it shrank."""
        gone = len(old) - len(new)
        self.count -= gone
        if not new:
            del self._chunks[key]
            self._unsaved.dropped(key)
        elif gone:
            self._chunks[key] = new
            self._unsaved.dirty[key] = None
        return gone

    def _keys_between(self, first: Position, last: Position) -> list[int]:
        """Return the chunks that have positions in [first, last], in any order."""
        low, high = first >> CHUNK_BITS, last >> CHUNK_BITS
        chunks = self._chunks
        if high - low < len(chunks):
            return [key for key in range(low, high + 1) if key in chunks]
        return [key for key in chunks if low <= key <= high]


def by_chunk(positions: Sequence[Position]) -> Sequence[tuple[int, BitMap]]:
    """Return ``positions`` as fresh bitmaps by chunk, without numbers that are no positions."""
    try:
        halves = memoryview(array("Q", positions)).cast("B").cast("I")
    except OverflowError:
        return by_chunk([position for position in positions if 0 <= position <= AFTER_ALL])
    # A run nearly always lies in one chunk; then no Python code runs once per position.
    ledgers = halves[_HIGH::2].tobytes()
    if ledgers == ledgers[:4] * len(positions):
        entries = BitMap(array("I", halves[_LOW::2].tobytes()))
        if entries and entries.min() >> CHUNK_BITS == (part := entries.max() >> CHUNK_BITS):
            lows = entries.shift(-(part << CHUNK_BITS)) if part else entries
            return ((positions[0] >> CHUNK_BITS, lows),)
    return chunks_of(sorted(positions))


def chunks_of(positions: Sequence[int]) -> list[tuple[int, BitMap]]:
    """Return ``positions``, which ascend, as fresh bitmaps by chunk."""
    low_halves = memoryview(array("Q", positions)).cast("B").cast("I")[_LOW::2].tobytes()
    found: list[tuple[int, BitMap]] = []
    start = 0
    while start < len(positions):
        key = positions[start] >> CHUNK_BITS
        stop = bisect_left(positions, key + 1 << CHUNK_BITS, start)
        entries = BitMap(array("I", low_halves[4 * start : 4 * stop]))
        part = (key << CHUNK_BITS) & LEDGER_MASK
        found.append((key, entries.shift(-part) if part else entries))
        start = stop
    return found


def of_run(first: Position, last: Position) -> Iterable[tuple[int, BitMap]]:
    """Yield all positions in [first, last] as fresh bitmaps by chunk."""
    for key in range(first >> CHUNK_BITS, (last >> CHUNK_BITS) + 1):
        yield key, BitMap(range(*_part(key, first, last)))


def _part(key: int, first: Position, last: Position) -> tuple[int, int]:
    """Return the low bits (start, stop) of the part of [first, last] that lies in a chunk."""
    base = key << CHUNK_BITS
    return max(first - base, 0), min(last + 1 - base, CHUNK_SIZE)


def _run_end(chunk: BitMap, low: int) -> int:
    """Return the last value of the run that begins at ``low``, the chunk's least value."""
    top: int = chunk.max()
    if len(chunk) == top - low + 1:
        return top
    if low + 1 not in chunk:
        return low
    missing: int = (BitMap(range(low, top)) - chunk).min()
    return missing - 1
