"""Base-128 varints, the integers of protobuf.

Hot path: receipts and deliveries are packed by hand, a run at a time, because building them as
protobuf objects costs three times as much. Within a page of 128, consecutive numbers share all but
their first byte, so :func:`varints` makes them with one addition each.
"""

from collections.abc import Iterator, Sequence
from typing import Final

VARINT_BITS: Final = 7
"""Bits of the number in each byte."""

LAST: Final = tuple(bytes((number,)) for number in range(128))
"""The one-byte varints, which are also the last byte of any longer one."""

MORE: Final = tuple(bytes((number | 0x80,)) for number in range(128))
"""Seven bits as a byte that is followed by another."""

HIGH: Final = bytes(range(0x80, 0x100))
"""All bytes that are followed by another."""

SEVEN_BITS: Final = bytes(byte & 0x7F for byte in range(0x100))
"""A translation table that clears the highest bit."""

PAGES: Final = (b"", *LAST[1:], *(MORE[page & 0x7F] + LAST[page >> 7] for page in range(128, 512)))
"""By page of 128 numbers, the bytes that follow the first one."""

PAGED: Final = len(PAGES) << 7
"""Below this, one addition makes a varint: enough for any entry of a ledger of 50,000."""

NEGATIVE_BITS: Final = 1 << 64


def varint(number: int) -> bytes:
    """Return ``number`` as a varint; a negative one as 64-bit two's complement."""
    if number < 0:
        number += NEGATIVE_BITS
    if number < 0x80:
        return LAST[number]
    if number < 0x4000:
        return MORE[number & 0x7F] + LAST[number >> 7]
    if number < 0x200000:
        return MORE[number & 0x7F] + MORE[number >> 7 & 0x7F] + LAST[number >> 14]
    parts = []
    while number >= 0x80:
        parts.append(MORE[number & 0x7F])
        number >>= 7
    parts.append(LAST[number])
    return b"".join(parts)


def six_bytes_varint(data: bytes) -> int:
    """Return the number of a six-byte varint, as all times in ms from 2004 to 2109 have."""
    bits = int.from_bytes(data, "little")
    return (
        bits & 0x7F
        | bits >> 1 & 0x7F << 7
        | bits >> 2 & 0x7F << 14
        | bits >> 3 & 0x7F << 21
        | bits >> 4 & 0x7F << 28
        | bits >> 5 & 0x7F << 35
    )


def from_varint(data: bytes) -> int:
    """Return the number of a varint of any length."""
    number = 0
    for byte in reversed(data):
        number = number << 7 | byte & 0x7F
    return number


def from_varints(columns: Sequence[bytes]) -> list[int] | None:
    """Return the numbers of varints of one length, at most four bytes; ``columns`` has all first
    bytes, all second bytes and so on. None if some have another length."""
    *more, last = columns
    if not last.isascii() or any(column.translate(None, HIGH) for column in more):
        return None
    match [column.translate(SEVEN_BITS) for column in more]:
        case []:
            return list(last)
        case [first]:
            return [a | b << 7 for a, b in zip(first, last, strict=True)]
        case [first, second]:
            return [a | b << 7 | c << 14 for a, b, c in zip(first, second, last, strict=True)]
        case [first, second, third]:
            parts = zip(first, second, third, last, strict=True)
            return [a | b << 7 | c << 14 | d << 21 for a, b, c, d in parts]
        case _:
            return None


def varints(first: int, count: int) -> list[bytes]:
    """Return the varints of ``first``, ``first + 1``, … (``count`` of them; none negative)."""
    found: list[bytes] = []
    for low, high, page in _pages(first, first + count):
        if page:
            tail = varint(page)
            found += [byte + tail for byte in MORE[low:high]]
        else:
            found += LAST[low:high]
    return found


def scattered_varints(numbers: Sequence[int]) -> list[bytes]:
    """Return the varints of ``numbers``, in any order, none of them negative."""
    if max(numbers) >= PAGED:
        return list(map(varint, numbers))
    return [
        MORE[number & 0x7F] + PAGES[number >> 7] if number > 0x7F else LAST[number]
        for number in numbers
    ]


def _pages(start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield the pages of 128 numbers that ``start:stop`` touches: (low, high, page number)."""
    while start < stop:
        page, low = start >> 7, start & 0x7F
        high = min(128, low + stop - start)
        yield low, high, page
        start += high - low
