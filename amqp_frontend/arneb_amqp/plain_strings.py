"""Plain strings: an ordinary property list as strings, in one walk.

The rule: the result has the same strings in the same order as :func:`.translation.to_strings` makes
of the decoded list, or is None: anything nested, repeated, empty, malformed or not UTF-8 is left to
that function. Most lists are plain, and a consumer of another protocol gets each of its messages
this way: decoding all fields first and then making strings of them takes four times as long.
"""

import json
from functools import lru_cache
from struct import Struct, error
from typing import Final

from arneb_amqp.wire.properties import (
    DELIVERY_MODE_PERSISTENT,
    TABLE_SIZE,
    TIMESTAMP,
    flags_of,
    names_in,
)
from arneb_amqp.wire.tables import NUMBERS, FieldType

CACHED: Final = 1024
"""Names of headers, and sets of names, cached: as many as applications have. Each is some 100
bytes, at most 4 KiB."""

TYPES_MAX: Final = 16
"""Headers other than strings whose types are cached together; with more a list is not plain."""

TIMESTAMP_MAX: Final = 1 << 53
"""The latest plain timestamp; a later one, or zero, is no event time and goes the long way."""

_LONGSTR: Final = FieldType.LONGSTR.value[0]
_BOOL: Final = FieldType.BOOL.value[0]
_NUMBERS: Final[dict[int, tuple[Struct, int, str]]] = {
    kind.value[0]: (number, number.size, kind.erlang_name) for kind, number in NUMBERS.items()
}
_BOOL_NAME: Final = FieldType.BOOL.erlang_name


class PlainStrings:
    """Makes plain strings, with its user's names for AMQP's own properties."""

    def __init__(self, reserved: str, header_types: str, fields_max: int) -> None:
        """``reserved`` is the prefix of those names, ``header_types`` the name for the types of
        headers; a list of more than ``fields_max`` bytes may have more fields than are turned into
        strings."""
        self._bytes_max = fields_max
        self._types_name = header_types
        self._mode_name = reserved + "delivery_mode"
        self._priority_name = reserved + "priority"
        self._reserved = reserved
        self._name_of = lru_cache(CACHED)(self._name)
        self._steps_of = lru_cache(CACHED)(self._steps)

    def __repr__(self) -> str:
        return f"<PlainStrings {self._reserved!r}, {self._name_of.cache_info().currsize} names>"

    def of(self, data: bytes, behind: tuple[str, str] | None) -> tuple[dict[str, str], int] | None:
        """Return the strings of the property list ``data`` and its timestamp, 0 if absent; None if
        it is not plain. ``behind`` is a string to put after those of the headers."""
        if len(data) > self._bytes_max:
            return None
        strings: dict[str, str] = {}
        texts: dict[str, str] = {}
        mode, priority, timestamp, at = -1, -1, 0, 2
        try:
            for name, key in self._steps_of(flags_of(data)):
                if key:
                    end = at + 1 + data[at]
                    texts[key] = data[at + 1 : end].decode()
                    at = end
                elif name == "headers":
                    at = self._headers(data, at, strings)
                    if not at:
                        return None
                elif name == "delivery_mode":
                    mode = data[at]
                    at += 1
                elif name == "priority":
                    priority = data[at]
                    at += 1
                else:
                    (timestamp,) = TIMESTAMP.unpack_from(data, at)
                    if not 0 < timestamp <= TIMESTAMP_MAX:
                        return None
                    at += 8
        except (IndexError, error, UnicodeDecodeError):
            return None
        if at != len(data):  # or beyond it, where a text is cut off
            return None
        if behind is not None:
            strings[behind[0]] = behind[1]
        strings.update(texts)
        if mode != DELIVERY_MODE_PERSISTENT:
            strings[self._mode_name] = "" if mode < 0 else str(mode)
        if priority >= 0:
            strings[self._priority_name] = str(priority)
        return strings, timestamp

    def _headers(self, data: bytes, at: int, strings: dict[str, str]) -> int:
        """Add the headers whose size field is at ``at``; return their end, 0 if they are not
        plain."""
        end: int = at + 4 + TABLE_SIZE.unpack_from(data, at)[0]
        at += 4
        if at >= end or end > len(data):
            return 0
        name_of, numbers = self._name_of, _NUMBERS
        types: list[tuple[str, str]] = []
        while at < end:
            value_at = at + 1 + data[at]
            name = name_of(data[at + 1 : value_at])
            if name is None or name in strings:
                return 0
            letter = data[value_at]
            at = value_at + 1
            if letter == _LONGSTR:
                start = at + 4
                at = start + TABLE_SIZE.unpack_from(data, at)[0]
                if at > end:
                    return 0
                strings[name] = data[start:at].decode()
                continue
            number = numbers.get(letter)
            if number is not None:
                form, size, kind = number
                strings[name] = str(form.unpack_from(data, at)[0])
                at += size
                types.append((name, kind))
            elif letter == _BOOL:
                strings[name] = "true" if data[at] else "false"
                at += 1
                types.append((name, _BOOL_NAME))
            else:
                return 0
        if at > end or len(types) > TYPES_MAX:
            return 0
        if types:
            strings[self._types_name] = _types_text(tuple(types))
        return end

    def _name(self, raw: bytes) -> str | None:
        """Return the name of a header, if it can be the name of a string."""
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            return None
        return None if name.startswith(self._reserved) else name

    def _steps(self, flags: int) -> tuple[tuple[str, str], ...]:
        """Return the properties in a list with these flags, each with the name of its string if it
        is text."""
        others = ("headers", "delivery_mode", "priority", "timestamp")
        return tuple(
            (name, "" if name in others else self._reserved + name) for name in names_in(flags)
        )


@lru_cache(CACHED)
def _types_text(types: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(types), separators=(",", ":"))
