"""Defaults of new vhosts in rabbitmq.conf: limits, operator policies and a queue type.

The rule: each group of keys is one of our tables, in the order in which the file first names them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from arneb.settings.rabbitmq.file import ConfFile, Table, Take
from arneb.settings.rabbitmq.ignored import MIRRORS
from arneb.settings.rabbitmq.values import limit_in, whole_in
from arneb.settings.sizes import parse_bytes
from arneb_core.access.errors import InvalidAccess
from arneb_core.access.patterns import check_pattern

QUEUE_TYPES: Final[Mapping[str, str]] = {
    **{each: each for each in ("classic", "quorum", "stream")},
    **{f"rabbit_{each}_queue": each for each in ("classic", "quorum", "stream")},
}

UNITS_MS: Final[Mapping[str, int]] = {
    "": 1, "ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000,
    "f": 1_209_600_000,
}  # fmt: skip
"""Units of durations in RabbitMQ's files; without a unit they are milliseconds."""


def milliseconds_in(value: str) -> int:
    """Parse a duration such as ``30m`` or ``1h30m``. Raises :class:`ValueError`."""
    parts = re.findall(r"(\d+)([a-z]*)", value)
    if "".join(map("".join, parts)) != value or not parts:
        raise ValueError(f"expected a duration, got {value!r}")
    if unknown := [unit for _, unit in parts if unit not in UNITS_MS]:
        raise ValueError(f"expected a unit of {', '.join(UNITS_MS)[2:]}, got {unknown[0]!r}")
    return sum(int(number) * UNITS_MS[unit] for number, unit in parts)


def lifetime_in(value: str) -> int:
    """Parse a duration of at least a millisecond. Raises :class:`ValueError`."""
    if (found := milliseconds_in(value)) < 1:
        raise ValueError(f"expected at least a millisecond, got {value!r}")
    return found


def pattern_in(value: str) -> str:
    """Check a regular expression. Raises :class:`ValueError`."""
    try:
        check_pattern(value)
    except InvalidAccess as error:
        raise ValueError(str(error)) from None
    return value


LIMITS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "pattern": ("pattern", pattern_in),
    "max_connections": ("max_connections", limit_in),
    "max_queues": ("max_queues", limit_in),
}

POLICY: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "vhost_pattern": ("vhost_pattern", pattern_in),
    "queue_pattern": ("queue_pattern", pattern_in),
    "expires": ("expires_ms", lifetime_in),
    "message_ttl": ("message_ttl_ms", milliseconds_in),
    "max_length": ("max_length", whole_in),
    "max_length_bytes": ("max_length_bytes", parse_bytes),
    "delivery_limit": ("delivery_limit", whole_in),
}

WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "max_in_memory_length": "queues keep no messages in memory",
    "max_in_memory_bytes": "queues keep no messages in memory",
    "classic_queues": MIRRORS,
}


def default_limits(file: ConfFile, rest: str, value: str) -> None:
    """Take ``default_limits.vhosts.$ID.KEY``."""
    group, _, key = rest.rpartition(".")
    name, read = LIMITS[key]
    _table(file, "amqp.default_limits", "default_limits.vhosts.", group)[name] = read(value)


def default_policies(file: ConfFile, rest: str, value: str) -> None:
    """Take ``default_policies.operator.$ID.KEY``."""
    group, _, key = rest.partition(".")
    if (why := WITHOUT_EFFECT.get(key.partition(".")[0])) is not None:
        file.note(f"default_policies.operator.{rest}", why)
        return
    name, read = POLICY[key]
    where = "default_policies.operator."
    table = _table(file, "amqp.default_operator_policies", where, group)
    table["name"] = group
    table[name] = read(value)


def _table(file: ConfFile, setting: str, prefix: str, group: str) -> Table:
    if not group:
        raise KeyError
    if (found := file.groups.get(prefix + group)) is None:
        found = file.groups[prefix + group] = {}
        file.set(setting, [*(file.get(setting) or []), found])
    return found


VHOST_DEFAULTS: Final[Mapping[str, Take]] = {
    "default_limits.vhosts.*": default_limits,
    "default_policies.operator.*": default_policies,
}
