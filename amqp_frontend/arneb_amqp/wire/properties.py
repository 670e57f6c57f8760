"""The property list of a content header and its encoding.

The rule: only code that needs single properties decodes them; :mod:`arneb_amqp.wire.property_judge`
decides whether any must be decoded.

A *property list* is a content header's payload from the flags on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntFlag
from functools import lru_cache
from struct import Struct, error
from typing import Final

from arneb_amqp.errors import ConnectionException, syntax_error
from arneb_amqp.wire.constants import COPY_DEPTH
from arneb_amqp.wire.route import shortstr
from arneb_amqp.wire.tables import Field, decode_table, encode_table


class PropertyFlag(IntFlag):
    """The flag of each property, in list order."""

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


DELIVERY_MODE_TRANSIENT: Final = 1
DELIVERY_MODE_PERSISTENT: Final = 2

EXPIRATION_MS_MAX: Final = 315_360_000_000
"""Ten years, as RabbitMQ has it."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a message; None = absent. The timestamp is in seconds since the epoch."""

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
TABLE_SIZE: Final = Struct(">I")
"""The size field in front of the header table."""
TIMESTAMP: Final = Struct(">Q")


@lru_cache(1024)
def names_in(flags: int) -> tuple[str, ...]:
    """Return the properties in a list with these flags, in order."""
    return tuple(name for flag, name in _FLAGS if flags & flag)


def table_end(data: bytes, at: int) -> int:
    """Return the end of the headers whose size field is at ``at``."""
    end: int = at + TABLE_SIZE.size + TABLE_SIZE.unpack_from(data, at)[0]
    if end > len(data):
        raise malformed(data)
    return end


def flags_of(data: bytes) -> int:
    """Return the flag word. Its two lowest bits mean nothing: further flag words, which the last
    bit announces, are not read, because the basic class has none."""
    return data[0] << 8 | data[1]


def malformed(data: bytes) -> ConnectionException:
    """Return the error for a malformed list."""
    return syntax_error(f"malformed property list of {len(data)} octets, flags {data[:2].hex()}")


def decode_properties(data: bytes) -> Properties:
    """Return the properties in the list ``data``; bytes of a short string that are not UTF-8
    survive as lone surrogates. Not for a peer's input before :func:`.check_table` has checked it.

    Raises :class:`~arneb_amqp.errors.ConnectionException` (502) when it is malformed.
    """
    found: dict[str, object] = {}
    try:
        at = 2
        for name in names_in(flags_of(data)):
            found[name], at = _read(name, data, at)
    except (IndexError, error):
        raise malformed(data) from None
    if at != len(data):
        raise malformed(data)
    return Properties(**found)  # type: ignore[arg-type]


def priority_of(data: bytes) -> int:
    """Return the priority in a well-formed list, 0 if absent, reading no further than it."""
    flags, at = flags_of(data), 2
    if not flags & PropertyFlag.PRIORITY:
        return 0
    for flag in (PropertyFlag.CONTENT_TYPE, PropertyFlag.CONTENT_ENCODING):
        if flags & flag:
            at += 1 + data[at]
    if flags & PropertyFlag.HEADERS:
        at = table_end(data, at)
    return data[at + 1 if flags & PropertyFlag.DELIVERY_MODE else at]


def without_headers(data: bytes) -> tuple[bytes, bytes]:
    """Return the list ``data`` without its header table, and that table's fields, empty if absent.

    Raises :class:`~arneb_amqp.errors.ConnectionException` (502) if the part it reads is malformed.
    """
    flags, at = flags_of(data), 2
    if not flags & PropertyFlag.HEADERS:
        return data, b""
    try:
        for flag in (PropertyFlag.CONTENT_TYPE, PropertyFlag.CONTENT_ENCODING):
            if flags & flag:
                at += 1 + data[at]
        end = table_end(data, at)
    except (IndexError, error):
        raise malformed(data) from None
    rest = _FLAG_WORD.pack(flags & ~PropertyFlag.HEADERS) + data[2:at] + data[end:]
    return rest, data[at + TABLE_SIZE.size : end]


def _read(name: str, data: bytes, at: int) -> tuple[object, int]:
    if name == "headers":
        end = table_end(data, at)
        return decode_table(data, at + TABLE_SIZE.size, end, deeper=COPY_DEPTH), end
    if name in _OCTETS:
        return data[at], at + 1
    if name == "timestamp":
        return TIMESTAMP.unpack_from(data, at)[0], at + 8
    end = at + 1 + data[at]
    if end > len(data):
        raise malformed(data)
    return data[at + 1 : end].decode("utf-8", "surrogateescape"), end


def encode_properties(properties: Properties) -> bytes:
    """Return the property list. Raises :class:`ValueError` when a value does not fit its field."""
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
                return TABLE_SIZE.pack(len(raw)) + raw
            case _:
                raise ValueError(f"no value for {name}: {value!r}")
    except OverflowError:
        raise ValueError(f"expected a {name} that fits its field, got {value}") from None
