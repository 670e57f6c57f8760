"""Settings: one TOML table read into one frozen dataclass.

The rule: a dataclass is the whole description of its table. Its fields are the keys that
may occur, their types decide what a value may be, their defaults fill what is absent, and
its ``__post_init__`` refuses values that do not go together. A field ``tuple[X, ...]`` is a list
of values or tables. A key that no field names is
an error that suggests the nearest one, because a setting that is silently ignored is worse
than one that is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from math import isfinite
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

Settings = TypeVar("Settings")

Reader = Callable[[Any], Any]
"""Turns a TOML value into a field's value; raises :class:`ValueError` saying what was expected."""


class ConfigInvalid(Exception):
    """The configuration cannot be used; the text is one line for the user."""


def read_settings(
    cls: type[Settings], table: Mapping[str, Any], readers: Mapping[Any, Reader], where: str = ""
) -> Settings:
    """Return the settings in ``table``.

    ``readers`` holds one reader for each field type that is neither a TOML type nor another
    dataclass. ``where`` is the table's own dotted name, for messages. Raises
    :class:`ConfigInvalid`.
    """
    assert is_dataclass(cls)
    types = get_type_hints(cls)
    known = [field.name for field in fields(cls)]
    table = by_our_names(cls, table, where)
    for key in table:
        if key not in types:
            raise ConfigInvalid(_unknown(_dotted(where, key), key, known, where))
    values = {
        key: _read(types[key], value, readers, _dotted(where, key)) for key, value in table.items()
    }
    absent = [
        field.name
        for field in fields(cls)
        if field.default is MISSING and field.default_factory is MISSING and field.name not in table
    ]
    if absent:
        raise ConfigInvalid(f'"{_dotted(where, absent[0])}" is missing')
    try:
        return cls(**values)
    except ValueError as error:
        raise ConfigInvalid(f"{where}: {error}" if where else str(error)) from error


ALSO: Final = "also"
"""The metadata item of a field that gives the other name of its key, known from another broker."""


def by_our_names(cls: Any, table: Mapping[str, Any], where: str = "") -> Mapping[str, Any]:
    """Return the table, and the tables in it, with our names for their keys. Raises
    :class:`ConfigInvalid`."""
    ours = {field.metadata[ALSO]: field.name for field in fields(cls) if ALSO in field.metadata}
    for key in ours.keys() & table.keys():
        if ours[key] in table:
            both = f'"{_dotted(where, ours[key])}" and "{_dotted(where, key)}"'
            raise ConfigInvalid(f"{both} are one key; it is given twice")
    types = get_type_hints(cls)
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = ours.get(key, key)
        kind = types.get(name)
        if is_dataclass(kind) and isinstance(value, Mapping):
            value = by_our_names(kind, value, _dotted(where, key))
        found[name] = value
    return found


def _read(kind: Any, value: Any, readers: Mapping[Any, Reader], where: str) -> Any:
    if kind in readers:
        try:
            return readers[kind](value)
        except ValueError as error:
            raise ConfigInvalid(f"{where}: {error}") from error
    if is_dataclass(kind):
        if not isinstance(value, dict):
            raise ConfigInvalid(f"{where}: expected a table, got {_shown(value)}")
        assert isinstance(kind, type)
        return read_settings(kind, value, readers, where)
    if get_origin(kind) is tuple:
        item, _ = get_args(kind)
        if not isinstance(value, list):
            raise ConfigInvalid(f"{where}: expected a list, got {_shown(value)}")
        return tuple(_read(item, each, readers, f"{where}[{i}]") for i, each in enumerate(value))
    expected = _TOML_TYPES[kind]
    # bool is a subclass of int, but ``port = true`` is not a number in TOML.
    if type(value) is kind or (kind is float and type(value) is int):
        if _fits(value):
            return kind(value)
        expected = _BOUNDED[kind]
    raise ConfigInvalid(f"{where}: expected {expected}, got {_shown(value)}")


def _fits(value: Any) -> bool:
    """Whether a number, if it is one, can be stored, sent and waited for."""
    if type(value) is int:
        return -WHOLE_NUMBERS <= value < WHOLE_NUMBERS
    return type(value) is not float or isfinite(value)


_TOML_TYPES: Final[Mapping[Any, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}

_BOUNDED: Final[Mapping[Any, str]] = {
    int: "a whole number of at most 64 bits",
    float: "a finite number",
}

WHOLE_NUMBERS: Final = 1 << 63
"""Those of TOML have 64 bits, one of them for the sign."""


def _unknown(dotted: str, key: str, known: list[str], where: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(key, known, n=1, cutoff=0.5)
    if near:
        return f'unknown key "{dotted}"; did you mean "{_dotted(where, near[0])}"?'
    return f'unknown key "{dotted}"; known here: {", ".join(sorted(known))}'


def _dotted(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."
