"""A property list cut around some header fields, to read or replace them without decoding it.

The rule: the untouched parts equal, octet for octet, what decoding and encoding them would produce.
A list for which that is not certain is not cut.
"""

from collections.abc import Container
from struct import Struct, error
from typing import Final, NamedTuple

from arneb_amqp.wire.properties import TABLE_SIZE, PropertyFlag, flags_of, table_end
from arneb_amqp.wire.tables import FIXED_BYTES, FieldType

_FLAG_WORD: Final = Struct(">H")
_MORE_FLAGS: Final = 0x0003
"""The two lowest bits, which mean nothing and are not written."""

_CONTENT_TYPE: Final = int(PropertyFlag.CONTENT_TYPE)
_CONTENT_ENCODING: Final = int(PropertyFlag.CONTENT_ENCODING)
_HEADERS: Final = int(PropertyFlag.HEADERS)
_DELIVERY_MODE: Final = int(PropertyFlag.DELIVERY_MODE)
_PRIORITY: Final = int(PropertyFlag.PRIORITY)
_CORRELATION_ID: Final = int(PropertyFlag.CORRELATION_ID)
_REPLY_TO: Final = int(PropertyFlag.REPLY_TO)
_EXPIRATION: Final = int(PropertyFlag.EXPIRATION)

_BOOL: Final = FieldType.BOOL.value[0]
_FIXED_BYTES: Final = {letter: size for letter, size in FIXED_BYTES.items() if letter not in b"ftL"}
"""Sizes of the fixed-size types that re-encoding leaves unchanged; it may change single-precision
NaNs, truth values and the synonym ``L``."""
_STRINGS: Final = FieldType.LONGSTR.value + FieldType.BINARY.value
_SIZED: Final = _STRINGS + FieldType.ARRAY.value + FieldType.TABLE.value

_NO_SPANS: Final[tuple[tuple[int, int], ...]] = ()


class Cut(NamedTuple):
    """A property list in parts."""

    flags: int
    before: bytes
    """The list before the headers."""
    fields: bytes
    spans: tuple[tuple[int, int], ...]
    """The spans of the requested fields within ``fields``."""
    marks: tuple[bytes, ...]
    """The expiration, if any, and the requested fields."""
    after: bytes
    """The list after the headers, without the expiration."""


def cut(data: bytes, names: Container[bytes]) -> Cut | None:
    """Cut the well-formed list ``data``; ``names`` have their length octets. None if it should be
    decoded instead."""
    flags = flags_of(data) & ~_MORE_FLAGS
    try:
        at = _headers_at(data, flags)
        fields, spans, end = b"", _NO_SPANS, at
        if flags & _HEADERS:
            end = table_end(data, at)
            fields = data[at + TABLE_SIZE.size : end]
            found = _spans(fields, names)
            if found is None:
                return None
            spans = found
        after, expiration = data[end:], b""
        if flags & _EXPIRATION:
            here = end + bool(flags & _DELIVERY_MODE) + bool(flags & _PRIORITY)
            for flag in (_CORRELATION_ID, _REPLY_TO):
                if flags & flag:
                    here += 1 + data[here]
            behind = here + 1 + data[here]
            expiration, after = data[here:behind], data[end:here] + data[behind:]
    except (IndexError, error):
        return None
    marks = (expiration, *[fields[first:stop] for first, stop in spans])
    return Cut(flags, data[2:at], fields, spans, marks, after)


def named_fields(data: bytes, names: Container[bytes]) -> bytes | None:
    """Return the encoded header fields of these names in the well-formed list ``data``,
    concatenated. None if it should be decoded instead."""
    flags = flags_of(data)
    if not flags & _HEADERS:
        return b""
    found: list[bytes] = []
    try:
        at = _headers_at(data, flags)
        stop = table_end(data, at)
        at += TABLE_SIZE.size
        while at < stop:
            value_at = at + 1 + data[at]
            size = FIXED_BYTES.get(data[value_at])
            if size is None:
                size = 4 + int(TABLE_SIZE.unpack_from(data, value_at + 1)[0])
            end = value_at + 1 + size
            if data[at:value_at] in names:
                found.append(data[at:end])
            at = end
    except (IndexError, error):
        return None
    return b"".join(found) if at == stop else None


def _headers_at(data: bytes, flags: int) -> int:
    """Return the offset of the headers in a list with these ``flags``, or where they would be.
    Raises :class:`IndexError` if the list ends before that."""
    at = 2
    if flags & _CONTENT_TYPE:
        at += 1 + data[at]
    if flags & _CONTENT_ENCODING:
        at += 1 + data[at]
    return at


def _spans(fields: bytes, names: Container[bytes]) -> tuple[tuple[int, int], ...] | None:
    """Return the spans of these fields; None if encoding might change the others."""
    at, stop = 0, len(fields)
    spans: list[tuple[int, int]] = []
    seen: set[bytes] = set()
    while at < stop:
        value_at = at + 1 + fields[at]
        name = fields[at:value_at]
        if name in seen:
            return None  # decoding keeps the first and drops the others
        seen.add(name)
        letter = fields[value_at]
        is_marked = name in names
        size = _FIXED_BYTES.get(letter)
        if size is not None:
            end = value_at + 1 + size
        elif letter in (_SIZED if is_marked else _STRINGS):
            end = value_at + 5 + int(TABLE_SIZE.unpack_from(fields, value_at + 1)[0])
        elif letter == _BOOL and fields[value_at + 1] < 2:
            end = value_at + 2
        else:
            return None
        if is_marked:
            spans.append((at, end))
        at = end
    return tuple(spans) if at == stop else None


class Replacement(NamedTuple):
    """The replacement for lists that have the same marks."""

    fields: tuple[bytes, ...]
    """The new fields, one for each span."""
    added: bytes
    """Appended after all fields."""

    def of(self, parts: Cut) -> bytes:
        """Return the list of ``parts`` with the new fields and without its expiration."""
        fields = parts.fields
        if parts.spans:
            pieces: list[bytes] = []
            at = 0
            for (first, stop), field in zip(parts.spans, self.fields, strict=True):
                pieces += (fields[at:first], field)
                at = stop
            fields = b"".join((*pieces, fields[at:]))
        flags = _FLAG_WORD.pack((parts.flags | _HEADERS) & ~_EXPIRATION)
        size = TABLE_SIZE.pack(len(fields) + len(self.added))
        return b"".join((flags, parts.before, size, fields, self.added, parts.after))
