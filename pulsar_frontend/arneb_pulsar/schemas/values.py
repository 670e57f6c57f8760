"""Values: a message's body, decoded by its schema for people to read.

The rule: bodies and definitions may be hostile. So each value is read by code whose steps, depth
and text are counted; what is too large, or does not fit its definition, is refused with the reason.
"""

import json
import struct
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, Final

from arneb_pulsar.schemas.avro_value import InvalidValue, read_avro
from arneb_pulsar.schemas.compatibility import IncompatibleSchema, split_key_value
from arneb_pulsar.schemas.schema import Schema, SchemaType

KEY_VALUE_ENCODING: Final = "kv.encoding.type"
SEPARATED: Final = "SEPARATED"
"""The key is the message's key, and the body is the value alone."""

LENGTH: Final = Struct(">i")
NULL: Final = -1

_NUMBERS: Final[Mapping[SchemaType, Struct]] = {
    SchemaType.INT8: Struct(">b"),
    SchemaType.INT16: Struct(">h"),
    SchemaType.INT32: Struct(">i"),
    SchemaType.INT64: Struct(">q"),
    SchemaType.FLOAT: Struct(">f"),
    SchemaType.DOUBLE: Struct(">d"),
    SchemaType.DATE: Struct(">q"),
    SchemaType.TIME: Struct(">q"),
    SchemaType.TIMESTAMP: Struct(">q"),
}

READABLE: Final = frozenset(
    {
        SchemaType.AVRO,
        SchemaType.JSON,
        SchemaType.STRING,
        SchemaType.BOOLEAN,
        SchemaType.KEY_VALUE,
        *_NUMBERS,
    }
)
"""Schema types by which a body is decoded; with others it is shown as bytes."""


def value_text(schema: Schema, body: bytes, key: bytes | None = None) -> str:
    """Return a body as JSON. Raises :class:`InvalidValue`."""
    return json.dumps(_value(schema, body, key), ensure_ascii=False, indent=2)


def _value(schema: Schema, body: bytes, key: bytes | None) -> Any:
    match schema.type:
        case SchemaType.AVRO:
            return read_avro(schema.data, body)
        case SchemaType.STRING:
            return _text(body)
        case SchemaType.JSON:
            return _json(body)
        case SchemaType.BOOLEAN:
            if body not in (b"\0", b"\1"):
                raise InvalidValue(f"expected a byte 0 or 1, got {len(body)} bytes")
            return body == b"\1"
        case SchemaType.KEY_VALUE:
            return _pair(schema, body, key)
    if (number := _NUMBERS.get(schema.type)) is not None:
        return _unpacked(number, body)
    raise InvalidValue(f"a body by a schema {schema.type.name} is shown as bytes")


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise InvalidValue(f"expected text in UTF-8: {error.reason}") from None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"expected JSON: {str(error)[:200]}") from None


def _unpacked(number: Struct, body: bytes) -> Any:
    try:
        (found,) = number.unpack(body)
    except struct.error:
        raise InvalidValue(f"expected {number.size} bytes, got {len(body)}") from None
    return found if found == found and abs(found) != float("inf") else str(found)


def _pair(schema: Schema, body: bytes, key: bytes | None) -> Any:
    try:
        key_schema, value_schema = split_key_value(schema)
    except IncompatibleSchema as error:
        raise InvalidValue(str(error)) from None
    value: bytes | None = body
    if schema.properties.get(KEY_VALUE_ENCODING) != SEPARATED:
        key, rest = _part(body)
        value, rest = _part(rest)
        if rest:
            raise InvalidValue(f"expected the end of a pair, got {len(rest)} bytes more")
    return {"key": _half(key_schema, key), "value": _half(value_schema, value)}


def _half(schema: Schema | None, data: bytes | None) -> Any:
    if data is None:
        return None
    read: Callable[[bytes], Any] = _text if schema is None else lambda of: _value(schema, of, None)
    return read(data)


def _part(data: bytes) -> tuple[bytes | None, bytes]:
    """Return the first part of a pair, and what follows it."""
    if len(data) < LENGTH.size:
        raise InvalidValue("expected the length of a part of a pair")
    (length,) = LENGTH.unpack_from(data)
    rest = data[LENGTH.size :]
    if length == NULL:
        return None, rest
    if not 0 <= length <= len(rest):
        raise InvalidValue(f"expected a part of {length} bytes, got {len(rest)}")
    return rest[:length], rest[length:]
