"""A due key: when an entry comes due, and its position.

The rule: one plain ``int`` with the time in the high bits and the position in the low 64, so that
keys sort by time, and in log order at equal times, and lists of them are sorted in C.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from sys import byteorder
from typing import Final, NamedTuple, NewType, cast

from arneb_core.api.entries.position import Position

DueKey = NewType("DueKey", int)
"""``deliver-at ms << 64 | position``."""

DELIVER_AT_OFFSET: Final = 16
STAMP_BYTES: Final = 8
DELIVER_AT: Final = itemgetter(slice(DELIVER_AT_OFFSET, DELIVER_AT_OFFSET + STAMP_BYTES))
"""The deliver-at time in an entry's header, in network byte order."""

POSITION_BITS: Final = 64
POSITION_MASK: Final = (1 << POSITION_BITS) - 1

BEFORE_ALL_TIME: Final = DueKey(-1)
"""Sorts before every key: what a subscription has reached that was given nothing yet."""

AFTER_ALL_TIME: Final = DueKey(1 << 2 * POSITION_BITS)
"""Sorts after every key."""


def due_key(at_ms: int, position: Position) -> DueKey:
    """Return the key of the entry at ``position`` that comes due at ``at_ms``."""
    return DueKey(at_ms << POSITION_BITS | position)


def end_of(at_ms: int) -> DueKey:
    """Return a bound that sorts after every key of ``at_ms`` and before all later ones."""
    return DueKey(at_ms + 1 << POSITION_BITS)


def time_of(key: int) -> int:
    """Return when the entry comes due, in ms."""
    return key >> POSITION_BITS


def position_of(key: int) -> Position:
    """Return the entry's position."""
    return Position(key & POSITION_MASK)


def positions_in(keys: Iterable[DueKey]) -> list[Position]:
    """Return the positions of the entries, in log order."""
    positions: list[int] = sorted([key & POSITION_MASK for key in keys])
    return cast(list[Position], positions)


def ticks_in(keys: Sequence[DueKey], tick_ms: int) -> Iterator[Sequence[DueKey]]:
    """Split ``keys``, which ascend, into parts that each come due within one tick."""
    at = 0
    while at < len(keys):
        end_ms = (time_of(keys[at]) // tick_ms + 1) * tick_ms
        stop = bisect_left(keys, end_ms << POSITION_BITS, at)
        yield keys[at:stop]
        at = stop


class TimedRun(NamedTuple):
    """Contiguous entries, all of them delayed. No object is made per entry: most are not needed
    singly before their keys are sorted and on disk."""

    first: Position
    """The position of the first entry."""
    stamps: bytes
    """Their deliver-at times, as in their headers."""
    low: DueKey
    """No key is less than this, and the least has the same ms."""

    @property
    def entries(self) -> int:
        """How many entries these are."""
        return len(self.stamps) // STAMP_BYTES

    @property
    def last(self) -> Position:
        """The position of the last entry."""
        return Position(self.first + self.entries - 1)

    def all_keys(self) -> list[DueKey]:
        """Return the keys, in log order."""
        return keys_at(self.first, self.stamps)


def stamps_in(entries: Iterable[bytes]) -> bytes:
    """Return the deliver-at times of ``entries`` as in their headers.

    Hot path: C code cuts them out."""
    return b"".join(map(DELIVER_AT, entries))


def timed_run(first: Position, stamps: bytes, after_ms: int) -> TimedRun | None:
    """Return the run that begins at ``first``, if all of it is delayed beyond ``after_ms``."""
    low_ms = min(_times(stamps))
    return TimedRun(first, stamps, due_key(low_ms, first)) if low_ms > after_ms else None


def keys_at(first: Position, stamps: bytes) -> list[DueKey]:
    """Return the keys of the delayed entries of a run that begins at ``first``."""
    times = _times(stamps)
    positions = range(first, first + len(times))
    keys: list[int] = [
        at_ms << POSITION_BITS | position
        for at_ms, position in zip(times, positions, strict=True)
        if at_ms
    ]
    return cast(list[DueKey], keys)


def keys_in(first: Position, entries: Sequence[bytes]) -> list[DueKey]:
    """Return the keys of the delayed ones of ``entries``, which begin at ``first``."""
    stamps = stamps_in(entries)
    return keys_at(first, stamps) if any(stamps) else []


def _times(stamps: bytes) -> "array[int]":
    times = array("Q", stamps)
    if byteorder == "little":
        times.byteswap()
    return times
