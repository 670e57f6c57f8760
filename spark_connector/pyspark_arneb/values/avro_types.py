"""Avro's types as Arrow types.

The rule: a type that Arrow and Spark can represent stays itself, also inside others; a union of
null and one type becomes that type; any other union is refused, with its place in the definition.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

_PRIMITIVES: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_LOGICAL: Final[Mapping[str, pa.DataType]] = {
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "uuid": pa.string(),
}


def arrow_type(definition: bytes) -> pa.DataType:
    """Return the type of a definition's values. Raises :class:`ValueError`, with a reason in one
    line."""
    try:
        schema = json.loads(definition)
    except ValueError as problem:
        raise ValueError(f"expected an Avro definition in JSON: {problem}") from None
    return _type(schema, {}, "the value")


def _type(schema: Any, named: dict[str, pa.DataType], where: str) -> pa.DataType:
    match schema:
        case str() if schema in _PRIMITIVES:
            return _PRIMITIVES[schema]
        case str() if schema in named:
            return named[schema]
        case list():
            return _union(schema, named, where)
        case {"logicalType": "decimal", "precision": int(precision)}:
            return pa.decimal128(precision, schema.get("scale", 0))
        case {"logicalType": str(logical)} if logical in _LOGICAL:
            return _LOGICAL[logical]
        case {"type": "record" | "error", "name": str(name), "fields": list(fields)}:
            return _record(name, fields, named, where)
        case {"type": "enum", "name": str(name)}:
            named[name] = pa.string()
            return named[name]
        case {"type": "fixed", "name": str(name)}:
            named[name] = pa.binary()
            return named[name]
        case {"type": "array", "items": items}:
            return pa.list_(_type(items, named, f"{where}[]"))
        case {"type": "map", "values": values}:
            return pa.map_(pa.string(), _type(values, named, f"{where}[]"))
        case {"type": inner} if not isinstance(inner, dict) or inner != schema:
            return _type(inner, named, where)
    raise ValueError(f"expected a known type of {where}, got {json.dumps(schema)[:60]}")


def _record(
    name: str, fields: Sequence[Any], named: dict[str, pa.DataType], where: str
) -> pa.DataType:
    found: list[tuple[str, pa.DataType]] = []
    for field in fields:
        place = field["name"] if where == "the value" else f"{where}.{field['name']}"
        kind = _type(field["type"], named, place)
        found.append((field["name"], pa.string() if kind == pa.null() else kind))
    named[name] = pa.struct(found)
    return named[name]


def _union(branches: Sequence[Any], named: dict[str, pa.DataType], where: str) -> pa.DataType:
    others = [branch for branch in branches if branch != "null"]
    if len(others) != 1:
        raise ValueError(
            f"expected a union of null and one type of {where}, got {len(others)} types: read the "
            'values as they are, with valueAs "binary" or "string"'
        )
    return _type(others[0], named, where)
