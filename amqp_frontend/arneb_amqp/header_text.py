"""A typed header as text and back: how field values travel where only strings can.

The rule: the text is what a person would write (``5``, ``true``, ``2.5``), and a type name beside
it restores the exact field. Types have RabbitMQ's names; only strings that are not UTF-8 have a
name of their own. The table is in ``docs/internals/translation.md``.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final

from arneb_amqp.wire.tables import (
    INTEGER_TYPES,
    Decimal,
    Field,
    FieldType,
    FieldValue,
    encode_table,
)

PLAIN: Final = "longstr"
"""The type of a string, which need not be named."""

OCTETS: Final = "longstr/base64"
"""The type name of a string that is not UTF-8."""

_TYPES: Final = {kind.erlang_name: kind for kind in FieldType} | {OCTETS: FieldType.LONGSTR}
_WHOLE: Final = INTEGER_TYPES | {FieldType.TIMESTAMP}


def text_of(field: Field) -> tuple[str, str]:
    """Return the text of ``field`` and the name of its type."""
    name, value = _to_json(field)
    match value:
        case None:
            return "", name
        case bool():
            return str(value).lower(), name
        case list() | dict():
            return json.dumps(value, separators=(",", ":")), name
        case _:
            return str(value), name


def field_of(text: str, type_name: str) -> Field:
    """Return the field that :func:`text_of` turned into these two.

    Raises :class:`ValueError` when the text is not a value of that type.
    """
    kind = _TYPES.get(type_name)
    if kind is None:
        raise ValueError(f"expected the name of a field type, got {type_name!r}")
    try:
        field = _from_json([type_name, _parsed(kind, text)])
        encode_table({"": field})
    except (TypeError, RecursionError) as problem:
        raise ValueError(f"expected a {type_name}, got {text[:40]!r}") from problem
    return field


def _parsed(kind: FieldType, text: str) -> object:
    """Return ``text`` as the JSON value of a field of that type."""
    match kind:
        case FieldType.LONGSTR | FieldType.BINARY | FieldType.DECIMAL:
            return text
        case FieldType.BOOL:
            return {"true": True, "false": False}.get(text)
        case FieldType.VOID:
            return text or None
        case FieldType.FLOAT | FieldType.DOUBLE:
            return float(text)
        case FieldType.TABLE | FieldType.ARRAY:
            return json.loads(text)
        case _:
            return int(text)


def _to_json(field: Field) -> tuple[str, object]:
    """Return a field as its type name and a JSON value."""
    kind, value = field
    name = kind.erlang_name
    match value:
        case bytes() if kind is FieldType.BINARY:
            return name, b64encode(value).decode()
        case bytes():
            try:
                return name, value.decode()
            except UnicodeDecodeError:
                return OCTETS, b64encode(value).decode()
        case Decimal(scale, unscaled):
            return name, f"{unscaled}e-{scale}"
        case tuple():
            return name, [_to_json(inner) for inner in value]
        case Mapping():
            return name, {key: _to_json(inner) for key, inner in value.items()}
        case _:
            return name, value


def _from_json(pair: object) -> Field:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise ValueError(f"expected a type name and a value, got {pair!r}")
    name, value = pair
    kind = _TYPES.get(name)
    if kind is None:
        raise ValueError(f"expected the name of a field type, got {name!r}")
    return Field(kind, _value(kind, name, value))


def _value(kind: FieldType, name: str, value: object) -> FieldValue:
    match kind, value:
        case FieldType.LONGSTR, str() if name == PLAIN:
            return value.encode()
        case ((FieldType.LONGSTR | FieldType.BINARY), str()):
            return b64decode(value, validate=True)
        case FieldType.DECIMAL, str():
            unscaled, _, scale = value.partition("e-")
            return Decimal(int(scale), int(unscaled))
        case FieldType.TABLE, dict():
            return {key: _from_json(inner) for key, inner in value.items()}
        case FieldType.ARRAY, list():
            return tuple(_from_json(inner) for inner in value)
        case FieldType.BOOL, bool():
            return value
        case FieldType.VOID, None:
            return None
        case ((FieldType.FLOAT | FieldType.DOUBLE), float()):
            return value
        case _, int() if kind in _WHOLE and not isinstance(value, bool):
            return value
        case _:
            raise ValueError(f"expected a {name}, got {value!r}")
