"""A due key: when an entry comes due, and where it stands.

The rule: one plain ``int``, the time in the high bits and the position in the low 64, so that
keys compare and sort as moments do, entries of one moment in log order, and lists of them are
sorted in C.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from sys import byteorder
from typing import Final, NewType, cast

from arneb_core.api.position import Position

DueKey = NewType("DueKey", int)
"""``deliver-at ms << 64 | position``."""

DELIVER_AT: Final = itemgetter(slice(16, 24))
"""The deliver-at time in an entry's header, in network byte order."""

PLACE_BITS: Final = 64
PLACE_MASK: Final = (1 << PLACE_BITS) - 1

BEFORE_ALL_TIME: Final = DueKey(-1)
"""Sorts before every key: the read place of a subscription that was given nothing yet."""

AFTER_ALL_TIME: Final = DueKey(1 << 2 * PLACE_BITS)
"""Sorts after every key."""


def due_key(at_ms: int, place: Position) -> DueKey:
    """The key of the entry at ``place`` that comes due at ``at_ms``."""
    return DueKey(at_ms << PLACE_BITS | place)


def end_of(at_ms: int) -> DueKey:
    """Sorts after every key of ``at_ms`` and before all later ones."""
    return DueKey(at_ms + 1 << PLACE_BITS)


def time_of(key: int) -> int:
    """When it comes due, in ms."""
    return key >> PLACE_BITS


def place_of(key: int) -> Position:
    """Where it stands."""
    return Position(key & PLACE_MASK)


def places_in(keys: Iterable[DueKey]) -> list[Position]:
    """Where their entries stand, in log order."""
    places: list[int] = sorted([key & PLACE_MASK for key in keys])
    return cast(list[Position], places)


def ticks_in(keys: Sequence[DueKey], tick_ms: int) -> Iterator[Sequence[DueKey]]:
    """``keys``, which ascend, in parts that come due in one tick each."""
    at = 0
    while at < len(keys):
        end_ms = (time_of(keys[at]) // tick_ms + 1) * tick_ms
        stop = bisect_left(keys, end_ms << PLACE_BITS, at)
        yield keys[at:stop]
        at = stop


def keys_in(first: Position, entries: Sequence[bytes]) -> list[DueKey]:
    """The keys of those of ``entries``, which stand from ``first`` on, that are delayed.

    Hot path: the times of a run are cut out and read by C code."""
    stamps = b"".join(map(DELIVER_AT, entries))
    if not any(stamps):
        return []
    times = array("Q", stamps)
    if byteorder == "little":
        times.byteswap()
    places = range(first, first + len(times))
    keys: list[int] = [
        at_ms << PLACE_BITS | place for at_ms, place in zip(times, places, strict=True) if at_ms
    ]
    return cast(list[DueKey], keys)
