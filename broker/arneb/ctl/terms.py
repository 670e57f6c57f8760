"""Terms: values as ``rabbitmqctl`` writes them, in tables, in JSON and as Erlang.

The rule: a value's class says what it is (an AMQP table, an address, tags), and each form is chosen
by it; texts in tables are written as they are.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final

SIGNED_INT_MAX: Final = 2**31

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class AmqpTable:
    """Arguments, as the management API shows them."""

    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Names:
    """Tags and the like: atoms in Erlang."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address, or a text in its place."""

    text: str


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a protocol."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Atom:
    """One of RabbitMQ's own words: an atom in Erlang."""

    name: str


def in_table(value: Any) -> str:
    """Return a value as a table shows it."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case AmqpTable():
            return _fields_as_erlang(value.fields)
        case Names():
            return f"[{', '.join(value.names)}]"
        case Address():
            return value.text
        case Atom():
            return value.name
        case Version():
            return "{" + ",".join(map(str, value.numbers)) + "}"
        case dict():
            return "#{" + ", ".join(f"{k} => {in_table(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(in_table, value)) + "]"
    return str(value)


def in_json(value: Any) -> Any:
    """Return a value for :mod:`json`."""
    match value:
        case None:
            return ""
        case AmqpTable():
            return [[name, *_typed(each)] for name, each in value.fields.items()]
        case Names():
            return list(value.names)
        case Address():
            return _numbers(value.text)
        case Atom():
            return value.name
        case Version():
            return list(value.numbers)
    return value


def as_erlang(value: Any) -> str:
    """Return a value as an Erlang term."""
    match value:
        case None:
            return "''"
        case bool():
            return "true" if value else "false"
        case str():
            suffix = "" if value.isascii() else "/utf8"
            return f"<<{quoted(value)}{suffix}>>"
        case AmqpTable():
            triples = (
                f"{{<<{quoted(name)}>>,{kind},{as_erlang(each)}}}"
                for name, (kind, each) in (
                    (name, _typed(each)) for name, each in value.fields.items()
                )
            )
            return f"[{','.join(triples)}]"
        case Names():
            return f"[{','.join(value.names)}]"
        case Address():
            found = _numbers(value.text)
            return "{" + ",".join(map(str, found)) + "}" if isinstance(found, list) else value.text
        case Atom():
            return value.name
        case Version():
            return in_table(value)
        case dict():
            inner = (f"<<{quoted(k)}>> => {as_erlang(v)}" for k, v in value.items())
            return "#{" + ",".join(inner) + "}"
        case list():
            return "[" + ",".join(map(as_erlang, value)) + "]"
    return json.dumps(value)


def quoted(text: str) -> str:
    """Return a text as an Erlang string."""
    return '"' + "".join(_ESCAPES.get(each, each) for each in text) + '"'


def _fields_as_erlang(fields: Mapping[str, Any]) -> str:
    """Return pairs without types, as tables show them."""
    return (
        "[" + ",".join(f"{{{quoted(name)},{_bare(each)}}}" for name, each in fields.items()) + "]"
    )


def _bare(value: Any) -> str:
    match value:
        case str():
            return quoted(value)
        case dict():
            return _fields_as_erlang(value)
        case list():
            return "[" + ",".join(map(_bare, value)) + "]"
        case bool():
            return "true" if value else "false"
        case None:
            return "undefined"
    return str(value)


def _typed(value: Any) -> list[Any]:
    """Return type and value, as far as JSON tells the type."""
    match value:
        case bool():
            return ["bool", value]
        case int():
            return ["signedint" if -SIGNED_INT_MAX <= value < SIGNED_INT_MAX else "long", value]
        case float():
            return ["double", value]
        case dict():
            return ["table", [[name, *_typed(each)] for name, each in value.items()]]
        case list():
            return ["array", [_typed(each) for each in value]]
        case None:
            return ["void", "undefined"]
    return ["longstr", value]


def _numbers(text: str) -> list[int] | str:
    try:
        address = ip_address(text)
    except ValueError:
        return text
    match address:
        case IPv4Address():
            return list(address.packed)
        case IPv6Address():
            packed = address.packed
            return [packed[i] << 8 | packed[i + 1] for i in range(0, 16, 2)]
