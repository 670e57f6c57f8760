"""Shown settings: the configuration as values for people and JSON, without secrets.

The rule: a setting's name tells whether it is a secret, which is then hidden in every table; so are
user and password in a URL.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

HIDDEN: Final = "[hidden]"

SECRET_WORDS: Final = frozenset({"password", "secret", "token", "passphrase"})
"""A setting whose name contains one of these words holds a secret, unless it names a file."""


def shown_settings(config: Any) -> Mapping[str, Any]:
    """Return every setting by its name, in nested tables."""
    return {each.name: _shown(each.name, getattr(config, each.name)) for each in fields(config)}


def is_secret(name: str) -> bool:
    """Whether a setting of this name must not be shown."""
    return not SECRET_WORDS.isdisjoint(name.lower().replace("-", "_").split("_"))


def _shown(name: str, value: Any) -> Any:
    match value:
        case Path():
            return "" if value == Path() else str(value)
        case Enum():
            return value.value
        case tuple():
            return [_shown(name, each) for each in value]
        case str() if is_secret(name) and value:
            return HIDDEN
        case str():
            return without_user(value)
        case bool() | int() | float() | None:
            return value
    if is_dataclass(value) and hasattr(value, "host"):
        return str(value)
    return shown_settings(value)


def without_user(text: str) -> str:
    """Return a URL without its user and password; any other text unchanged."""
    if "@" not in text or "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return HIDDEN
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
