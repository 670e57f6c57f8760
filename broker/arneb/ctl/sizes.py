"""Sizes and parts of the command line.

The rule: what is no size is a command line that is wrong, and nobody is asked.
"""

from arneb.ctl.exits import ExitCode
from arneb.ctl.session import Misused
from arneb.settings.sizes import parse_bytes


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
