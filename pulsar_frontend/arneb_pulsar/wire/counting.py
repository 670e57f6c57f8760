"""Counting: the varints of consecutive numbers, as parts of records that are otherwise alike.

The rule: records stay byte strings of one length, so only varints of one length are put into them.
Each byte of a varint is put into all records by one slice assignment: the first bytes go round in a
cycle of 128, and each other byte stays the same for 128 numbers or more. That takes a tenth of the
time of making each varint.
"""

from typing import Final

from arneb_pulsar.wire.varint import VARINT_BITS, varint

COUNTING_MIN: Final = 24
"""Below so many records, making each varint is faster."""

PAGE: Final = 1 << VARINT_BITS

_LAST: Final = bytes(range(PAGE))
_MORE: Final = bytes(range(PAGE, 2 * PAGE))


def equally_long(first: int, count: int) -> int:
    """Return how many of ``first``, ``first + 1``, … (``count`` of them) have varints as long as
    the varint of ``first``."""
    return min(count, (1 << VARINT_BITS * len(varint(first))) - first)


def put_counting(into: bytearray, at: int, step: int, first: int) -> None:
    """Put the varint of ``first + i`` into record *i* of ``into``, ``at`` bytes after the record's
    beginning. The records have ``step`` bytes each; all varints must be :func:`equally_long`.
    """
    columns = _columns(first, len(into) // step, len(varint(first)))
    for offset, column in enumerate(columns, at):
        into[offset::step] = column


def _columns(first: int, count: int, width: int) -> list[bytes]:
    """Return all first bytes of the varints, all second bytes, and so on."""
    low = first % PAGE
    if width == 1:
        return [_LAST[low : low + count]]
    pages = (low + count - 1) // PAGE + 1
    columns = [(_MORE * pages)[low : low + count]]
    for column in _columns(first // PAGE, pages, width - 1):
        repeated = b"".join([column[page : page + 1] * PAGE for page in range(pages)])
        columns.append(repeated[low : low + count])
    return columns
