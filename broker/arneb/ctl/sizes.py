"""Sizes: amounts of memory and disk as RabbitMQ writes them.

The rule: ``kB``, ``MB``, ``GB`` are powers of a thousand; ``KiB``, ``MiB``, ``GiB`` and the bare
letters of 1,024, as RabbitMQ has them.
"""

import re
from typing import Final

from arneb.ctl.exits import ExitCode
from arneb.ctl.session import Misused

_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kKmMgGtTpP]?)(i?)([bB]?)")
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def parse_bytes(text: str) -> int:
    """Bytes. Raises :class:`ValueError`."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"expected bytes such as 512MB or 2GiB, got {text!r}")
    number, letter, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    return int(float(number) * base ** _POWERS[letter.lower()])


def bytes_in(text: str) -> int:
    """Bytes of the command line. Raises :class:`.Misused`."""
    try:
        return parse_bytes(text)
    except ValueError:
        raise Misused("Bad argument.", ExitCode.DATA) from None


def part_in(text: str, most: float | None = 1.0) -> float:
    """A part of the command line. Raises :class:`.Misused`."""
    try:
        found = float(text)
    except ValueError:
        raise Misused("Bad argument.", ExitCode.DATA) from None
    if not 0 <= found < float("inf") or (most is not None and found > most):
        text = "Bad argument: The threshold should be a fraction between 0.0 and 1.0"
        raise Misused(text, ExitCode.DATA)
    return found
