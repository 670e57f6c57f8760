"""JSON that comes from outside, read so that whatever can be read can also be shown and stored.

The rule: what no other reader of JSON would take is refused here, with a reason: nesting that ends
a stack, numbers that are none or have more digits than any of ours, halves of characters.
"""

import json
from typing import Any, Final, NoReturn

DIGITS_MAX: Final = 100
"""Of one number. Python's own bound of 4,300 is not there in every release, and what is below it
takes time with the square of its length."""

SHOWN_CHARACTERS: Final = 40


class InvalidJson(ValueError):
    """It cannot be read; the text is one line that says why."""


def parse_json(data: bytes | str) -> Any:
    """The value that ``data`` stands for. Raises :class:`InvalidJson`."""
    try:
        value = json.loads(data, parse_int=_whole, parse_float=_real, parse_constant=_no_number)
    except RecursionError as error:
        raise InvalidJson("expected JSON, got too many brackets within one another") from error
    except InvalidJson:
        raise
    except ValueError as error:
        raise InvalidJson(f"expected JSON, got {_shown(data)}: {error}") from error
    # Only an escape can make half a character: the text itself is UTF-8.
    if ("\\u" in data if isinstance(data, str) else b"\\u" in data) and _has_half(value):
        raise InvalidJson("expected characters, got half of one: a surrogate that stands alone")
    return value


def is_text(value: str) -> bool:
    """Can it be written as UTF-8?"""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _has_half(value: object) -> bool:
    """Is there a lone surrogate in a document?"""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            if not is_text(each):
                return True
        elif isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            left += each
            left += each.values()
    return False


def _whole(digits: str) -> int:
    if len(digits) > DIGITS_MAX:
        raise InvalidJson(f"expected a number of at most {DIGITS_MAX} digits, got {len(digits)}")
    return int(digits)


def _real(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise InvalidJson(f"expected a number, got one beyond all: {digits[:40]}")
    return value


def _no_number(name: str) -> NoReturn:
    raise InvalidJson(f"expected a number, got {name}")


def _shown(data: bytes | str) -> str:
    shown = repr(data[:SHOWN_CHARACTERS])
    return shown if len(data) <= SHOWN_CHARACTERS else f"{shown}..."
