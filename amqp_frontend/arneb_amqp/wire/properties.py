"""The property list of a content header: what stands in it, and what must be looked at.

The rule: nothing here is called for a message whose property list equals the last one's; the
reader compares bytes. :class:`PropertyJudge` looks at a list that is new, and only code that
needs single properties decodes them.

A *property list* is a content header's payload from the flags on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntFlag
from functools import lru_cache
from itertools import pairwise
from struct import Struct, error
from typing import Final, NamedTuple

from arneb_amqp.errors import ConnectionException, syntax_error
from arneb_amqp.wire.route import shortstr
from arneb_amqp.wire.tables import Field, check_table, decode_table, encode_table


class PropertyFlag(IntFlag):
    """The flag of each property, in the order in which they stand in the list."""

    CONTENT_TYPE = 0x8000
    CONTENT_ENCODING = 0x4000
    HEADERS = 0x2000
    DELIVERY_MODE = 0x1000
    PRIORITY = 0x0800
    CORRELATION_ID = 0x0400
    REPLY_TO = 0x0200
    EXPIRATION = 0x0100
    MESSAGE_ID = 0x0080
    TIMESTAMP = 0x0040
    TYPE = 0x0020
    USER_ID = 0x0010
    APP_ID = 0x0008
    CLUSTER_ID = 0x0004


INTERESTING: Final = (
    PropertyFlag.EXPIRATION | PropertyFlag.USER_ID | PropertyFlag.PRIORITY | PropertyFlag.REPLY_TO
)
"""The default mask of the reader: publishes with one of these flags come singly. So do, whatever
the mask, those with a header named CC or BCC and those whose delivery mode is neither 1 nor 2."""

PERSISTENT: Final = 1
"""Bit of a judgement: delivery mode 2."""
SINGLE: Final = 2
"""Bit of a judgement: whoever takes the message must look at its properties."""

DELIVERY_MODE_TRANSIENT: Final = 1
DELIVERY_MODE_PERSISTENT: Final = 2
_KNOWN_MODES: Final = (None, DELIVERY_MODE_TRANSIENT, DELIVERY_MODE_PERSISTENT)

SKELETONS_MAX: Final = 256
_FREE_MAX: Final = 2 * 64
"""Skeletons with more fields than this take too much memory."""

COPIES: Final = frozenset({"CC", "BCC"})
"""The headers that name more routing keys."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a message; None = not there. The timestamp is seconds since the epoch."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Mapping[str, Field] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


_FLAGS: Final = tuple((flag.value, flag.name.lower()) for flag in PropertyFlag if flag.name)
_OCTETS: Final = frozenset({"delivery_mode", "priority"})
_FLAG_WORD: Final = Struct(">H")
_SIZE: Final = Struct(">I")
_TIMESTAMP: Final = Struct(">Q")


class PropertyJudge:
    """Checks property lists and says what the reader does with their messages.

    Lists of one client mostly differ in the text of an id or a header only. So the judge
    remembers by length a *skeleton* of what it has judged: the flags, all lengths, the names
    and types of headers, and the delivery mode. A list with the same skeleton is as well
    formed, and means the same here. A skeleton costs more than it saves unless it is met
    again, so the judge makes no more of them than it has met, and a few to begin with.
    """

    __slots__ = ("_credit", "_mask", "_skeletons")

    def __init__(self, interesting: PropertyFlag = INTERESTING) -> None:
        self._mask = int(interesting)
        self._credit = SKELETONS_MAX
        self._skeletons: dict[int, tuple[Callable[[bytes], object], object, int]] = {}

    def __repr__(self) -> str:
        return f"<PropertyJudge {len(self._skeletons)} skeletons>"

    def judge(self, data: bytes) -> int:
        """A combination of :data:`PERSISTENT` and :data:`SINGLE` for the property list ``data``.

        Raises :class:`~arneb_amqp.errors.ConnectionException` (502) when it is malformed.
        """
        skeleton = self._skeletons.get(len(data))
        if skeleton is not None and skeleton[0](data) == skeleton[1]:
            self._credit += 1
            return skeleton[2]
        found = _walk(data)
        judgement = PERSISTENT if found.delivery_mode == DELIVERY_MODE_PERSISTENT else 0
        if found.flags & self._mask or found.has_cc or found.delivery_mode not in _KNOWN_MODES:
            judgement |= SINGLE
        if self._credit and len(found.free) <= _FREE_MAX:
            self._credit -= 1
            self._remember(data, found.free, judgement)
        return judgement

    def _remember(self, data: bytes, free: list[int], judgement: int) -> None:
        if len(self._skeletons) >= SKELETONS_MAX:
            self._skeletons.clear()
        edges = [0, *free, len(data)]
        lengths = [b - a for a, b in pairwise(edges)]
        kept_and_free = zip(lengths[::2], [*lengths[1::2], 0], strict=True)
        unpack = Struct("".join(f"{kept}s{skipped}x" for kept, skipped in kept_and_free)).unpack
        self._skeletons[len(data)] = unpack, unpack(data), judgement


class _Findings(NamedTuple):
    flags: int
    delivery_mode: int | None
    has_cc: bool
    free: list[int]
    """Start and end of all that does not matter, in order."""


def _walk(data: bytes) -> _Findings:
    """Check ``data``, and find out what there is to judge."""
    mode: int | None = None
    has_cc = False
    free: list[int] = []
    try:
        flags, at = _flags_of(data), 2
        for name in _names(flags):
            if name == "headers":
                start, end = at + _SIZE.size, _table_end(data, at)
                check_table(data, start, end, free)
                if data.find(b"CC", start, end) >= 0:
                    has_cc = not COPIES.isdisjoint(decode_table(data, start, end))
            elif name == "delivery_mode":
                end = at + 1
                mode = data[at]
            elif name == "priority":
                end = at + 1
                free += (at, end)
            elif name == "timestamp":
                end = at + _TIMESTAMP.size
                free += (at, end)
            else:
                end = at + 1 + data[at]
                free += (at + 1, end)
            at = end
    except (IndexError, error):
        raise _malformed(data) from None
    if at != len(data):
        raise _malformed(data)
    return _Findings(flags, mode, has_cc, free)


@lru_cache(1024)
def _names(flags: int) -> tuple[str, ...]:
    """The properties that are in a list with these flags, in their order."""
    return tuple(name for flag, name in _FLAGS if flags & flag)


def _table_end(data: bytes, at: int) -> int:
    """Where the headers end whose size stands at ``at``."""
    end: int = at + _SIZE.size + _SIZE.unpack_from(data, at)[0]
    if end > len(data):
        raise _malformed(data)
    return end


def _flags_of(data: bytes) -> int:
    """The two lowest bits mean nothing: more flags, which the last one announces, are not read, for
    the basic class has no more."""
    return data[0] << 8 | data[1]


def _malformed(data: bytes) -> ConnectionException:
    return syntax_error(f"malformed property list of {len(data)} octets, flags {data[:2].hex()}")


def decode_properties(data: bytes) -> Properties:
    """The properties in the list ``data``; bytes of a short string that are no UTF-8 survive as
    lone surrogates.

    Raises :class:`~arneb_amqp.errors.ConnectionException` (502) when it is malformed.
    """
    found: dict[str, object] = {}
    try:
        at = 2
        for name in _names(_flags_of(data)):
            found[name], at = _read(name, data, at)
    except (IndexError, error):
        raise _malformed(data) from None
    if at != len(data):
        raise _malformed(data)
    return Properties(**found)  # type: ignore[arg-type]


def priority_of(data: bytes) -> int:
    """The priority in a well-formed list, 0 when it has none; reads no further than that."""
    flags, at = _flags_of(data), 2
    if not flags & PropertyFlag.PRIORITY:
        return 0
    for flag in (PropertyFlag.CONTENT_TYPE, PropertyFlag.CONTENT_ENCODING):
        if flags & flag:
            at += 1 + data[at]
    if flags & PropertyFlag.HEADERS:
        at = _table_end(data, at)
    return data[at + 1 if flags & PropertyFlag.DELIVERY_MODE else at]


def without_headers(data: bytes) -> tuple[bytes, bytes]:
    """The list ``data`` without its header table, and that table's fields, empty if it has none.

    Raises :class:`~arneb_amqp.errors.ConnectionException` (502) when what is read is malformed.
    """
    flags, at = _flags_of(data), 2
    if not flags & PropertyFlag.HEADERS:
        return data, b""
    try:
        for flag in (PropertyFlag.CONTENT_TYPE, PropertyFlag.CONTENT_ENCODING):
            if flags & flag:
                at += 1 + data[at]
        end = _table_end(data, at)
    except (IndexError, error):
        raise _malformed(data) from None
    rest = _FLAG_WORD.pack(flags & ~PropertyFlag.HEADERS) + data[2:at] + data[end:]
    return rest, data[at + _SIZE.size : end]


def _read(name: str, data: bytes, at: int) -> tuple[object, int]:
    if name == "headers":
        end = _table_end(data, at)
        return decode_table(data, at + _SIZE.size, end), end
    if name in _OCTETS:
        return data[at], at + 1
    if name == "timestamp":
        return _TIMESTAMP.unpack_from(data, at)[0], at + 8
    end = at + 1 + data[at]
    if end > len(data):
        raise _malformed(data)
    return data[at + 1 : end].decode("utf-8", "surrogateescape"), end


def encode_properties(properties: Properties) -> bytes:
    """The property list. Raises :class:`ValueError` when a value does not fit its field."""
    flags, parts = 0, [b""]
    for flag, name in _FLAGS:
        value = getattr(properties, name)
        if value is not None:
            flags |= flag
            parts.append(_write(name, value))
    parts[0] = flags.to_bytes(2, "big")
    return b"".join(parts)


def _write(name: str, value: object) -> bytes:
    try:
        match value:
            case str():
                return shortstr(value)
            case int():
                return value.to_bytes(8 if name == "timestamp" else 1, "big")
            case Mapping():
                raw = encode_table(value)
                return _SIZE.pack(len(raw)) + raw
            case _:
                raise ValueError(f"no value for {name}: {value!r}")
    except OverflowError:
        raise ValueError(f"expected a {name} that fits its field, got {value}") from None
