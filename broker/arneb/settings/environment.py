"""The environment: settings as variables, for containers.

The rule: every setting that is one value has a variable, ``ARNEB_`` and its dotted name in
capitals. Of the variables of RabbitMQ's image, those that name the first user and vhost are
understood. An unknown ``ARNEB_`` variable is reported and ignored: other programs may have set it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

from arneb.settings.table import ConfigInvalid

PREFIX: Final = "ARNEB_"

USER: Final = "RABBITMQ_DEFAULT_USER"
PASSWORD: Final = "RABBITMQ_DEFAULT_PASS"
VHOST: Final = "RABBITMQ_DEFAULT_VHOST"

FOR_COMMANDS: Final = frozenset({"ARNEB_URL", "ARNEB_TOKEN", "ARNEB_DATA_DIR"})
"""Variables of commands that call a broker; the last one is also a setting."""

OF_KUBERNETES: Final = re.compile(
    r"ARNEB(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)"
)
"""Variables that Kubernetes sets in every container beside a service named ``arneb``."""

Table = dict[str, Any]


def variables(settings: type[Any], where: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the dotted names and types of all settings that a variable can hold."""
    types = get_type_hints(settings)
    for field in fields(settings):
        kind, name = types[field.name], (*where, field.name)
        if is_dataclass(kind) and isinstance(kind, type) and not _is_value(kind):
            yield from variables(kind, name)
        elif get_origin(kind) is not tuple or get_args(kind)[0] is str:
            yield ".".join(name), kind


def _is_value(kind: type[Any]) -> bool:
    """Whether a dataclass is a single value: an address is written as one text."""
    return kind.__name__ == "Address"


def variable(dotted: str) -> str:
    """Return the variable of a setting."""
    return PREFIX + dotted.upper().replace(".", "_")


def settings_in(settings: type[Any], environment: Mapping[str, str]) -> tuple[Table, list[str]]:
    """Return the settings in an environment, as a TOML file would have them, and one line for each
    variable ignored. Raises :class:`ConfigInvalid`."""
    known = {variable(dotted): (dotted, kind) for dotted, kind in variables(settings)}
    table: Table = {}
    notes: list[str] = []
    for name, text in sorted(environment.items()):
        if not name.startswith(PREFIX):
            continue
        if name in known:
            dotted, kind = known[name]
            *tables, last = dotted.split(".")
            inner = table
            for each in tables:
                inner = inner.setdefault(each, {})
            inner[last] = _value(name, kind, text)
        elif name not in FOR_COMMANDS and not OF_KUBERNETES.fullmatch(name):
            from difflib import get_close_matches

            near = get_close_matches(name, known, n=1, cutoff=0.6)
            hint = f"; did you mean {near[0]}?" if near else ""
            notes.append(f"the environment variable {name} is ignored: no such setting{hint}")
    return table, notes


def first_start_of(environment: Mapping[str, str]) -> Table:
    """Return the first start's user and vhost, from the variables of RabbitMQ's image."""
    amqp: Table = {}
    if environment.get(USER) or environment.get(PASSWORD):
        name = environment.get(USER) or "guest"
        user = {"name": name, "password": environment.get(PASSWORD) or "guest"}
        amqp["users"] = [{**user, "loopback_only": False}]
    if vhost := environment.get(VHOST):
        amqp["vhosts"] = [vhost]
    return {"amqp": amqp} if amqp else {}


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> Table:
    """Merge two tables; the second one's values win."""
    result = dict(first)
    for name, value in second.items():
        before = result.get(name)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        result[name] = merged(before, value) if both else value  # type: ignore[arg-type]
    return result


def _value(name: str, kind: Any, text: str) -> Any:
    if get_origin(kind) is tuple:
        return [each.strip() for each in text.split(",") if each.strip()]
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise ConfigInvalid(f"{name}: expected true or false, got {text!r}")
        return text.lower() == "true"
    if kind in (int, float):
        try:
            return kind(text.replace("_", ""))
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise ConfigInvalid(f"{name}: expected {what}, got {text!r}") from None
    if kind is Path:
        return str(Path(text).absolute()) if text else ""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return text.lower()
    return text
