"""JSON and field tables, converted into each other as RabbitMQ's HTTP API does.

The rule: values from JSON get the types that RabbitMQ gives them (texts become long strings, whole
numbers 64-bit integers); values to JSON lose their type and are easy to read.
"""

from collections.abc import Mapping
from typing import Any

from arneb_amqp.errors import AmqpError
from arneb_amqp.wire.tables import (
    Decimal,
    Field,
    FieldType,
    Table,
    array,
    boolean,
    encode_table,
    long,
    longstr,
    table,
)


def table_to_json(fields: Table) -> dict[str, Any]:
    """Return a table as a JSON object."""
    return {text_to_json(name): _to_json(each) for name, each in fields.items()}


def text_to_json(text: str | bytes) -> str:
    """Return text as valid Unicode, undecodable octets replaced."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace")


def table_from_json(value: Mapping[str, Any]) -> dict[str, Field]:
    """Return a JSON object as a table. Raises :class:`ValueError` for what no table can hold."""
    found = {name: _from_json(each) for name, each in value.items()}
    try:
        encode_table(found)
    except AmqpError as error:
        raise ValueError(error.explanation) from error
    return found


def _to_json(field: Field) -> Any:
    kind, value = field
    match value:
        case bytes():
            return text_to_json(value)
        case Decimal():
            return value[1] / 10 ** value[0]
        case tuple():
            return [_to_json(each) for each in value]
        case Mapping():
            return table_to_json(value)
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)  # JSON has no such numbers
    return None if kind is FieldType.VOID else value


def _from_json(value: Any) -> Field:
    match value:
        case bool():
            return boolean(value)
        case int():
            if not -(1 << 63) <= value < 1 << 63:
                raise ValueError(f"expected a number of 64 bits, got {value}")
            return long(value)
        case float():
            return Field(FieldType.DOUBLE, value)
        case str():
            return longstr(value)
        case list():
            return array([_from_json(each) for each in value])
        case dict():
            return table({name: _from_json(each) for name, each in value.items()})
    raise ValueError("null_not_allowed")
