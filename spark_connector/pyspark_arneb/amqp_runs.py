"""Runs of AMQP entries as columns, without making a message of each.

The rule: this is a short cut and never a second opinion. :meth:`AmqpRun.of` takes a run only
if every entry has, byte for byte, the shape that the AMQP frontend writes; a single one that
has not, and the whole run goes to the origin's codec. ``tests/spark_connector`` proves on
random entries that both give the same columns.

Why it is here: the codec makes about ten Python objects a message and reads 0.15-0.3 M
entries/s, this 1.5-2 M (docs/internals/spark.md has the measurements). So no statement
below is executed once per entry if a C-level ``map``, ``set`` or Arrow kernel can do it.

An AMQP entry, as laid out by the frontend (*at* = 40 + the header's hint):

======== ======= ===========================================================
offset   type    field
======== ======= ===========================================================
0        40 B    entry header
40       hint B  exchange, routing key: two short strings
at       u8      0xCE, the end of a method frame
at+1     u8 u16  type 2 (content header), channel
at+4     u32     *size* of its payload
at+8     u16 u16 class 60 (basic), weight 0
at+12    u64     body size
at+20    u16     property flags; the properties follow
at+8+s   u8      0xCE; the end of the entry if the body size is 0
at+9+s   u8 u16  type 3 (content body), channel
at+12+s  u32     body size
at+16+s  u8[]    body, 0xCE
======== ======= ===========================================================
"""

import sys
from array import array
from collections.abc import Callable, Sequence
from operator import itemgetter
from struct import Struct
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from arneb_core.entry import ENTRY_FORMAT, HEADER_BYTES, Origin

FRAME_END: Final = 0xCE
HEADER_FRAME: Final = 2
BODY_FRAME: Final = 3
BASIC: Final = b"\x00\x3c\x00\x00"
"""Class id and weight."""
BASIC_NUMBER: Final = int.from_bytes(BASIC, "big")
FRAME: Final = Struct(">BBHIIQH")
"""From 0xCE to the property flags; class and weight are read as one number."""
BODY_HEAD: Final = Struct(">BHI")

TIMESTAMP_FLAG: Final = 0x0040

# The lengths of the properties before the timestamp, in the order of their flags: a short
# string (content-type, content-encoding), the headers, one byte (delivery-mode, priority),
# and short strings again (correlation-id, reply-to, expiration, message-id).
SHORT_STRINGS_FIRST: Final = (0x8000, 0x4000)
HEADERS: Final = 0x2000
BYTES: Final = (0x1000, 0x0800)
SHORT_STRINGS_LAST: Final = (0x0400, 0x0200, 0x0100, 0x0080)

Cut = Callable[[bytes], bytes]


def _cut(start: int, stop: int | None) -> Cut:
    return itemgetter(slice(start, stop))


_KIND: Final = _cut(0, 2)
_FLAGS: Final = _cut(2, 4)
_MESSAGES: Final = _cut(4, 8)
_PUBLISHED: Final = _cut(8, 16)
_HINT: Final = _cut(36, 40)
_LAST: Final = _cut(-1, None)

_EXPECTED_KIND: Final = {bytes([ENTRY_FORMAT, Origin.AMQP])}
_ONE: Final = {b"\x00\x00\x00\x01"}
_END: Final = {bytes([FRAME_END])}
_BETWEEN: Final = {bytes([FRAME_END, BODY_FRAME])}


class AmqpRun:
    """A run of well-formed AMQP entries."""

    __slots__ = ("_at", "_entries", "_property_flags", "_routes", "_values")

    def __init__(
        self,
        entries: Sequence[bytes],
        at: Sequence[int],
        routes: Sequence[bytes],
        values: "pa.Array",
        property_flags: Sequence[int],
    ) -> None:
        self._entries = entries
        self._at = at
        self._routes = routes
        self._values = values
        self._property_flags = property_flags

    @classmethod
    def of(cls, entries: Sequence[bytes]) -> "AmqpRun | None":
        """The run, or None if one of ``entries`` is no AMQP entry of the expected form."""
        if set(map(_KIND, entries)) != _EXPECTED_KIND or set(map(_MESSAGES, entries)) != _ONE:
            return None
        return _uniform(entries) or _mixed(entries)

    def keys(self) -> "pa.Array":
        """The routing keys; null where it is empty."""
        key_of = {route: route[route[0] + 2 :] or None for route in set(self._routes)}
        if len(key_of) == 1:
            (key,) = key_of.values()
            return pa.repeat(pa.scalar(key, pa.binary()), len(self._entries))
        return pa.array(map(key_of.__getitem__, self._routes), pa.binary(), len(self._entries))

    def values(self) -> "pa.Array":
        """The bodies."""
        return self._values

    def publish_times_ms(self) -> "array[int]":
        """When the broker took each."""
        return _big_endian("Q", map(_PUBLISHED, self._entries))

    def event_times_ms(self) -> list[int | None] | None:
        """The publishers' timestamps; None if there is none in the whole run."""
        if not any(flags & TIMESTAMP_FLAG for flags in set(self._property_flags)):
            return None
        return [
            _timestamp_ms(entry, at + 22, flags) if flags & TIMESTAMP_FLAG else None
            for entry, at, flags in zip(self._entries, self._at, self._property_flags, strict=True)
        ]

    def flags(self) -> "array[int]":
        """The entry flags."""
        return _big_endian("H", map(_FLAGS, self._entries))


def _uniform(entries: Sequence[bytes]) -> AmqpRun | None:
    """The run if all its entries have the same offsets, as those of one publisher mostly do."""
    hints = set(map(_HINT, entries))
    if len(hints) != 1:
        return None
    hint = hints.pop()
    at = HEADER_BYTES + int.from_bytes(hint[:2], "big")
    frames = set(map(_cut(at, at + 12), entries))
    sizes = {frame[4:8] for frame in frames}
    if len(sizes) != 1:
        return None
    size = int.from_bytes(sizes.pop(), "big")
    start = at + 16 + size
    body_sizes = _big_endian("Q", map(_cut(at + 12, at + 20), entries))
    routes = list(map(_cut(HEADER_BYTES, at), entries))
    well_formed = (
        not any(hint[2:])
        and all(map(_is_header_frame, frames))
        and set(map(_cut(at + 8 + size, at + 10 + size), entries)) == _BETWEEN
        and set(map(_LAST, entries)) == _END
        and all(map(_is_route, set(routes)))
        and body_sizes.tolist() == [length - start - 1 for length in map(len, entries)]
        and _big_endian("I", map(_cut(at + 12 + size, start), entries)).tolist()
        == body_sizes.tolist()
    )
    if not well_formed:
        return None
    property_flags = _big_endian("H", map(_cut(at + 20, at + 22), entries))
    values = pc.binary_slice(pa.array(entries, pa.binary()), start, -1)
    return AmqpRun(entries, [at] * len(entries), routes, values, property_flags)


def _mixed(entries: Sequence[bytes]) -> AmqpRun | None:
    """The run if its entries are well-formed each for itself."""
    places: list[int] = []
    routes: list[bytes] = []
    values: list[bytes] = []
    property_flags: list[int] = []
    for entry in entries:
        at = HEADER_BYTES + int.from_bytes(entry[36:38], "big")
        if len(entry) < at + FRAME.size or any(entry[38:40]):
            return None
        end, kind, _, size, basic, body_size, flags = FRAME.unpack_from(entry, at)
        close = at + 8 + size
        start = close + 8 if body_size else close - 1
        well_formed = (
            end == FRAME_END
            and kind == HEADER_FRAME
            and basic == BASIC_NUMBER
            and len(entry) == (start + body_size + 1 if body_size else close + 1)
            and entry[close] == FRAME_END == entry[-1]
            and _is_route(entry[HEADER_BYTES:at])
            and (not body_size or _is_body_frame(entry, close + 1, body_size))
        )
        if not well_formed:
            return None
        places.append(at)
        routes.append(entry[HEADER_BYTES:at])
        values.append(entry[start : start + body_size])
        property_flags.append(flags)
    return AmqpRun(entries, places, routes, pa.array(values, pa.binary()), property_flags)


def _is_header_frame(frame: bytes) -> bool:
    return frame[0] == FRAME_END and frame[1] == HEADER_FRAME and frame[8:] == BASIC


def _is_body_frame(entry: bytes, at: int, body_size: int) -> bool:
    kind, _, size = BODY_HEAD.unpack_from(entry, at)
    return (kind, size) == (BODY_FRAME, body_size)


def _is_route(route: bytes) -> bool:
    """Whether the bytes are two short strings and nothing more."""
    if not route or len(route) < route[0] + 2:
        return False
    key_at = route[0] + 2
    return len(route) == key_at + route[key_at - 1]


def _timestamp_ms(entry: bytes, at: int, flags: int) -> int:
    """The timestamp in the property list that begins at ``at``, behind its flags."""
    for flag in SHORT_STRINGS_FIRST:
        if flags & flag:
            at += 1 + entry[at]
    if flags & HEADERS:
        at += 4 + int.from_bytes(entry[at : at + 4], "big")
    at += sum(1 for flag in BYTES if flags & flag)
    for flag in SHORT_STRINGS_LAST:
        if flags & flag:
            at += 1 + entry[at]
    return int.from_bytes(entry[at : at + 8], "big") * 1000


def _big_endian(code: str, pieces: Any) -> "array[int]":
    """The numbers in pieces of equal size."""
    numbers = array(code)
    numbers.frombytes(b"".join(pieces))
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers
