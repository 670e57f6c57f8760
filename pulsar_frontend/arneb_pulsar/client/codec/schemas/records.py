"""Records: Avro definitions of dataclasses, and their values as plain dicts and lists.

The rule: the dataclass determines the definition: the record has its fields in their order;
``X | None`` is a union with null; a field's default becomes the definition's, which is used when
older data is read. A definition is made once for each class.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from arneb_pulsar.client.errors import ConfigurationError, SchemaError

Definition = dict[str, Any]
"""An Avro record definition in its JSON form."""

PRIMITIVES: Final[dict[type, Any]] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    NoneType: "null",
    datetime: {"type": "long", "logicalType": "timestamp-millis"},
    date: {"type": "int", "logicalType": "date"},
    UUID: {"type": "string", "logicalType": "uuid"},
}

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
EPOCH_DAY: Final = EPOCH.date()


def definition_text(record: type | Definition) -> str:
    """Return the definition of a dataclass, or a given definition, as the text that brokers keep
    and compare. Raises :class:`ConfigurationError` for a type that has no definition."""
    if isinstance(record, type):
        return _text_of(record)
    return json.dumps(record)


@cache
def _text_of(cls: type) -> str:
    if not dataclasses.is_dataclass(cls):
        raise ConfigurationError(f"expected a dataclass or a definition, got {cls!r}")
    return json.dumps(_record(cls, set()))


def _record(cls: type, named: set[type]) -> Any:
    if cls in named:
        return cls.__name__
    named.add(cls)
    hints = get_type_hints(cls)
    fields = []
    for each in dataclasses.fields(cls):
        kind = hints[each.name]
        default = _default(each, cls)
        made: dict[str, Any] = {"name": each.name, "type": _type(kind, named, cls, default)}
        if default is not dataclasses.MISSING:
            made["default"] = default
        fields.append(made)
    return {"type": "record", "name": cls.__name__, "fields": fields}


def _default(field: "dataclasses.Field[Any]", cls: type) -> Any:
    if field.default is not dataclasses.MISSING:
        return _plain_default(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return _plain_default(field.default_factory())
    return dataclasses.MISSING


def _plain_default(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")  # Avro's form of bytes in definitions
    return to_json(value)


def _type(kind: Any, named: set[type], where: type, default: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        branches = [_type(each, named, where, dataclasses.MISSING) for each in arguments]
        # A default belongs to the first branch.
        branches.sort(key=lambda branch: (branch == "null") != (default is None))
        if default is dataclasses.MISSING:
            branches.sort(key=lambda branch: branch != "null")
        return branches
    if origin is list:
        return {"type": "array", "items": _type(arguments[0], named, where, dataclasses.MISSING)}
    if origin is dict and arguments[0] is str:
        return {"type": "map", "values": _type(arguments[1], named, where, dataclasses.MISSING)}
    if kind in PRIMITIVES:
        return PRIMITIVES[kind]
    if isinstance(kind, type) and issubclass(kind, Enum):
        if kind in named:
            return kind.__name__
        named.add(kind)
        return {"type": "enum", "name": kind.__name__, "symbols": [each.name for each in kind]}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _record(kind, named)
    raise ConfigurationError(f"expected a type that Avro knows in {where.__name__}, got {kind!r}")


def to_plain(value: Any) -> Any:
    """Return a dataclass's value as dicts and lists, for Avro's writer."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            each.name: to_plain(getattr(value, each.name)) for each in dataclasses.fields(value)
        }
    return _inside(value, to_plain)


def to_json(value: Any) -> Any:
    """Return the same for JSON: times are numbers, as Java's client writes them."""
    if isinstance(value, datetime):
        return round((value - EPOCH) / timedelta(milliseconds=1))
    if isinstance(value, date):
        return (value - EPOCH_DAY).days
    if isinstance(value, UUID):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: to_json(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return _inside(value, to_json)


def _inside(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, list | tuple):
        return [change(each) for each in value]
    if isinstance(value, dict):
        return {key: change(each) for key, each in value.items()}
    return value


def from_plain(kind: Any, value: Any) -> Any:
    """Return the value of type ``kind`` from the output of :func:`to_plain` or :func:`to_json`.
    Raises :class:`SchemaError` if it is of another type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return _from_union(arguments, value)
    if origin is list:
        return [from_plain(arguments[0], each) for each in _expect(list, value)]
    if origin is dict:
        return {key: from_plain(arguments[1], each) for key, each in _expect(dict, value).items()}
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _from_record(kind, _expect(dict, value))
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind[value]
        except KeyError as error:
            raise SchemaError(
                f"expected one of {[each.name for each in kind]}, got {value!r}"
            ) from error
    return _from_primitive(kind, value)


def _from_record(cls: type, value: Mapping[str, Any]) -> Any:
    hints = get_type_hints(cls)
    names = [each.name for each in dataclasses.fields(cls) if each.init]
    made = {name: from_plain(hints[name], value[name]) for name in names if name in value}
    try:
        return cls(**made)
    except TypeError as error:
        raise SchemaError(f"expected the fields of {cls.__name__}, got {sorted(value)}") from error


def _from_union(kinds: tuple[Any, ...], value: Any) -> Any:
    causes = []
    for kind in kinds:
        try:
            return from_plain(kind, value)
        except SchemaError as error:
            causes.append(str(error))
    raise SchemaError("; ".join(causes))


def _from_primitive(kind: type, value: Any) -> Any:
    if kind is datetime and isinstance(value, int):
        return EPOCH + timedelta(milliseconds=value)
    if kind is date and isinstance(value, int):
        return EPOCH_DAY + timedelta(days=value)
    if kind is UUID and isinstance(value, str):
        return UUID(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, bool):
        raise SchemaError(f"expected int, got {value!r}")
    return _expect(kind, value)


def _expect(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise SchemaError(f"expected {kind.__name__}, got {value!r:.80}")
    return value
