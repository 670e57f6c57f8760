"""Field tables: typed values by name, decoded strictly and encoded back to the same types.

The rule: the type letter is part of the value. pamqp turns fields into plain Python values, which
loses what error texts and lossless translation need (a ``short`` and a ``signedint`` are both
``int``, a time in the far future is read as milliseconds, short data is accepted), so tables have a
codec of their own. Letters and names of types are RabbitMQ's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from struct import Struct, error
from typing import Final, NamedTuple, TypeAlias

from arneb_amqp.errors import ConnectionException, syntax_error
from arneb_amqp.wire.constants import TABLE_DEPTH_MAX


class FieldType(Enum):
    """The type of a field, named as RabbitMQ's error texts name it. ``value`` is its letter."""

    LONGSTR = b"S"
    BOOL = b"t"
    BYTE = b"b"
    UNSIGNEDBYTE = b"B"
    SHORT = b"s"
    UNSIGNEDSHORT = b"u"
    SIGNEDINT = b"I"
    UNSIGNEDINT = b"i"
    LONG = b"l"
    FLOAT = b"f"
    DOUBLE = b"d"
    DECIMAL = b"D"
    TIMESTAMP = b"T"
    ARRAY = b"A"
    TABLE = b"F"
    BINARY = b"x"
    VOID = b"V"

    @property
    def erlang_name(self) -> str:
        """The type as error texts name it: ``signedint``, ``longstr``, ..."""
        return self.name.lower()


class Decimal(NamedTuple):
    """``unscaled`` / 10 ** ``scale``; RabbitMQ reads the unscaled value as unsigned."""

    scale: int
    unscaled: int


FieldValue: TypeAlias = (
    "bool | int | float | bytes | Decimal | tuple[Field, ...] | Mapping[str, Field] | None"
)


class Field(NamedTuple):
    """A typed value. Strings are ``bytes``, as AMQP leaves their encoding open; arrays are
    tuples and tables mappings of fields; a timestamp is seconds since the epoch."""

    type: FieldType
    value: FieldValue

    @property
    def text(self) -> str:
        """A string as text; bytes that are not UTF-8 survive as lone surrogates."""
        assert isinstance(self.value, bytes), f"expected a string, got {self.type.erlang_name}"
        return self.value.decode("utf-8", "surrogateescape")

    @property
    def is_integer(self) -> bool:
        """Whether it has one of the integer types, which RabbitMQ treats as interchangeable."""
        return self.type in INTEGER_TYPES


Table: TypeAlias = Mapping[str, Field]
"""Fields by name. Of fields with the same name the first one counts, as in RabbitMQ."""

INTEGER_TYPES: Final = frozenset(
    {
        FieldType.BYTE,
        FieldType.UNSIGNEDBYTE,
        FieldType.SHORT,
        FieldType.UNSIGNEDSHORT,
        FieldType.SIGNEDINT,
        FieldType.UNSIGNEDINT,
        FieldType.LONG,
    }
)

NUMBERS: Final = {
    FieldType.BYTE: Struct(">b"),
    FieldType.UNSIGNEDBYTE: Struct(">B"),
    FieldType.SHORT: Struct(">h"),
    FieldType.UNSIGNEDSHORT: Struct(">H"),
    FieldType.SIGNEDINT: Struct(">i"),
    FieldType.UNSIGNEDINT: Struct(">I"),
    FieldType.LONG: Struct(">q"),
    FieldType.TIMESTAMP: Struct(">Q"),
    FieldType.FLOAT: Struct(">f"),
    FieldType.DOUBLE: Struct(">d"),
}
_DECIMAL: Final = Struct(">BI")
_SIZE: Final = Struct(">I")

_TYPES: Final = {kind.value[0]: kind for kind in FieldType} | {ord("L"): FieldType.LONG}
"""By letter. ``L`` is a synonym of ``l`` that some clients send."""

_LETTER_TABLE: Final = FieldType.TABLE.value[0]
_LETTER_ARRAY: Final = FieldType.ARRAY.value[0]

FIXED_BYTES: Final = {
    letter: NUMBERS[kind].size for letter, kind in _TYPES.items() if kind in NUMBERS
} | {
    FieldType.BOOL.value[0]: 1,
    FieldType.DECIMAL.value[0]: _DECIMAL.size,
    FieldType.VOID.value[0]: 0,
}
"""Sizes of fixed-size values, by type letter; all other values have a size field."""
_SIZED: Final = frozenset(_TYPES) - frozenset(FIXED_BYTES)


def decode_table(
    data: bytes, start: int = 0, end: int | None = None, *, deeper: int = 0
) -> dict[str, Field]:
    """Decode the table whose fields fill ``data[start:end]``, which excludes its size field. It may
    be ``deeper`` than those that peers send, by that many levels.

    Raises :class:`~arneb_amqp.errors.ConnectionException` (502) when they do not fill it
    exactly or a field is malformed.
    """
    stop = len(data) if end is None else end
    try:
        return _table(data, start, stop, -deeper)
    except (error, IndexError) as problem:
        raise _malformed(f"a field ends after the table at octet {stop}") from problem


def check_table(data: bytes, start: int, end: int, free: list[int]) -> None:
    """Check the fields in ``data[start:end]`` as :func:`decode_table` does, building nothing.

    The start and end of every value are appended to ``free``, in order: octets there may be
    replaced by any others without changing the names, the types or the well-formedness. A table or
    an array has an empty span before those of its fields.
    """
    try:
        _check(data, start, end, free, 0, named=True)
    except (error, IndexError) as problem:
        raise _malformed(f"a field ends after the table at octet {end}") from problem


def encode_table(table: Mapping[str, Field]) -> bytes:
    """Encode the fields of ``table``, without the size in front.

    Raises :class:`ValueError` when a value does not fit its type.
    """
    parts: list[bytes] = []
    try:
        _put_table(parts, table)
    except (error, OverflowError) as problem:
        raise ValueError(f"expected values that fit their field types: {problem}") from problem
    return b"".join(parts)


def _malformed(what: str) -> ConnectionException:
    return syntax_error(f"malformed field table: {what}")


def _too_deep() -> ConnectionException:
    return _malformed(f"expected at most {TABLE_DEPTH_MAX} tables inside one another")


def _size(data: bytes, at: int, stop: int) -> int:
    """Return the end of the value whose size field is at ``at``."""
    (size,) = _SIZE.unpack_from(data, at)
    end: int = at + 4 + size
    if end > stop:
        raise _malformed(f"expected at most {stop - at - 4} octets at octet {at}, got size {size}")
    return end


def _table(data: bytes, at: int, stop: int, depth: int) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    while at < stop:
        name_end = at + 1 + data[at]
        if name_end >= stop:
            raise _malformed(f"a field name at octet {at} leaves no room for a value")
        name = data[at + 1 : name_end].decode("utf-8", "surrogateescape")
        field, at = _field(data, name_end, stop, depth)
        fields.setdefault(name, field)
    return fields


def _check(data: bytes, at: int, stop: int, free: list[int], depth: int, *, named: bool) -> None:
    """Walk over the fields of a table (``named``) or an array, as :func:`_field` reads them."""
    fixed, sized = FIXED_BYTES, _SIZED
    if depth > TABLE_DEPTH_MAX:
        raise _too_deep()
    while at < stop:
        if named:
            at += 1 + data[at]
            if at >= stop:
                raise _malformed(f"a field name before octet {at} leaves no room for a value")
        letter = data[at]
        at += 1
        size = fixed.get(letter)
        if size is not None:
            free += (at, at + size)
            at += size
        elif letter in sized:
            start = at + 4
            at = _size(data, at, stop)
            if letter in (_LETTER_TABLE, _LETTER_ARRAY):
                free += (start, start)
                _check(data, start, at, free, depth + 1, named=letter == _LETTER_TABLE)
            else:
                free += (start, at)
        else:
            raise _malformed(f"expected a field type at octet {at - 1}, got {letter}")
    if at > stop:
        raise _malformed(f"the last field ends {at - stop} octets too late")


def _array(data: bytes, at: int, stop: int, depth: int) -> tuple[Field, ...]:
    fields: list[Field] = []
    while at < stop:
        field, at = _field(data, at, stop, depth)
        fields.append(field)
    return tuple(fields)


def _field(data: bytes, at: int, stop: int, depth: int) -> tuple[Field, int]:
    """Return the field whose type letter is at ``at``, and where the next one begins."""
    kind = _TYPES.get(data[at])
    if kind is None:
        raise _malformed(f"expected a field type at octet {at}, got {data[at]}")
    at += 1
    value: FieldValue
    number = NUMBERS.get(kind)
    if number is not None:
        (value,) = number.unpack_from(data, at)
        end = at + number.size
    elif kind is FieldType.LONGSTR or kind is FieldType.BINARY:
        end = _size(data, at, stop)
        value = data[at + 4 : end]
    elif kind is FieldType.BOOL:
        value, end = data[at] != 0, at + 1
    elif kind is FieldType.DECIMAL:
        value, end = Decimal._make(_DECIMAL.unpack_from(data, at)), at + _DECIMAL.size
    elif kind is FieldType.VOID:
        value, end = None, at
    else:
        end = _size(data, at, stop)
        value = _nested(kind, data, at + 4, end, depth + 1)
    if end > stop:
        raise _malformed(f"the field at octet {at} ends {end - stop} octets too late")
    return Field(kind, value), end


def _nested(kind: FieldType, data: bytes, at: int, stop: int, depth: int) -> FieldValue:
    if depth > TABLE_DEPTH_MAX:
        raise _too_deep()
    decode: Callable[[bytes, int, int, int], FieldValue]
    decode = _table if kind is FieldType.TABLE else _array
    return decode(data, at, stop, depth)


def _put_table(parts: list[bytes], table: Mapping[str, Field]) -> None:
    for name, field in table.items():
        raw = name.encode("utf-8", "surrogateescape")
        if len(raw) > 255:
            raise ValueError(f"expected a field name of at most 255 bytes, got {len(raw)}")
        parts.append(bytes((len(raw),)) + raw)
        _put_field(parts, field)


def _put_field(parts: list[bytes], field: Field) -> None:
    kind, value = field
    parts.append(kind.value)
    number = NUMBERS.get(kind)
    if number is not None:
        parts.append(number.pack(value))
        return
    match kind, value:
        case FieldType.LONGSTR | FieldType.BINARY, bytes():
            parts += (_SIZE.pack(len(value)), value)
        case FieldType.BOOL, bool():
            parts.append(b"\x01" if value else b"\x00")
        case FieldType.DECIMAL, Decimal():
            parts.append(_DECIMAL.pack(*value))
        case FieldType.TABLE, Mapping():
            _put_sized(parts, lambda inner: _put_table(inner, value))
        case FieldType.ARRAY, tuple():
            _put_sized(parts, lambda inner: _put_array(inner, value))
        case FieldType.VOID, None:
            pass
        case _:
            raise ValueError(f"expected a value of type {kind.erlang_name}, got {value!r}")


def _put_array(parts: list[bytes], fields: Sequence[Field]) -> None:
    for field in fields:
        _put_field(parts, field)


def _put_sized(parts: list[bytes], put: Callable[[list[bytes]], None]) -> None:
    inner: list[bytes] = []
    put(inner)
    parts += (_SIZE.pack(sum(map(len, inner))), *inner)


# Constructors of fields, for our own tables.


def longstr(text: str | bytes) -> Field:
    """Make a string field."""
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return Field(FieldType.LONGSTR, raw)


def boolean(value: bool) -> Field:
    """Make a truth value."""
    return Field(FieldType.BOOL, value)


def long(value: int) -> Field:
    """Make a signed 64-bit integer."""
    return Field(FieldType.LONG, value)


def signedint(value: int) -> Field:
    """Make a signed 32-bit integer."""
    return Field(FieldType.SIGNEDINT, value)


def timestamp(seconds: int) -> Field:
    """Make a timestamp from seconds since the epoch."""
    return Field(FieldType.TIMESTAMP, seconds)


def array(fields: Sequence[Field]) -> Field:
    """Make an array of fields."""
    return Field(FieldType.ARRAY, tuple(fields))


def table(fields: Mapping[str, Field]) -> Field:
    """Make a nested table."""
    return Field(FieldType.TABLE, fields)


def lookup_text(fields: Mapping[str, Field], name: str) -> str | None:
    """Return the string field of that name as text; None when absent or of another type."""
    field = fields.get(name)
    return field.text if field is not None and field.type is FieldType.LONGSTR else None


def lookup_bool(fields: Mapping[str, Field], name: str) -> bool:
    """Whether the field of that name is the truth value true."""
    field = fields.get(name)
    return field is not None and field.type is FieldType.BOOL and bool(field.value)


def lookup_table(fields: Mapping[str, Field], name: str) -> Mapping[str, Field]:
    """Return the table of that name; empty when absent or of another type."""
    field = fields.get(name)
    return field.value if field is not None and isinstance(field.value, Mapping) else {}
