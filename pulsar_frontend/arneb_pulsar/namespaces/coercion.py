"""Coercion: numbers and booleans as Pulsar's JSON reader accepts them.

The rule: whatever Jackson, as Pulsar sets it up, converts to a number or a boolean is one here, and
nothing else is. Scripts send ``{"limit": "10240"}``, and Pulsar has always accepted that.
Source: Jackson ``StdDeserializer._parseIntPrimitive``, ``_parseBooleanPrimitive``.
"""

import math
import re
from collections.abc import Sequence
from typing import Any, Final

WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
REAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)

LOWEST: Final = -(1 << 63)
HIGHEST: Final = (1 << 63) - 1

LOWEST_INT: Final = -(1 << 31)
HIGHEST_INT: Final = (1 << 31) - 1

TRUTHS: Final = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}


class WrongKind(ValueError):
    """A value of the wrong kind, such as text for a number or a list for a table. Jackson refuses
    it before Pulsar's own checks."""


def whole_number(value: Any) -> int | None:
    """Return a number of 64 bits, with any fraction cut off; None when it is not a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip()
        value = int(text) if WHOLE.fullmatch(text) else None
    elif isinstance(value, float):
        value = int(value) if LOWEST <= value <= HIGHEST else None
    return value if isinstance(value, int) and LOWEST <= value <= HIGHEST else None


def real_number(value: Any) -> float | None:
    """Return a number, which may have a fraction; None when it is not one, or JSON cannot express
    it: what is accepted is stored, and read again."""
    if isinstance(value, str):
        text = value.strip()
        value = float(text) if REAL.fullmatch(text) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def is_nothing(value: Any) -> bool:
    """Return whether it is ``null``, or blank text, which Jackson takes for that."""
    return value is None or (isinstance(value, str) and not value.strip())


def named(value: Any, names: Sequence[str]) -> str | None:
    """Return a member of a Java enumeration, given by its name or number; None for an unknown one.
    Raises :class:`WrongKind` for a value of another kind."""
    if isinstance(value, str) and value in names:
        return value
    if is_nothing(value):
        return None
    number = None if isinstance(value, float) else whole_number(value)
    if number is None:
        if isinstance(value, str):
            return None
        raise WrongKind(f"expected one of {', '.join(names)}, got {value!r:.40}")
    if not LOWEST_INT <= number <= HIGHEST_INT:
        raise WrongKind(f"expected a number of 32 bits, got {number}")
    return names[number] if 0 <= number < len(names) else None


def truth(value: Any) -> bool | None:
    """Return a boolean, None when it is not one. A number is true unless it is 0."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return TRUTHS.get(value.strip())
    return bool(value) if isinstance(value, int) else None
