"""Shown settings: the configuration as values for people and JSON, without what nobody may see.

The rule: a secret is known by the name of its setting, and hidden wherever it stands; so is what a
URL says of a user.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

HIDDEN: Final = "[hidden]"

SECRET_WORDS: Final = frozenset({"password", "secret", "token", "passphrase"})
"""A setting one of whose words is one of these holds a secret, unless it names a file."""


def shown_settings(config: Any) -> Mapping[str, Any]:
    """Every setting by its name, tables in tables."""
    return {each.name: _shown(each.name, getattr(config, each.name)) for each in fields(config)}


def is_secret(name: str) -> bool:
    """What has this name is not shown."""
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
    """A URL without the user and the password in it; any other text as it is."""
    if "@" not in text or "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return HIDDEN
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
