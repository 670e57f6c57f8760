"""What one subscription has acknowledged: mark-delete, the holes beyond it, half-acked batches.

The rule: pure state with no I/O and no clock, and no Python code that runs once per entry of
a run. This is the hot path of every ack, so some of it is longer than it need be.

No number of holes is ever dropped. What changed is written to the store chunk by chunk; see
``docs/internals/cursor.md``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyroaring import BitMap

from arneb_core.api.entries.position import (
    BEFORE_ALL,
    ENTRY_BITS,
    ENTRY_MASK,
    Position,
    before,
    render,
)
from arneb_core.cursor.holes import CHUNK_BITS, CHUNK_MASK, CHUNK_SIZE, Holes, by_chunk, of_run
from arneb_core.cursor.unsaved import Unsaved, number_in
from arneb_core.log.ledgers import LedgerIndex

KIND_CHUNK: Final = b"\x01"
"""First byte of a stored key's suffix: then the chunk as u48, value = serialised bitmap."""
KIND_MASK: Final = b"\x02"
"""Then the position as u64, value = little-endian mask of the messages still unacked."""

ONE_BY_ONE_MAX: Final = 5
"""Positions up to which one by one is faster than by bitmaps (measured)."""

Changes = list[tuple[bytes, bytes | None]]
"""Key suffixes (after the cursor's prefix) and their new values; None deletes the key."""


class AckState:
    """The acknowledged entries of one subscription over its topic's ``ledgers``.

    Invariants: everything at or below ``mark_delete`` is acknowledged and the next entry
    above it is not; a hole is an existing entry above ``mark_delete``; a masked position is
    an existing entry that is not acknowledged, and its mask is not 0. ``mark_delete`` may be
    a bound that is no entry (:func:`arneb_core.api.entries.position.before`).

    Positions that the log does not have are ignored, so a client can acknowledge neither entries
    that were never there nor those appended later.
    """

    __slots__ = ("_holes", "_ledgers", "_mark_delete", "_masks", "_unsaved_masks")

    def __init__(self, ledgers: LedgerIndex, mark_delete: Position = BEFORE_ALL) -> None:
        self._ledgers = ledgers
        self._mark_delete = max(mark_delete, ledgers.floor)
        self._holes = Holes()
        self._masks: dict[Position, int] = {}
        self._unsaved_masks = Unsaved()

    @classmethod
    def load(
        cls, ledgers: LedgerIndex, mark_delete: Position, pairs: Iterable[tuple[bytes, bytes]]
    ) -> "AckState":
        """Restore the state that :meth:`take_changes` described from its stored pairs.

        Keys of other kinds are skipped. Pairs without effect (acknowledged already, or not in the
        log) are left out and deleted by the next commit. Raises :class:`ValueError` on bytes that
        this class never wrote.
        """
        state = cls(ledgers, mark_delete)
        masks: dict[Position, int] = {}
        for suffix, value in pairs:
            if suffix[:1] == KIND_CHUNK:
                state._load_chunk(number_in(suffix, 6), value)
            elif suffix[:1] == KIND_MASK:
                position = Position(number_in(suffix, 8))
                if not (mask := int.from_bytes(value, "little")):
                    raise ValueError(f"expected a mask that is not 0 at {render(position)}")
                masks[position] = mask
        state._advance()
        state._load_masks(masks)
        return state

    # Acknowledging

    def acknowledge(self, positions: Sequence[Position]) -> int:
        """Acknowledge whole entries, in any order; return how many became acknowledged.

        Cheapest is a contiguous run right after mark-delete, above all as a ``range``.
        """
        count = len(positions)
        if count == 1:
            return self._acknowledge_one(positions[0])
        if not count:
            return 0
        first, last = positions[0], positions[-1]
        if last - first == count - 1 and self._follows(first) and self._is_run(positions):
            return self._move(last, count)
        if count <= ONE_BY_ONE_MAX:
            return sum(map(self._acknowledge_one, positions))
        if self._masks:
            for position in self._masks.keys() & set(positions):
                self._forget_mask(position)
        if type(positions) is range and positions.step == 1:
            parts = self._parts(Position(first - 1), last)
        else:
            parts = by_chunk(positions)
        newly = sum([self._add(key, lows) for key, lows in parts])
        self._advance()
        return newly

    def acknowledge_until(self, position: Position, mask: int | None = None, size: int = 0) -> int:
        """Acknowledge every entry up to ``position``; return how many became acknowledged.

        With ``mask``, only those messages of the batch of ``size`` at ``position`` itself, as
        :meth:`acknowledge_messages` does.
        """
        if mask is not None:
            newly = self.acknowledge_until(before(position))
            return newly + self.acknowledge_messages(position, mask, size)
        last = self._ledgers.at_or_before(position)
        if last is None or last <= self._mark_delete:
            return 0
        return self._move(last, self._ledgers.count_between(self._mark_delete, last))

    def acknowledge_messages(self, position: Position, mask: int, size: int) -> bool:
        """Acknowledge single messages of the batch at ``position``: bit *i* = message *i* is done.

        ``size`` is how many the batch holds; bits beyond it mean nothing. Return True when this
        call acknowledged the last of them, and so the entry.
        """
        if size < 1:
            raise ValueError(f"expected at least one message at {render(position)}, got {size}")
        if not self._is_unacked(position):
            return False
        whole = (1 << size) - 1
        unacked = self._masks.get(position, whole)
        left = unacked & whole & ~mask
        if not left:
            return bool(self._acknowledge_one(position))
        if left != unacked:
            self._put_mask(position, left)
        return False

    def reset(self, position: Position, mask: int | None = None) -> None:
        """Make ``position`` the next entry to deliver, and forget all acks beyond it.

        ``mask`` = its messages that are still unacked. A position outside the log is moved to
        the nearest entry above it, or to the log's end, and then ``mask`` means nothing.
        """
        self._holes.clear()
        for masked in list(self._masks):
            self._forget_mask(masked)
        start = self._ledgers.after(before(position))
        self._mark_delete = before(self._ledgers.next_append if start is None else start)
        if start == position and mask is not None:
            if mask:
                self._put_mask(position, mask)
            else:
                self._acknowledge_one(position)

    def restore(
        self, positions: Sequence[Position], masks: Mapping[Position, int] | None = None
    ) -> int:
        """Undo :meth:`acknowledge` of a unit that failed; return how many are unacked again.

        ``positions`` must be what the unit itself acknowledged (see :meth:`only_unacked`),
        ``masks`` what :meth:`masks_of` gave for them before.
        """
        existing = [position for position in positions if self._ledgers.contains(position)]
        if not existing:
            return 0
        if (lowest := min(existing)) <= self._mark_delete:
            self._move_back(before(lowest))
        restored = sum([self._holes.discard_lows(*part) for part in by_chunk(existing)])
        for position, mask in (masks or {}).items():
            if self._is_unacked(position):
                self._put_mask(position, mask)
        return restored

    def log_trimmed(self) -> None:
        """Follow the log after ledgers were dropped: their entries count as acknowledged."""
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
        return self._holes.count

    @property
    def individual(self) -> Holes:
        """The entries acknowledged beyond mark-delete. Live; not to be changed."""
        return self._holes

    @property
    def masks(self) -> Mapping[Position, int]:
        """The messages still unacked of every half-acked batch. Live; not to be changed."""
        return self._masks

    @property
    def backlog(self) -> int:
        """How many entries are not acknowledged."""
        return self._ledgers.count_after(self._mark_delete) - self._holes.count

    def is_acknowledged(self, position: Position) -> bool:
        """Whether the entry at ``position`` is wholly acknowledged, or lies below the log."""
        return position <= self._mark_delete or position in self._holes

    def unacked_mask(self, position: Position) -> int | None:
        """Return the messages still unacked of a half-acked batch; None if it is not half-acked."""
        return self._masks.get(position)

    def masks_of(self, positions: Iterable[Position]) -> dict[Position, int]:
        """Return the masks of the half-acked batches among ``positions``."""
        masks = self._masks
        return {each: masks[each] for each in masks.keys() & set(positions)} if masks else {}

    def only_unacked(self, positions: Sequence[Position]) -> list[Position]:
        """Return those of ``positions`` that are unacknowledged entries, in the same order."""
        if len(positions) > ONE_BY_ONE_MAX and self._ledgers.has_all(ordered := sorted(positions)):
            return self._holes.unacknowledged(positions, ordered, self._mark_delete)
        return [position for position in positions if self._is_unacked(position)]

    def unacked_of(self, entries: Sequence[int]) -> list[Position]:
        """As :meth:`only_unacked`, for many positions that ascend and are known to be entries."""
        return self._holes.absent(entries, self._mark_delete)

    def acknowledged_in(self, chunks: Iterable[tuple[int, BitMap]]) -> list[int]:
        """Return the holes among ``chunks``, as :func:`.chunks_of` makes them."""
        return self._holes.present(chunks) if self._holes.count else []

    def acknowledged_between(self, low_exclusive: Position, high_inclusive: Position) -> int:
        """Count the entries in (low, high] that are acknowledged and still in the log."""
        below = self._ledgers.count_between(low_exclusive, min(high_inclusive, self._mark_delete))
        first = Position(max(low_exclusive, self._mark_delete) + 1)
        if first > high_inclusive:
            return below
        return below + self._holes.count_between(first, high_inclusive)

    def unacknowledged(
        self, low_exclusive: Position, high_inclusive: Position, limit: int
    ) -> list[Position]:
        """Return the first ``limit`` unacknowledged entries in (low, high], in order."""
        found: list[int] = []
        low = max(low_exclusive, self._mark_delete)
        for first, last in self._ledgers.runs(low, high_inclusive):
            if len(found) >= limit:
                break
            found += self._holes.missing(first, last, limit - len(found))
        return found  # type: ignore[return-value]  # ints made from positions

    def __repr__(self) -> str:
        position = render(self._mark_delete)
        return f"<AckState {position}, {self.holes} holes, {len(self._masks)} half-acked>"

    # Persisting

    @property
    def has_changes(self) -> bool:
        """Holes or masks have changed since they were last taken."""
        return self._holes.has_changes or bool(self._unsaved_masks.dirty)

    def take_changes(self) -> Changes:
        """Return what changed since the last call and must be stored for :meth:`load`.

        Only holes and masks; the caller writes the record of mark-delete, in the same commit.
        """
        changes: Changes = [
            (KIND_CHUNK + key.to_bytes(6, "big"), value)
            for key, value in self._holes.take_changes()
        ]
        for position in self._unsaved_masks.take(self._masks):
            mask = self._masks.get(Position(position))
            value = mask and mask.to_bytes((mask.bit_length() + 7) // 8, "little")
            changes.append((KIND_MASK + position.to_bytes(8, "big"), value or None))
        return changes

    def mark_dirty_again(self, changes: Changes) -> None:
        """Have the keys of ``changes``, whose commit failed, written again by a later commit."""
        chunks = [suffix for suffix, _ in changes if suffix[:1] == KIND_CHUNK]
        masks = [suffix for suffix, _ in changes if suffix[:1] == KIND_MASK]
        self._holes.mark_dirty_again(number_in(suffix, 6) for suffix in chunks)
        self._unsaved_masks.failed(number_in(suffix, 8) for suffix in masks)

    # Inside

    def _is_unacked(self, position: Position) -> bool:
        if position <= self._mark_delete or position in self._holes:
            return False
        return self._ledgers.contains(position)

    def _follows(self, position: Position) -> bool:
        """Whether ``position`` is right after mark-delete, across a ledger's end too."""
        mark_delete = self._mark_delete
        if position == mark_delete + 1:
            return True
        return not position & ENTRY_MASK and position == self._ledgers.after(mark_delete)

    def _is_run(self, positions: Sequence[Position]) -> bool:
        """Whether ``positions``, which span as many as they are, are a run of existing entries."""
        first, last = positions[0], positions[-1]
        if first ^ last > ENTRY_MASK or not self._ledgers.contains(last):
            return False
        # Span and length alone would take [1, 1, 3] for a run. The comparison is made in C,
        # some 30 ns an entry.
        return type(positions) is range or tuple(positions) == tuple(range(first, last + 1))

    def _acknowledge_one(self, position: Position) -> int:
        if position <= self._mark_delete or not self._ledgers.contains(position):
            return 0
        if position in self._masks:
            self._forget_mask(position)
        if position == self._mark_delete + 1 or self._follows(position):
            self._mark_delete = position
            if self._holes.count:
                self._advance()
            return 1
        return int(self._holes.add(position))

    def _add(self, key: int, lows: BitMap) -> int:
        """Acknowledge part of a chunk without moving mark-delete; takes ``lows`` over."""
        base = key << CHUNK_BITS
        if (behind := self._mark_delete - base) >= 0:
            lows.remove_range(0, min(behind + 1, CHUNK_SIZE))
        end = self._ledgers.entries_in(base >> ENTRY_BITS) - (base & ENTRY_MASK)
        if end < CHUNK_SIZE:
            lows.remove_range(max(end, 0), CHUNK_SIZE)
        return self._holes.add_lows(key, lows)

    def _move(self, target: Position, entries: int) -> int:
        """Move mark-delete up over ``entries`` entries; return how many were unacknowledged."""
        held = 0
        if self._masks:
            for position in self._masks_between(self._mark_delete, target):
                self._forget_mask(position)
        if self._holes.count:
            held = self._holes.discard_range(Position(self._mark_delete + 1), target)
        self._mark_delete = target
        self._advance()
        return entries - held

    def _advance(self) -> None:
        """Move mark-delete over everything acknowledged right after it."""
        while self._holes.count:
            start = self._ledgers.after(self._mark_delete)
            if start is None or (end := self._holes.pop_run(start)) is None:
                return
            self._mark_delete = end

    def _move_back(self, target: Position) -> None:
        """Move mark-delete down; the entries that it goes back over become holes."""
        for key, lows in self._parts(target, self._mark_delete):
            self._holes.add_lows(key, lows)
        self._mark_delete = target

    def _parts(
        self, low_exclusive: Position, high_inclusive: Position
    ) -> Iterable[tuple[int, BitMap]]:
        """Yield the entries in (low, high] as fresh bitmaps by chunk."""
        for first, last in self._ledgers.runs(low_exclusive, high_inclusive):
            yield from of_run(first, last)

    def _put_mask(self, position: Position, mask: int) -> None:
        self._masks[position] = mask
        self._unsaved_masks.dirty[position] = None

    def _forget_mask(self, position: Position) -> None:
        del self._masks[position]
        self._unsaved_masks.dropped(position)

    def _masks_between(self, low_exclusive: Position, high_inclusive: Position) -> list[Position]:
        masks = self._masks
        if high_inclusive - low_exclusive < len(masks):
            positions = map(Position, range(low_exclusive + 1, high_inclusive + 1))
            return [position for position in positions if position in masks]
        return [position for position in masks if low_exclusive < position <= high_inclusive]

    def _load_chunk(self, key: int, value: bytes) -> None:
        stored = BitMap.deserialize(value) if value else BitMap()
        if not stored or stored.max() > CHUNK_MASK:
            raise ValueError(f"expected a bitmap of values 0..{CHUNK_MASK} in chunk {key:#x}")
        newly = self._add(key, stored.copy())
        self._holes.mark_loaded(key, altered=newly != len(stored))

    def _load_masks(self, masks: Mapping[Position, int]) -> None:
        for position, mask in masks.items():
            self._unsaved_masks.loaded(position)
            if self._is_unacked(position):
                self._masks[position] = mask
            else:
                self._unsaved_masks.dirty[position] = None
