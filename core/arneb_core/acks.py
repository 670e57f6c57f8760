"""What one subscription has acknowledged: mark-delete, the holes beyond it, half-acked batches.

The rule: pure state with no I/O and no clock. Every operation works on runs of positions
with C code (roaring bitmaps, ranges, ``array``); Python loops go over chunks, never over the
entries of a run. This is the hot path of every ack, so some code here is longer than it
would have to be.

Holes are kept in chunks of 65,536 positions (``position >> 16``), one bitmap a chunk, so
that persisting them rewrites only the chunks that changed. No number of holes is dropped.
See ``docs/internals/cursor.md``.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import byteorder
from typing import Final

from pyroaring import BitMap

from arneb_core.ledgers import LedgerIndex
from arneb_core.position import AFTER_ALL, BEFORE_ALL, ENTRY_MASK, Position, before, render

CHUNK_BITS: Final = 16
CHUNK_SIZE: Final = 1 << CHUNK_BITS
CHUNK_MASK: Final = CHUNK_SIZE - 1

KIND_CHUNK: Final = 1
"""First byte of a stored key's suffix: then the chunk as u48, value = serialised bitmap."""
KIND_MASK: Final = 2
"""Then the position as u64, value = little-endian mask of the messages still unacked."""

Changes = list[tuple[bytes, bytes | None]]
"""Key suffix (after the cursor's prefix) and its new value; None deletes the key."""

# Where the halves of a native u64 lie when it is read as two u32.
_LOW, _HIGH = (0, 1) if byteorder == "little" else (1, 0)


class AckState:
    """The acknowledged entries of one subscription over its topic's ``ledgers``.

    Invariants: everything at or below ``mark_delete`` is acknowledged and nothing right
    above it is; a bit in a chunk is an existing entry above ``mark_delete``; a masked
    position is an existing entry that is not acknowledged, and its mask is not 0.
    ``mark_delete`` may be a bound that is no entry (:func:`arneb_core.position.before`).

    Positions that the log does not have are ignored, so a peer can acknowledge neither what
    it was never sent nor what will be appended later.
    """

    __slots__ = (
        "_chunks",
        "_dirty_chunks",
        "_dirty_masks",
        "_holes",
        "_ledgers",
        "_mark_delete",
        "_masks",
        "_stored_chunks",
        "_stored_masks",
        "mark_delete_dirty",
    )

    def __init__(self, ledgers: LedgerIndex, mark_delete: Position = BEFORE_ALL) -> None:
        self._ledgers = ledgers
        self._mark_delete = max(mark_delete, ledgers.floor)
        self._holes = 0
        self._chunks: dict[int, BitMap] = {}
        self._masks: dict[Position, int] = {}
        # ``stored`` is what the disk may hold; ``dirty`` never leaves present | stored, so it
        # stays small for a cursor that is never persisted.
        self._dirty_chunks: set[int] = set()
        self._dirty_masks: set[Position] = set()
        self._stored_chunks: set[int] = set()
        self._stored_masks: set[Position] = set()
        self.mark_delete_dirty = True
        """Mark-delete moved since :meth:`take_changes`; the engine writes the record of it."""

    @classmethod
    def load(
        cls, ledgers: LedgerIndex, mark_delete: Position, pairs: Iterable[tuple[bytes, bytes]]
    ) -> "AckState":
        """The state that :meth:`take_changes` described, from its stored pairs.

        Keys of other kinds are skipped. What says nothing (acknowledged already, or not in
        the log) is left out and deleted by the next commit. Raises :class:`ValueError` on
        bytes that were never written by this class.
        """
        state = cls(ledgers, mark_delete)
        state.mark_delete_dirty = state.mark_delete != mark_delete
        masks: dict[Position, int] = {}
        for suffix, value in pairs:
            if suffix[:1] == bytes((KIND_CHUNK,)):
                state._load_chunk(_number(suffix, 6), value)
            elif suffix[:1] == bytes((KIND_MASK,)):
                place = Position(_number(suffix, 8))
                state._stored_masks.add(place)
                if not (mask := int.from_bytes(value, "little")):
                    raise ValueError(f"expected a mask that is not 0 at {render(place)}")
                masks[place] = mask
        state._advance()
        state._dirty_masks |= masks.keys() - state._put_masks(masks)
        return state

    # Acknowledging

    def acknowledge(self, positions: Sequence[Position]) -> int:
        """Acknowledge whole entries, in any order; how many of them became acknowledged.

        Cheapest is a contiguous run right behind mark-delete, above all as a ``range``.
        """
        count = len(positions)
        if count < 2:
            return self._acknowledge_one(positions[0]) if count else 0
        first, last = positions[0], positions[-1]
        if last - first == count - 1 and self._follows(first) and self._is_run(positions):
            return self._move(last, count)
        if self._masks:
            for place in self._masks.keys() & set(positions):
                self._forget_mask(place)
        newly = sum([self._add(key, lows) for key, lows in _chunked(positions)])
        self._advance()
        return newly

    def acknowledge_until(self, place: Position, mask: int | None = None, messages: int = 0) -> int:
        """Acknowledge every entry up to ``place``; how many became acknowledged.

        With ``mask``, of the entry at ``place`` itself only those messages of its
        ``messages``, as :meth:`acknowledge_messages` does.
        """
        if mask is not None:
            newly = self.acknowledge_until(before(place))
            return newly + self.acknowledge_messages(place, mask, messages)
        last = self._ledgers.at_or_before(place)
        if last is None or last <= self._mark_delete:
            return 0
        return self._move(last, self._ledgers.count_between(self._mark_delete, last))

    def acknowledge_messages(self, place: Position, mask: int, messages: int) -> bool:
        """Acknowledge single messages of the batch at ``place``: bit *i* = message *i* is done.

        ``messages`` is how many the batch holds; bits beyond it mean nothing. True when the
        entry became whole, that is: acknowledged by this call.
        """
        if messages < 1:
            raise ValueError(f"expected at least one message at {render(place)}, got {messages}")
        if not self._ledgers.contains(place) or self.is_acknowledged(place):
            return False
        unacked = self._masks.get(place, (1 << messages) - 1)
        left = unacked & ~mask
        if not left:
            return bool(self._acknowledge_one(place))
        if left != unacked:
            self._masks[place] = left
            self._dirty_masks.add(place)
        return False

    def reset(self, place: Position, mask: int | None = None) -> None:
        """Make ``place`` the next entry to deliver, and forget all acks beyond it.

        ``mask`` = its messages that are still unacked. A place outside the log is moved to
        the nearest entry above it, or to the log's end, and then ``mask`` means nothing.
        """
        for key in list(self._chunks):
            self._forget_chunk(key)
        for masked in list(self._masks):
            self._forget_mask(masked)
        start = self._ledgers.after(before(place))
        self._set_mark_delete(before(self._ledgers.next_append if start is None else start))
        if start == place and mask is not None:
            if mask:
                self._put_masks({place: mask})
            else:
                self._acknowledge_one(place)

    def restore(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None = None
    ) -> int:
        """Undo :meth:`acknowledge` of a unit that failed; how many entries are unacked again.

        ``positions`` must be what the unit itself acknowledged (see :meth:`only_unacked`),
        ``masks`` what :meth:`masks_of` gave for them before.
        """
        existing = [place for place in positions if self._ledgers.contains(place)]
        if not existing:
            return 0
        if (lowest := min(existing)) <= self._mark_delete:
            self._move_back(before(lowest))
        holes = self._holes
        for key, lows in _chunked(existing):
            if (chunk := self._chunks.get(key)) is not None:
                self._replace(key, chunk, chunk - lows)
        if masks:
            self._put_masks(masks)
        return holes - self._holes

    def log_trimmed(self) -> None:
        """Follow the log after ledgers were dropped: what they held counts as acknowledged."""
        if (floor := self._ledgers.floor) > self._mark_delete:
            self._move(floor, 0)

    # Asking

    @property
    def mark_delete(self) -> Position:
        """Everything up to here is acknowledged."""
        return self._mark_delete

    @property
    def holes(self) -> int:
        """How many entries beyond mark-delete are acknowledged."""
        return self._holes

    @property
    def masks(self) -> Mapping[Position, int]:
        """The messages still unacked of every half-acked batch. Live; not to be changed."""
        return self._masks

    @property
    def backlog(self) -> int:
        """How many entries are not acknowledged."""
        return self._ledgers.count_after(self._mark_delete) - self._holes

    def is_acknowledged(self, place: Position) -> bool:
        """Whether the entry at ``place`` is wholly acknowledged, or lies below the log."""
        if place <= self._mark_delete:
            return True
        chunk = self._chunks.get(place >> CHUNK_BITS)
        return chunk is not None and (place & CHUNK_MASK) in chunk

    def unacked_mask(self, place: Position) -> int | None:
        """The messages still unacked of a half-acked batch; None if it is not half-acked."""
        return self._masks.get(place)

    def masks_of(self, positions: Iterable[Position]) -> dict[Position, int]:
        """The masks of the half-acked batches among ``positions``."""
        masks = self._masks
        return {place: masks[place] for place in masks.keys() & set(positions)} if masks else {}

    def only_unacked(self, positions: Sequence[Position]) -> list[Position]:
        """Those of ``positions`` that are entries and not acknowledged, in the same order."""
        contains, acknowledged = self._ledgers.contains, self.is_acknowledged
        return [place for place in positions if contains(place) and not acknowledged(place)]

    def acknowledged_between(self, low_exclusive: Position, high_inclusive: Position) -> int:
        """How many entries in (low, high] are acknowledged and still in the log."""
        settled = self._ledgers.count_between(low_exclusive, min(high_inclusive, self._mark_delete))
        first = max(low_exclusive, self._mark_delete) + 1
        if high_inclusive < first:
            return settled
        for key in self._keys_between(first, high_inclusive):
            chunk, base = self._chunks[key], key << CHUNK_BITS
            start, stop = max(first - base, 0), min(high_inclusive - base + 1, CHUNK_SIZE)
            whole = start == 0 and stop == CHUNK_SIZE
            settled += len(chunk) if whole else chunk.range_cardinality(start, stop)
        return settled

    def unacknowledged(
        self, low_exclusive: Position, high_inclusive: Position, limit: int
    ) -> list[Position]:
        """The first ``limit`` entries in (low, high] that are not acknowledged, in order."""
        found: list[int] = []
        low = max(low_exclusive, self._mark_delete)
        for key, start, stop in self._stretches(low, high_inclusive):
            if (room := limit - len(found)) <= 0:
                break
            base = key << CHUNK_BITS
            chunk = self._chunks.get(key)
            if chunk is None:
                found += range(base + start, base + min(stop, start + room))
                continue
            free = BitMap(range(start, stop)) - chunk
            found += [base + low for low in (free[:room] if len(free) > room else free).to_array()]
        return found  # type: ignore[return-value]  # ints made from positions

    def __repr__(self) -> str:
        place = render(self._mark_delete)
        return f"<AckState {place}, {self._holes} holes, {len(self._masks)} half-acked>"

    # Persisting

    def take_changes(self) -> Changes:
        """What must be stored for :meth:`load` to give this state, since the last call.

        Only the holes and the masks; the record of mark-delete is the engine's, to be written
        in the same commit if :attr:`mark_delete_dirty`, which this clears.
        """
        changes: Changes = []
        for key in sorted(self._dirty_chunks):
            suffix = bytes((KIND_CHUNK,)) + key.to_bytes(6, "big")
            chunk = self._chunks.get(key)
            if chunk is None:
                self._stored_chunks.discard(key)
                changes.append((suffix, None))
            else:
                # One stuck entry under a long acknowledged run is the common case: some
                # twenty bytes as runs, 8 KiB without.
                chunk.run_optimize()
                self._stored_chunks.add(key)
                changes.append((suffix, bytes(chunk.serialize())))
        for place in sorted(self._dirty_masks):
            suffix = bytes((KIND_MASK,)) + place.to_bytes(8, "big")
            mask = self._masks.get(place)
            if mask is None:
                self._stored_masks.discard(place)
                changes.append((suffix, None))
            else:
                self._stored_masks.add(place)
                changes.append((suffix, mask.to_bytes((mask.bit_length() + 7) // 8, "little")))
        self._dirty_chunks.clear()
        self._dirty_masks.clear()
        self.mark_delete_dirty = False
        return changes

    def mark_dirty_again(self, changes: Changes) -> None:
        """The commit of ``changes`` failed: take them again, as they are by then."""
        for suffix, _ in changes:
            number = int.from_bytes(suffix[1:], "big")
            # Whether put or deleted, the disk may still hold the key.
            if suffix[0] == KIND_CHUNK:
                self._stored_chunks.add(number)
                self._dirty_chunks.add(number)
            else:
                self._stored_masks.add(Position(number))
                self._dirty_masks.add(Position(number))
        self.mark_delete_dirty = True

    # Inside

    def _follows(self, place: Position) -> bool:
        """Whether ``place`` is right behind mark-delete, across a ledger's end too."""
        mark_delete = self._mark_delete
        if place == mark_delete + 1:
            return True
        return not place & ENTRY_MASK and place == self._ledgers.after(mark_delete)

    def _is_run(self, positions: Sequence[Position]) -> bool:
        """Whether positions that span as many places as they are exist and leave none out."""
        first, last = positions[0], positions[-1]
        if first ^ last > ENTRY_MASK or not self._ledgers.contains(last):
            return False
        # Span and length alone would take [1, 1, 3] for a run. The comparison is made in C,
        # some 30 ns an entry.
        return type(positions) is range or tuple(positions) == tuple(range(first, last + 1))

    def _acknowledge_one(self, place: Position) -> int:
        if place <= self._mark_delete or not self._ledgers.contains(place):
            return 0
        if place in self._masks:
            self._forget_mask(place)
        if self._follows(place):
            self._set_mark_delete(place)
            self._advance()
            return 1
        key, low = place >> CHUNK_BITS, place & CHUNK_MASK
        chunk = self._chunks.get(key)
        if chunk is None:
            self._chunks[key] = BitMap((low,))
        elif low in chunk:
            return 0
        else:
            chunk.add(low)
        self._holes += 1
        self._dirty_chunks.add(key)
        return 1

    def _add(self, key: int, lows: BitMap) -> int:
        """Acknowledge ``lows`` of one chunk, without moving mark-delete; takes ``lows`` over."""
        at = self._mark_delete - (key << CHUNK_BITS)
        if at >= 0:
            lows.remove_range(0, min(at + 1, CHUNK_SIZE))
        end = self._ledgers.entries_in(key >> CHUNK_BITS) - ((key & CHUNK_MASK) << CHUNK_BITS)
        if end < CHUNK_SIZE:
            lows.remove_range(max(end, 0), CHUNK_SIZE)
        if not lows:
            return 0
        chunk = self._chunks.get(key)
        if chunk is None:
            self._chunks[key] = lows
            newly = len(lows)
        else:
            newly = -len(chunk)
            chunk |= lows
            newly += len(chunk)
        self._holes += newly
        if newly:
            self._dirty_chunks.add(key)
        return newly

    def _move(self, target: Position, entries: int) -> int:
        """Move mark-delete up over ``entries`` entries; how many of them were not acknowledged."""
        held = self._holes
        if self._masks:
            for place in self._masks_between(self._mark_delete, target):
                self._forget_mask(place)
        if self._chunks:
            for key in self._keys_between(self._mark_delete + 1, target):
                chunk = self._chunks[key]
                left = chunk.copy()
                left.remove_range(0, min(target - (key << CHUNK_BITS) + 1, CHUNK_SIZE))
                self._replace(key, chunk, left)
        held -= self._holes
        self._set_mark_delete(target)
        self._advance()
        return entries - held

    def _advance(self) -> None:
        """Move mark-delete over everything acknowledged right behind it."""
        chunks = self._chunks
        while chunks:
            start = self._ledgers.after(self._mark_delete)
            if start is None:
                return
            key, low = start >> CHUNK_BITS, start & CHUNK_MASK
            chunk = chunks.get(key)
            if chunk is None or low not in chunk:
                return
            end = _run_end(chunk, low)
            self._holes -= end + 1 - low
            if end == chunk.max():
                self._forget_chunk(key, counted=True)
            else:
                chunk.remove_range(low, end + 1)
                self._dirty_chunks.add(key)
            self._set_mark_delete(Position(key << CHUNK_BITS | end))

    def _move_back(self, target: Position) -> None:
        """Move mark-delete down; what it leaves behind is kept as holes."""
        for key, start, stop in self._stretches(target, self._mark_delete):
            self._chunks.setdefault(key, BitMap()).add_range(start, stop)
            self._holes += stop - start
            self._dirty_chunks.add(key)
        self._set_mark_delete(target)

    def _set_mark_delete(self, place: Position) -> None:
        self._mark_delete = place
        self.mark_delete_dirty = True

    def _replace(self, key: int, old: BitMap, new: BitMap) -> None:
        """Put ``new`` in the place of the chunk ``old``, of which it is a part."""
        if not new:
            self._forget_chunk(key)
        elif len(new) != len(old):
            self._holes -= len(old) - len(new)
            self._chunks[key] = new
            self._dirty_chunks.add(key)

    def _forget_chunk(self, key: int, *, counted: bool = False) -> None:
        chunk = self._chunks.pop(key)
        if not counted:
            self._holes -= len(chunk)
        (self._dirty_chunks.add if key in self._stored_chunks else self._dirty_chunks.discard)(key)

    def _forget_mask(self, place: Position) -> None:
        del self._masks[place]
        (self._dirty_masks.add if place in self._stored_masks else self._dirty_masks.discard)(place)

    def _put_masks(self, masks: Mapping[Position, int]) -> set[Position]:
        """Take those masks over whose entries exist and are not acknowledged; which they are."""
        fitting = self.only_unacked(list(masks))
        self._masks.update((place, masks[place]) for place in fitting)
        self._dirty_masks.update(fitting)
        return set(fitting)

    def _masks_between(self, low_exclusive: Position, high_inclusive: Position) -> list[Position]:
        masks = self._masks
        if high_inclusive - low_exclusive < len(masks):
            return [p for p in range(low_exclusive + 1, high_inclusive + 1) if p in masks]  # type: ignore[misc]
        return [p for p in masks if low_exclusive < p <= high_inclusive]

    def _keys_between(self, first: int, last: int) -> list[int]:
        """The chunks that have a place in [first, last], in any order."""
        low, high = first >> CHUNK_BITS, last >> CHUNK_BITS
        if high - low < len(self._chunks):
            return [key for key in range(low, high + 1) if key in self._chunks]
        return [key for key in self._chunks if low <= key <= high]

    def _stretches(
        self, low_exclusive: Position, high_inclusive: Position
    ) -> Iterator[tuple[int, int, int]]:
        """(chunk, start, stop) for every stretch of entries in (low, high], in order."""
        for first, last in self._ledgers.runs(low_exclusive, high_inclusive):
            for key in range(first >> CHUNK_BITS, (last >> CHUNK_BITS) + 1):
                base = key << CHUNK_BITS
                yield key, max(first - base, 0), min(last - base + 1, CHUNK_SIZE)

    def _load_chunk(self, key: int, value: bytes) -> None:
        lows = BitMap.deserialize(value) if value else BitMap()
        if not lows or lows.max() > CHUNK_MASK:
            raise ValueError(f"expected a bitmap of values 0..{CHUNK_MASK} in chunk {key:#x}")
        self._stored_chunks.add(key)
        if self._add(key, lows.copy()) == len(lows):
            self._dirty_chunks.discard(key)
        else:
            self._dirty_chunks.add(key)


def _run_end(chunk: BitMap, low: int) -> int:
    """The last value of the run that begins at ``low``, the chunk's least value."""
    top: int = chunk.max()
    if len(chunk) == top - low + 1:
        return top
    if low + 1 not in chunk:
        return low
    missing: int = (BitMap(range(low, top)) - chunk).min()
    return missing - 1


def _chunked(positions: Sequence[Position]) -> Iterable[tuple[int, BitMap]]:
    """``positions`` as fresh bitmaps by chunk; without those that cannot be positions."""
    try:
        halves = memoryview(array("Q", positions)).cast("B").cast("I")
    except OverflowError:
        return _chunked([place for place in positions if 0 <= place <= AFTER_ALL])
    # A run nearly always lies in one chunk; then no Python code runs once per position.
    ledgers = halves[_HIGH::2].tobytes()
    if ledgers == ledgers[:4] * len(positions):
        entries = BitMap(array("I", halves[_LOW::2].tobytes()))
        if entries and entries.min() >> CHUNK_BITS == (part := entries.max() >> CHUNK_BITS):
            lows = entries.shift(-(part << CHUNK_BITS)) if part else entries
            return ((positions[0] >> CHUNK_BITS, lows),)
    grouped: dict[int, list[int]] = {}
    for place in positions:
        grouped.setdefault(place >> CHUNK_BITS, []).append(place & CHUNK_MASK)
    return [(key, BitMap(lows)) for key, lows in grouped.items()]


def _number(suffix: bytes, size: int) -> int:
    if len(suffix) != size + 1:
        raise ValueError(f"expected a cursor key of {size + 1} bytes, got {len(suffix)}")
    return int.from_bytes(suffix[1:], "big")
