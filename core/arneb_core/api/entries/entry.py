"""An entry: the small fixed header that the core understands, then a body that it does not.

The rule: the body stays in the publisher's own wire form, verbatim. A frontend of the same protocol
copies it out; any other reads it through the :mod:`arneb_core.api.entries.codec` of its origin.

An entry is plain ``bytes``; :class:`EntryHeader` is the readable view of its first
:data:`HEADER_BYTES` bytes. Hot paths build and read the header with the precompiled structs below
and never make the view. The structs take priority and flags as one u16,
``priority << PRIORITY_SHIFT | flags``.

====== ====== ===================================================================
offset type   field
====== ====== ===================================================================
0      u8     format version of this header
1      u8     origin protocol (:class:`Origin`)
2      u8     priority: higher goes first on subscriptions that look at it; 0 = none
3      u8     flags (:class:`EntryFlag`)
4      u32    messages in the entry (a Pulsar batch holds many)
8      u64    publish time, ms since the epoch, the broker's clock
16     u64    deliver-at time, ms; 0 = at once
24     u64    expires-at time, ms; 0 = never
32     u32    ordering-key hash (Murmur3_32 & 0x7fffffff); 0 = no key
36     u16    hint: free for the origin protocol, but for grouped entries
38     u16    zero
40            body
====== ====== ===================================================================
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from struct import Struct
from typing import Final

ENTRY_FORMAT: Final = 1

HEADER: Final = Struct(">BBHIQQQIHH")
HEADER_BYTES: Final = HEADER.size
assert HEADER_BYTES == 40

HEADER_START: Final = Struct(">BBHIQ")
HEADER_REST: Final = Struct(">QQIHH")
"""A header in two pieces, cut after the publish time: the first is the same for many entries made
at once, the second for all that take the same route."""
assert HEADER_START.size + HEADER_REST.size == HEADER_BYTES

ORIGIN_OFFSET: Final = 1
PRIORITY_OFFSET: Final = 2
PRIORITY_SHIFT: Final = 8
PRIORITY_MAX: Final = 255
_FLAGS: Final = (1 << PRIORITY_SHIFT) - 1

TIMES: Final = Struct(">QQQ")
TIMES_OFFSET: Final = 8
_TIMES_END: Final = TIMES_OFFSET + TIMES.size
TIME_MS_MAX: Final = (1 << 64) - 1
MESSAGES: Final = Struct(">I")
MESSAGES_OFFSET: Final = 4

KEY_HASH_OFFSET: Final = 32

FLAGS_OFFSET: Final = 3
HINT: Final = Struct(">H")
HINT_OFFSET: Final = 36


class Origin(IntEnum):
    """The protocol in whose wire form the body is stored."""

    AMQP = 1
    PULSAR = 2
    BROKER = 3
    """No protocol: the broker wrote it itself, and the body is the message's value."""


class EntryFlag(IntFlag):
    """What the core or several frontends must know without reading the body."""

    NONE = 0
    TRANSIENT = 1
    """The publisher did not ask for durability (AMQP delivery-mode 1)."""
    DEAD_LETTERED = 2
    """It departed from another topic; headers that say so are the broker's own."""
    GROUPED = 4
    """It means nothing without others (a chunk of a large message): all of them go to one consumer.
    The hint tells the groups of a topic apart."""


@dataclass(frozen=True, slots=True)
class EntryHeader:
    """The fields of an entry's header; see the module's table for units."""

    origin: Origin
    messages: int = 1
    flags: EntryFlag = EntryFlag.NONE
    publish_time_ms: int = 0
    deliver_at_ms: int = 0
    expires_at_ms: int = 0
    key_hash: int = 0
    hint: int = 0
    priority: int = 0

    def pack(self) -> bytes:
        """Return the header as the first :data:`HEADER_BYTES` bytes of an entry."""
        return HEADER.pack(
            ENTRY_FORMAT, self.origin, self.priority << PRIORITY_SHIFT | self.flags, self.messages,
            self.publish_time_ms, self.deliver_at_ms, self.expires_at_ms, self.key_hash, self.hint,
            0,
        )  # fmt: skip


def read_header(entry: bytes) -> EntryHeader:
    """Return the header of ``entry``.

    Raises :class:`ValueError` when the bytes are no entry of a known format.
    """
    if len(entry) < HEADER_BYTES:
        raise ValueError(f"expected an entry of at least {HEADER_BYTES} bytes, got {len(entry)}")
    fmt, origin, flags, messages, published, deliver, expires, key_hash, hint, zero = (
        HEADER.unpack_from(entry)
    )
    if fmt != ENTRY_FORMAT or zero:
        raise ValueError(f"expected entry format {ENTRY_FORMAT}, got {fmt} (reserved field {zero})")
    if not messages:
        raise ValueError("expected at least one message in an entry, got 0")
    return EntryHeader(
        Origin(origin), messages, EntryFlag(flags & _FLAGS), published, deliver, expires, key_hash,
        hint, flags >> PRIORITY_SHIFT,
    )  # fmt: skip


def published_and_hint(entry: bytes) -> tuple[int, int]:
    """Return the publish time and the hint in the header of ``entry``, for hot paths.

    Raises :class:`ValueError` as :func:`read_header` does.
    """
    if len(entry) < HEADER_BYTES:
        read_header(entry)
    fmt, _, _, messages, published, _, _, _, hint, zero = HEADER.unpack_from(entry)
    if fmt != ENTRY_FORMAT or zero or not messages:
        read_header(entry)
    return published, hint


def messages_in(entry: bytes) -> int:
    """Return how many messages ``entry`` holds; reads only that field."""
    count: int = MESSAGES.unpack_from(entry, MESSAGES_OFFSET)[0]
    return count


def published_at(entry: bytes, now_ms: int) -> bytes:
    """Return ``entry`` as if published at ``now_ms``, with its delay and its time to live
    unchanged."""
    published, deliver, expires = TIMES.unpack_from(entry, TIMES_OFFSET)
    if published == now_ms:
        return entry
    if deliver:
        # Below zero if the clock was set back and the entry was due long ago: then it is due.
        deliver = min(max(deliver + now_ms - published, 0), TIME_MS_MAX)
    if expires:
        expires += now_ms - published
    times = TIMES.pack(now_ms, deliver, expires)
    return b"".join((entry[:TIMES_OFFSET], times, entry[_TIMES_END:]))
