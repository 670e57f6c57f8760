"""Sizes and fractions on the command line.

The rule: a text that is not a size makes the command line wrong, and the broker is not asked.
"""

from arneb.ctl.exits import ExitCode
from arneb.ctl.session import Misused
from arneb.settings.sizes import parse_bytes


def bytes_in(text: str) -> int:
    """Parse a number of bytes. Raises :class:`.Misused`."""
    try:
        return parse_bytes(text)
    except ValueError:
        raise Misused("Bad argument.", ExitCode.DATA) from None


def part_in(text: str, most: float | None = 1.0) -> float:
    """Parse a fraction of at most ``most``. Raises :class:`.Misused`."""
    try:
        found = float(text)
    except ValueError:
        raise Misused("Bad argument.", ExitCode.DATA) from None
    if not 0 <= found < float("inf") or (most is not None and found > most):
        text = "Bad argument: The threshold should be a fraction between 0.0 and 1.0"
        raise Misused(text, ExitCode.DATA)
    return found
