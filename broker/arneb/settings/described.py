"""Described settings: every key of the configuration file with its type, default and meaning.

The rule: a key is described once, by the docstring beneath its field in the class that reads it.
The settings page and ``arneb init`` are made from that.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

from arneb.settings.config import Address, Config, Listen
from arneb.settings.table import ALSO

GROUPED_MIN: Final = 10_000
"""Numbers from here on are written in groups of three digits, to be easier to read."""

TYPES: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    Listen: '`"HOST:PORT"` or `"off"`',
}


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table."""

    name: str
    type: str
    default: str
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the file; ``name`` is empty for the keys before all tables."""

    name: str
    is_list: bool
    text: str
    keys: tuple[Key, ...]


def described_tables(
    kind: type[Any] = Config, name: str = "", text: str = "", *, is_list: bool = False
) -> Iterator[Table]:
    """Yield the table of ``kind`` and those below it, in the order of its fields; ``text`` precedes
    the class's own docstring."""
    assert is_dataclass(kind)
    types, keys, below = get_type_hints(kind), list[Key](), list[Table]()
    for field in sorted(fields(kind), key=lambda field: field.name != "listen"):
        of, dotted = types[field.name], f"{name}.{field.name}".lstrip(".")
        item = get_args(of)[0] if get_origin(of) is tuple else None
        if is_dataclass(of):
            assert isinstance(of, type)
            below += described_tables(of, dotted, field_text(kind, field.name, ""))
        elif item is not None and is_dataclass(item):
            assert isinstance(item, type)
            below += described_tables(item, dotted, field_text(kind, field.name), is_list=True)
        else:
            default = "required" if field.default is MISSING else in_toml(field.default)
            keys.append(Key(field.name, type_of(of), default, _text(kind, field)))
    yield Table(name, is_list, f"{text} {table_text(kind)}".strip(), tuple(keys))
    yield from below


def _text(kind: type[Any], field: Field[Any]) -> str:
    """Return a key's description, with its other name appended unless the text contains it."""
    text, other = field_text(kind, field.name), field.metadata.get(ALSO, "")
    return text if not other or other in text else f"{text} Pulsar's `{other}`."


def type_of(kind: Any) -> str:
    """Return the type of a value, in words."""
    if kind in TYPES:
        return TYPES[kind]
    if get_origin(kind) is tuple:
        return f"list of {type_of(get_args(kind)[0])}"
    assert issubclass(kind, Enum), f"expected a type with a name for people, got {kind}"
    return " or ".join(f'`"{each.value}"`' for each in kind)


def in_toml(value: Any) -> str:
    """Return a default as it would be written in the file."""
    if value is None:
        return '`"off"`'
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, int):
        return f"`{value:_}`" if abs(value) >= GROUPED_MIN else f"`{value}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    if isinstance(value, Enum):
        return in_toml(value.value)
    if isinstance(value, tuple):
        return f"`[{', '.join(in_toml(each).strip('`') for each in value)}]`"
    if isinstance(value, Path) and value == Path():
        return "none"
    assert isinstance(value, str | Path | Address), f"expected what TOML can say, got {value!r}"
    return f'`"{value}"`'


def field_text(kind: type[Any], name: str, default: str | None = None) -> str:
    """Return the docstring beneath a field, in the class that declares it."""
    for each in kind.__mro__:
        if name in vars(each).get("__annotations__", {}):
            text = field_texts(each).get(name, default)
            assert text is not None, f"expected a docstring beneath {each.__name__}.{name}"
            return text
    raise KeyError(f"{kind.__name__} has no field {name}")


@cache
def field_texts(kind: type[Any]) -> Mapping[str, str]:
    """Return the docstrings beneath the fields that one class declares."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            assert isinstance(field.target, ast.Name)
            assert isinstance(below.value, ast.Constant)
            found[field.target.id] = in_markdown(str(below.value.value))
    return found


def table_text(kind: type[Any]) -> str:
    """Return a class's docstring without the sentences for programmers."""
    text = in_markdown(inspect.getdoc(kind) or "")
    return " ".join(each for each in re.split(r"(?<=\.)\s+", text) if "Raises" not in each)


def in_markdown(text: str) -> str:
    """Return a docstring as one paragraph of Markdown."""
    plain = re.sub(r":\w+:`[.~!]?([^`]+)`", r"`\1`", text)
    return " ".join(plain.replace("``", "`").split())
