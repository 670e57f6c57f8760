"""Values of rabbitmq.conf: texts parsed into values.

The rule: an invalid text raises a :class:`ValueError` that says what was expected.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

NO_LIMIT: Final = frozenset({"infinity", "undefined", "unlimited"})


def whole_in(value: str) -> int:
    """Parse a whole number. Raises :class:`ValueError`."""
    if not re.fullmatch(r"-?\d+", value):
        raise ValueError(f"expected a whole number, got {value!r}")
    return int(value)


def limit_in(value: str) -> int:
    """Parse a whole number, or -1 for no limit. Raises :class:`ValueError`."""
    return -1 if value in NO_LIMIT else whole_in(value)


def part_in(value: str) -> float:
    """Parse a fraction. Raises :class:`ValueError`."""
    return float(value)


def flag_in(value: str) -> bool:
    """Parse true or false. Raises :class:`ValueError`."""
    if value not in ("true", "false", "on", "off"):
        raise ValueError(f"expected true or false, got {value!r}")
    return value in ("true", "on")


def seconds_in(value: str) -> float:
    """Convert milliseconds to seconds; 0 is never. Raises :class:`ValueError`."""
    return 0.0 if value in NO_LIMIT else whole_in(value) / 1000


def path_in(value: str) -> str:
    """Return the absolute path."""
    return str(Path(value).absolute())


def one_of(known: Mapping[str, str]) -> Callable[[str], str]:
    """Return a parser that accepts these words and returns their meanings."""

    def read(value: str) -> str:
        if value not in known:
            raise ValueError(f"expected one of {', '.join(known)}, got {value!r}")
        return known[value]

    return read


def address_in(value: str) -> str:
    """Return where to listen, as our own settings write it."""
    if value == "none":
        return "off"
    host, colon, port = value.rpartition(":")
    if not colon:
        host, port = "*", value
    if not port.isdecimal():
        raise ValueError(f"expected a port or HOST:PORT, got {value!r}")
    host = {"": "*", "0.0.0.0": "*", "::": "*"}.get(host, host)
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
