"""Where the fields of an entry of AMQP origin are.

The rule: offsets only, and only those that columns need; the meaning of the properties is left to
the AMQP frontend. The layout is the tail of the frames of a ``basic.deliver`` (see the decision
that bodies stay in wire form); *at* = 40 + the header's hint, *s* = the size at at+4:

======== ======= ===========================================================
offset   type    field
======== ======= ===========================================================
0        40 B    entry header
40       hint B  exchange, routing key: two short strings
at       u8      0xCE, the end of the method frame
at+1     u8 u16  type 2 (content header), channel
at+4     u32     size of the payload, *s*
at+8     u16 u16 class 60 (basic), weight 0
at+12    u64     body size
at+20    u16     property flags; the properties follow
at+8+s   u8      0xCE; the end of the entry if the body size is 0
at+9+s   u8 u16  type 3 (content body), channel
at+12+s  u32     body size
at+16+s  u8[]    body, 0xCE
======== ======= ===========================================================
"""

from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Final

FRAME_END: Final = 0xCE
HEADER_FRAME: Final = 2
BODY_FRAME: Final = 3
CLASS_AND_WEIGHT: Final = 60 << 16

HINT: Final = slice(36, 38)
ZERO: Final = slice(38, 40)
FRAME: Final = Struct(">BBHIIQH")
"""From *at* to the property flags; class and weight are one number."""
BODY_HEAD: Final = Struct(">BHI")
LIST_OFFSET: Final = FRAME.size
"""Offset of the properties, which follow their flags, from *at*."""
FLAGS_OFFSET: Final = 20
HEADER_END_OFFSET: Final = 8
"""Offset of the end of the content header frame, from *at* + *s*."""
BODY_OFFSET: Final = 16
"""Offset of the body, from *at* + *s*."""

NULL_VALUE: Final = b"pulsar.null_value"
"""The header of a message whose empty body stands for a null value; see
docs/internals/translation.md."""

TIMESTAMP: Final = 0x0040
HEADERS: Final = 0x2000
OCTETS: Final = 0x1000 | 0x0800
"""delivery-mode and priority."""
ROUTES_KNOWN_MAX: Final = 65_536
"""Routes that a process caches, about a hundred bytes each."""

BEFORE_TIMESTAMP: Final = (
    0x8000, 0x4000, HEADERS, 0x1000, 0x0800, 0x0400, 0x0200, 0x0100, 0x0080
)  # fmt: skip
"""The flags of the properties before the timestamp, in the order of the list."""


@dataclass(frozen=True, slots=True)
class Route:
    """The exchange and routing key of a message."""

    exchange: str
    """Empty for the default exchange."""
    key: bytes | None
    """None if it is empty."""
    kind: tuple[bytes, bool]
    """The part on which the properties depend: the exchange, and whether there is a key."""


@lru_cache(maxsize=ROUTES_KNOWN_MAX)
def read_route(route: bytes) -> Route | None:
    """Parse two short strings, exchange and routing key; None if that is not the whole content.
    Cached, because many messages share a route and every chunk repeats it."""
    if not route or len(route) < route[0] + 2:
        return None
    key_at = route[0] + 2
    if len(route) != key_at + route[key_at - 1]:
        return None
    exchange, key = route[1 : key_at - 1], route[key_at:]
    return Route(exchange.decode("utf-8", "replace"), key or None, (exchange, bool(key)))


def timestamp_path(entry: bytes, at: int) -> list[int]:
    """Return the offsets of all bytes that determine where the timestamp is, and last its own
    offset.

    Entries that agree in those bytes have their timestamps in the same place. Empty if the list
    ends before the timestamp, which no list accepted by the frontend does.
    """
    end = at + HEADER_END_OFFSET + int.from_bytes(entry[at + 4 : at + 8], "big")
    flags = int.from_bytes(entry[at + FLAGS_OFFSET : at + LIST_OFFSET], "big")
    place = at + LIST_OFFSET
    path: list[int] = []
    for flag in BEFORE_TIMESTAMP:
        if not flags & flag:
            continue
        if place >= end:
            return []
        if flag & OCTETS:
            place += 1
        elif flag == HEADERS:
            path += range(place, place + 4)
            place += 4 + int.from_bytes(entry[place : place + 4], "big")
        else:
            path.append(place)
            place += 1 + entry[place]
    return [*path, place] if place + 8 <= end else []
