"""Compatibility: whether a schema may be attached to a topic that has others.

The rule: a strategy says which schemas must be able to read which, the latest version or all; the
error texts are Pulsar's. Invalid definitions are refused before anything is compared.
"""

import json
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from arneb_core.api.encoding.json_text import InvalidJson, parse_json
from arneb_pulsar.schemas.descriptor import root_message
from arneb_pulsar.schemas.schema import (
    SCHEMA_BYTES_MAX,
    STRUCTURED,
    WITHOUT_DEFINITION,
    Schema,
    SchemaType,
)


class IncompatibleSchema(Exception):
    """The schema may not be attached; the text says why."""


class InvalidSchema(IncompatibleSchema):
    """The definition is invalid: no topic can have it."""


class Strategy(Enum):
    """Pulsar's schema compatibility strategies."""

    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    """New readers understand what was written before."""
    FORWARD = "FORWARD"
    """Old readers understand what will be written."""
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


TRANSITIVE: Final = frozenset(
    {Strategy.BACKWARD_TRANSITIVE, Strategy.FORWARD_TRANSITIVE, Strategy.FULL_TRANSITIVE}
)

READS_OLD: Final = frozenset(
    {
        Strategy.BACKWARD,
        Strategy.BACKWARD_TRANSITIVE,
        Strategy.FULL,
        Strategy.FULL_TRANSITIVE,
    }
)
"""The new one must read what the old ones wrote."""

READ_BY_OLD: Final = frozenset(
    {
        Strategy.FORWARD,
        Strategy.FORWARD_TRANSITIVE,
        Strategy.FULL,
        Strategy.FULL_TRANSITIVE,
    }
)

LATEST_ENOUGH: Final = frozenset(
    {Strategy.BACKWARD, Strategy.FORWARD, Strategy.FORWARD_TRANSITIVE, Strategy.FULL}
)
"""Strategies where a consumer need only read what the latest schema writes."""

NONE_OF_PYTHON: Final = b"null"
"""What the official Python wheel sends as an empty definition."""

WITHOUT_SCHEMA: Final = "Failed to add schema to an active topic with empty(BYTES) schema: "


def check_valid(schema: Schema) -> None:
    """Raise :class:`InvalidSchema` for an invalid definition."""
    name = schema.type.name
    if len(schema.data) > SCHEMA_BYTES_MAX:
        raise InvalidSchema(f"Schema definition longer than {SCHEMA_BYTES_MAX} bytes")
    if schema.type is SchemaType.AUTO_CONSUME:
        raise InvalidSchema("Schema AUTO_CONSUME is a client-side schema type")
    if schema.type in WITHOUT_DEFINITION:
        if schema.data and schema.data != NONE_OF_PYTHON:
            raise InvalidSchema(f"Invalid schema definition data for {name} schema")
    elif schema.type in STRUCTURED:
        parsed = _parse(schema)
        if schema.type is SchemaType.AVRO and parsed.type == "union":
            raise InvalidSchema("Avro schema typed [UNION] is not supported")
    elif schema.type is SchemaType.KEY_VALUE:
        for part in split_key_value(schema):
            if part is not None:
                check_valid(part)
    elif schema.type is SchemaType.PROTOBUF_NATIVE:
        _root_message(schema)


def check_producer(present: Sequence[Schema], new: Schema, strategy: Strategy) -> None:
    """Raise :class:`IncompatibleSchema` unless ``new`` may follow the ``present`` schemas, oldest
    first, of which it is none."""
    if present:
        _check(present if strategy in TRANSITIVE else present[-1:], new, strategy)


def check_consumer(present: Sequence[Schema], new: Schema, strategy: Strategy) -> None:
    """Raise :class:`IncompatibleSchema` unless a consumer may come with ``new``."""
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return
    if not present:
        raise IncompatibleSchema(f"{WITHOUT_SCHEMA}new schema type {new.type.name}")
    if strategy in LATEST_ENOUGH:
        _check(present[-1:], new, Strategy.BACKWARD)
    else:
        _check(present, new, strategy)


def is_same(one: Schema, other: Schema) -> bool:
    """Return whether they mean the same; comments and spaces do not count."""
    if one.type is not other.type:
        return False
    if one.data == other.data:
        return True
    if one.type not in STRUCTURED:
        return False
    return bool(_meaning(one) == _meaning(other))


def split_key_value(schema: Schema) -> tuple[Schema | None, Schema | None]:
    """Return the schemas of key and value, None for plain bytes. Raises :class:`InvalidSchema`."""
    data, parts = schema.data, []
    for _ in range(2):
        size = int.from_bytes(data[:4], "big", signed=True)
        if len(data) < 4 or len(data) < 4 + size:
            raise InvalidSchema("Invalid schema definition data for KEY_VALUE schema")
        parts.append(data[4 : 4 + max(size, 0)])
        data = data[4 + max(size, 0) :]
    key, value = parts
    return _part(schema, "key", key), _part(schema, "value", value)


def _part(schema: Schema, which: str, data: bytes) -> Schema | None:
    kind = schema.properties.get(f"{which}.schema.type", "BYTES")
    if kind == "BYTES":
        return None
    try:
        return Schema(SchemaType[kind], data)
    except KeyError as error:
        raise InvalidSchema(f"Unknown {which} schema type {kind}") from error


def _check(present: Sequence[Schema], new: Schema, strategy: Strategy) -> None:
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return
    for old in present:
        if old.type is not new.type:
            raise IncompatibleSchema(
                f"Incompatible schema: exists schema type {old.type.name},"
                f" new schema type {new.type.name}"
            )
    if (
        all(old.data == new.data for old in present)
        and strategy is not Strategy.ALWAYS_INCOMPATIBLE
    ):
        return
    if new.type in STRUCTURED:
        for old in present:
            _check_structures(old, new, strategy)
    elif new.type is SchemaType.KEY_VALUE:
        for old in present:
            _check_key_values(old, new, strategy)
    elif strategy is Strategy.ALWAYS_INCOMPATIBLE:
        raise IncompatibleSchema("Schema compatibility strategy is ALWAYS_INCOMPATIBLE")
    elif new.type is SchemaType.PROTOBUF_NATIVE:
        _check_root_messages(present, new, strategy)


def _check_root_messages(present: Sequence[Schema], new: Schema, strategy: Strategy) -> None:
    root = _root_message(new)
    for old in present:
        if (before := _root_message(old)) != root:
            raise IncompatibleSchema(
                "Protobuf root message change is not allowed under the"
                f" '{strategy.value}' strategy. Original message name: '{before}',"
                f" new message name: '{root}'."
            )


def _root_message(schema: Schema) -> str:
    try:
        return root_message(schema.data)
    except ValueError as error:
        text = f"Invalid schema definition data for {schema.type.name} schema: {error}"
        raise InvalidSchema(text) from error


def _check_structures(old: Schema, new: Schema, strategy: Strategy) -> None:
    before, after = _parse(old), _parse(new)
    if before is None or after is None:
        return  # JSON schemas of a form older than Avro's; Pulsar accepts them
    from arneb_pulsar.schemas.resolution import can_read

    if strategy is Strategy.ALWAYS_INCOMPATIBLE:
        raise _unreadable(old, new, strategy)
    if strategy in READ_BY_OLD and not can_read(before, after):
        raise _unreadable(new, old, strategy)
    if strategy in READS_OLD and not can_read(after, before):
        raise _unreadable(old, new, strategy)


def _check_key_values(old: Schema, new: Schema, strategy: Strategy) -> None:
    parts = list(zip(split_key_value(old), split_key_value(new), strict=True))
    if any((before and before.type) is not (after and after.type) for before, after in parts):
        (key, new_key), (value, new_value) = ((_kind(a), _kind(b)) for a, b in parts)
        raise IncompatibleSchema(
            "Key schemas or Value schemas are different schema type,"
            f" from key schema type is {key} and to key schema is {new_key},"
            f" from value schema is {value} and to value schema is {new_value}"
        )
    for before, after in parts:
        if before is not None and after is not None:
            _check([before], after, strategy)


def _kind(part: Schema | None) -> str:
    return "BYTES" if part is None else part.type.name


def _unreadable(written: Schema, read: Schema, strategy: Strategy) -> IncompatibleSchema:
    return IncompatibleSchema(
        f"Error during schema compatibility check with strategy {strategy.value}: "
        "org.apache.avro.SchemaValidationException: Unable to read schema: \n"
        f"{_pretty(written)}\nusing schema:\n{_pretty(read)}"
    )


def _pretty(schema: Schema) -> str:
    return json.dumps(json.loads(schema.data), indent=2)


def _parse(schema: Schema) -> Any:
    """Return the Avro schema in a definition; None for a JSON schema that is not Avro's. Raises
    :class:`InvalidSchema`."""
    # Imported here, so that only brokers with schemas pay for it.
    from avro.errors import AvroException
    from avro.schema import parse

    try:
        parse_json(schema.data)  # avro accepts what can be neither shown nor stored
        return parse(schema.data.decode(), validate_names=False)
    except (AvroException, ValueError, TypeError, AttributeError, RecursionError) as error:
        if schema.type is SchemaType.JSON and _is_json_object(schema.data):
            return None
        text = f"Invalid schema definition data for {schema.type.name} schema"
        raise InvalidSchema(text) from error


def _is_json_object(data: bytes) -> bool:
    try:
        return isinstance(parse_json(data), dict)
    except InvalidJson:
        return False


def _meaning(schema: Schema) -> Any:
    """Return a definition without parts that mean nothing."""
    parsed = _parse(schema)
    found = json.loads(schema.data) if parsed is None else parsed.to_json()
    return _each(found, lambda table: {k: v for k, v in table.items() if k != "doc"})


def _each(value: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    if isinstance(value, dict):
        return {key: _each(each, change) for key, each in change(dict(value)).items()}
    if isinstance(value, list | tuple):
        return [_each(each, change) for each in value]
    return value
