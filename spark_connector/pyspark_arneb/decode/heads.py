"""The headers of a run of entries, as columns.

The rule: only entry headers are read here, for all entries at once, so the columns that follow from
them cost the same for every origin. The headers are one stretch of bytes, in which
``stretch[i::40]`` is byte *i* of every entry.
"""

import sys
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import pyarrow as pa

from arneb_core.api.entries.entry import ENTRY_FORMAT, FLAGS_OFFSET, HEADER_BYTES, EntryFlag, Origin
from pyspark_arneb.decode.times import TYPE, times_of_column

ORIGIN_OFFSET: Final = 1
MESSAGES_OFFSET: Final = 4
PUBLISHED_OFFSET: Final = 8
DELIVER_AT_OFFSET: Final = 16
EXPIRES_AT_OFFSET: Final = 24
RESERVED_OFFSET: Final = 38

_HEAD: Final = itemgetter(slice(0, HEADER_BYTES))
_FORMATS: Final = {ENTRY_FORMAT}
_ORIGINS: Final = frozenset(map(int, Origin))
_UNSIGNED: Final = {1: pa.uint8(), 2: pa.uint16(), 4: pa.uint32(), 8: pa.uint64()}


class Heads:
    """The headers of entries with a known format and origin; see
    :mod:`arneb_core.api.entries.entry`."""

    __slots__ = ("_stretch", "count")

    def __init__(self, stretch: bytes) -> None:
        self._stretch = stretch
        self.count = len(stretch) // HEADER_BYTES

    @classmethod
    def of(cls, entries: Sequence[bytes]) -> "Heads | None":
        """Return the headers; None when one of ``entries`` has an invalid one. A count of more than
        16 million messages, each of which becomes a row, is invalid too."""
        stretch = b"".join(map(_HEAD, entries))
        if len(stretch) != HEADER_BYTES * len(entries):
            return None
        heads = cls(stretch)
        sound = (
            different(heads._bytes(0)) <= _FORMATS
            and different(heads.origins) <= _ORIGINS
            and is_zero(heads._bytes(RESERVED_OFFSET))
            and is_zero(heads._bytes(RESERVED_OFFSET + 1))
            and is_zero(heads._bytes(MESSAGES_OFFSET))
            and 0 not in (heads._small_counts() or heads.messages)
        )
        return heads if sound else None

    def __repr__(self) -> str:
        return f"<Heads of {self.count} entries>"

    def part(self, start: int, stop: int) -> "Heads":
        """Return the headers of some of the entries."""
        return Heads(self._stretch[start * HEADER_BYTES : stop * HEADER_BYTES])

    @property
    def origins(self) -> bytes:
        """The origin of each."""
        return self._bytes(ORIGIN_OFFSET)

    @property
    def messages(self) -> list[int]:
        """How many messages each entry has, and so how many rows it becomes."""
        small = self._small_counts()
        if small:
            return list(small)
        counts: list[int] = self.numbers(MESSAGES_OFFSET, 4).to_pylist()
        return counts

    @property
    def are_single(self) -> bool:
        """Whether every entry has one message."""
        return self._small_counts().count(1) == self.count

    @property
    def published_ms(self) -> list[int]:
        """When the broker received each."""
        times: list[int] = self.numbers(PUBLISHED_OFFSET, 8).to_pylist()
        return times

    @property
    def flags(self) -> bytes:
        """The flags of each."""
        return self._bytes(FLAGS_OFFSET)

    def have(self, flag: EntryFlag) -> bool:
        """Whether any entry has the flag."""
        return any(flags & flag for flags in different(self.flags))

    def deliver_at(self) -> pa.Array:
        """The time before which each must not be delivered; null = at once."""
        return self._times(DELIVER_AT_OFFSET)

    def expires_at(self) -> pa.Array:
        """The time after which each must not be delivered; null = never."""
        return self._times(EXPIRES_AT_OFFSET)

    def numbers(self, place: int, size: int) -> pa.Array:
        """A field of every header."""
        return columns_of_numbers(self._stretch, HEADER_BYTES, place, size, self.count)

    def _small_counts(self) -> bytes:
        """How many messages each entry has, as a byte; empty if one of them has more than that
        holds."""
        high = map(self._bytes, range(MESSAGES_OFFSET, MESSAGES_OFFSET + 3))
        return self._bytes(MESSAGES_OFFSET + 3) if all(map(is_zero, high)) else b""

    def _times(self, place: int) -> pa.Array:
        if all(map(is_zero, map(self._bytes, range(place, place + 8)))):
            return pa.nulls(self.count, TYPE)
        return times_of_column(self.numbers(place, 8))

    def _bytes(self, place: int) -> bytes:
        """One byte of every header."""
        return self._stretch[place::HEADER_BYTES]


def is_zero(column: bytes) -> bool:
    """Whether all bytes are 0. ``any()`` would create an ``int`` for each."""
    return column.count(0) == len(column)


def different(column: bytes) -> set[int]:
    """The distinct bytes, usually one; ``count()`` creates no ``int`` for each byte."""
    return set(column[:1]) if column.count(column[:1]) == len(column) else set(column)


def columns_of_numbers(stretch: bytes, width: int, place: int, size: int, rows: int) -> pa.Array:
    """The big-endian number of ``size`` bytes at ``place`` of every row of ``width`` bytes."""
    numbers = bytearray(size * rows)
    step = 1 if sys.byteorder == "big" else -1
    for index, source in enumerate(range(place, place + size)[::step]):
        numbers[index::size] = stretch[source::width]
    return pa.Array.from_buffers(_UNSIGNED[size], rows, [None, pa.py_buffer(numbers)])
