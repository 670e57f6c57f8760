"""A value in Avro's binary form, as values of JSON.

The rule: only the writer's definition is followed, and nothing is trusted. An array of empty items
may claim a quintillion of them, and a recursive definition may nest as deep as the body is long; so
steps, depth and names are counted. Bytes are shown in hex, times and decimals as people write them.
"""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from struct import Struct
from typing import Any, Final

STEPS_MAX: Final = 100_000
"""Values inside one value: some tenths of a second on a thread."""

DEPTH_MAX: Final = 64

NAMES_CHARACTERS_MAX: Final = 4 * 1024 * 1024
"""Characters of field names: a name is output as often as it occurs, but defined only once."""

DEFINITIONS_KEPT: Final = 64

VARINT_BYTES_MAX: Final = 10
DECIMAL_BYTES_MAX: Final = 128
DECIMAL_SCALE_MAX: Final = 1000

FLOAT: Final = Struct("<f")
DOUBLE: Final = Struct("<d")

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_NAMED: Final = ("record", "error", "enum", "fixed")
_TIMES: Final = {"timestamp-millis": 1_000, "timestamp-micros": 1}
"""Logical types that are instants, and their units in microseconds."""


class InvalidValue(ValueError):
    """A body that does not match its schema, or is too large."""


def read_avro(definition: bytes, body: bytes) -> Any:
    """Return the value of a whole body. Raises :class:`InvalidValue`."""
    known, names = _definition(definition)
    reading = _Reading(body, names)
    found = reading.value(known, "", 0)
    if reading.at != len(body):
        raise InvalidValue(f"expected the end at byte {reading.at} of {len(body)}")
    return found


@lru_cache(maxsize=DEFINITIONS_KEPT)
def _definition(data: bytes) -> tuple[Any, Mapping[str, Any]]:
    try:
        found = json.loads(data)
        names: dict[str, Any] = {}
        _collect(found, "", names)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"expected a definition in Avro: {str(error)[:200]}") from None
    return found, names


def _collect(of: Any, space: str, names: dict[str, Any]) -> None:
    """Collect the named types by their full names."""
    if isinstance(of, list):
        for each in of:
            _collect(each, space, names)
    elif isinstance(of, dict):
        if of.get("type") in _NAMED:
            name, space = _full_name(of, space)
            names[name] = of
        fields = of.get("fields")
        for each in fields if isinstance(fields, list) else ():
            if isinstance(each, dict):
                _collect(each.get("type"), space, names)
        for inner in ("items", "values"):
            _collect(of.get(inner), space, names)
        if isinstance(of.get("type"), dict | list):
            _collect(of["type"], space, names)


def _full_name(of: Mapping[str, Any], space: str) -> tuple[str, str]:
    """Return the full name, and the namespace of what is inside."""
    name = str(of.get("name", ""))
    if "." in name:
        return name, name.rpartition(".")[0]
    space = str(of.get("namespace", space))
    return (f"{space}.{name}" if space else name), space


class _Reading:
    """The reading of a body, and what may still be spent on it."""

    def __init__(self, body: bytes, names: Mapping[str, Any]) -> None:
        self._body = body
        self._names = names
        self._steps = STEPS_MAX
        self._characters = NAMES_CHARACTERS_MAX
        self.at = 0

    def __repr__(self) -> str:
        return f"<_Reading at {self.at} of {len(self._body)}, {self._steps} steps left>"

    def value(self, of: Any, space: str, depth: int) -> Any:
        """Read the next value."""
        self._steps -= 1
        if self._steps < 0:
            raise InvalidValue(f"it has more than {STEPS_MAX} values")
        if depth > DEPTH_MAX:
            raise InvalidValue(f"it is deeper than {DEPTH_MAX}")
        if isinstance(of, list):
            return self.value(self._chosen(of), space, depth + 1)
        if isinstance(of, str):
            return self._named(of, space, depth)
        if not isinstance(of, dict):
            raise InvalidValue("expected a type of Avro in the definition")
        match of.get("type"):
            case "record" | "error":
                return self._record(of, space, depth)
            case "enum":
                return self._among(of.get("symbols"), "symbol")
            case "fixed":
                return _logical(of, self._take(_whole(of.get("size"))))
            case "array":
                return self._array(of.get("items"), space, depth)
            case "map":
                return self._map(of.get("values"), space, depth)
            case str() as name:
                return _logical(of, self._raw(name, space, depth))
            case inner:
                return self.value(inner, space, depth + 1)

    def _named(self, name: str, space: str, depth: int) -> Any:
        return _logical({}, self._raw(name, space, depth))

    def _raw(self, name: str, space: str, depth: int) -> Any:
        match name:
            case "null":
                return None
            case "boolean":
                return self._take(1) != b"\0"
            case "int" | "long":
                return self._number()
            case "float":
                return _finite(FLOAT.unpack(self._take(FLOAT.size))[0])
            case "double":
                return _finite(DOUBLE.unpack(self._take(DOUBLE.size))[0])
            case "bytes":
                return self._take(self._number())
            case "string":
                return self._text()
        known = self._names.get(f"{space}.{name}" if space and "." not in name else name)
        known = self._names.get(name) if known is None else known
        if known is None:
            raise InvalidValue(f"the definition has no type {name[:100]!r}")
        return self.value(known, "", depth + 1)

    def _record(self, of: Mapping[str, Any], space: str, depth: int) -> dict[str, Any]:
        _, space = _full_name(of, space)
        found: dict[str, Any] = {}
        fields = of.get("fields")
        for each in fields if isinstance(fields, list) else ():
            name = str(each.get("name", "")) if isinstance(each, dict) else ""
            self._spend(len(name))
            found[name] = self.value(each.get("type"), space, depth + 1)
        return found

    def _array(self, items: Any, space: str, depth: int) -> list[Any]:
        found: list[Any] = []
        while count := self._block():
            found += [self.value(items, space, depth + 1) for _ in range(count)]
        return found

    def _map(self, values: Any, space: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while count := self._block():
            for _ in range(count):
                key = self._text()
                found[key] = self.value(values, space, depth + 1)
        return found

    def _block(self) -> int:
        """Return how many items come next."""
        count = self._number()
        if count < 0:
            self._number()  # how many bytes they are
        count = abs(count)
        if count > self._steps:
            raise InvalidValue(f"it has more than {STEPS_MAX} values")
        return count

    def _chosen(self, of: list[Any]) -> Any:
        return self._among(of, "branch")

    def _among(self, of: Any, what: str) -> Any:
        index = self._number()
        if not isinstance(of, list) or not 0 <= index < len(of):
            raise InvalidValue(f"expected a {what} of the definition, got number {index}")
        if what == "symbol":
            self._spend(len(str(of[index])))
        return of[index]

    def _text(self) -> str:
        try:
            return self._take(self._number()).decode()
        except UnicodeDecodeError:
            raise InvalidValue(f"expected text in UTF-8 before byte {self.at}") from None

    def _number(self) -> int:
        """Read an integer in zigzag encoding."""
        found = 0
        for place in range(VARINT_BYTES_MAX):
            byte = self._take(1)[0]
            found |= (byte & 0x7F) << 7 * place
            if not byte & 0x80:
                return found >> 1 ^ -(found & 1)
        raise InvalidValue(f"expected a number to end before byte {self.at}")

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._body) - self.at:
            left = len(self._body) - self.at
            raise InvalidValue(f"expected {size} bytes at byte {self.at}, got {left}")
        self.at += size
        return self._body[self.at - size : self.at]

    def _spend(self, characters: int) -> None:
        self._characters -= characters
        if self._characters < 0:
            raise InvalidValue(f"its names are more than {NAMES_CHARACTERS_MAX} characters")


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise InvalidValue("expected a size in the definition")
    return value


def _finite(value: float) -> float | str:
    return value if abs(value) < float("inf") else str(value)


def _logical(of: Mapping[str, Any], value: Any) -> Any:
    """Return a value as its logical type is written; one that does not fit stays as it is."""
    kind = of.get("logicalType")
    if isinstance(value, bytes):
        scale = of.get("scale", 0)
        is_scale = type(scale) is int and 0 <= scale <= DECIMAL_SCALE_MAX
        if kind == "decimal" and is_scale and 0 < len(value) <= DECIMAL_BYTES_MAX:
            return _decimal(int.from_bytes(value, "big", signed=True), scale)
        return f"0x{value.hex()}"
    if type(value) is int:
        try:
            if kind == "date":
                return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
            if isinstance(kind, str) and kind in _TIMES:
                at = EPOCH + timedelta(microseconds=value * _TIMES[kind])
                return at.isoformat().replace("+00:00", "Z")
        except OverflowError:
            return value
    return value


def _decimal(unscaled: int, scale: int) -> str:
    sign, digits = int(unscaled < 0), tuple(map(int, str(abs(unscaled))))
    return f"{Decimal((sign, digits, -scale)):f}"
