"""JSON that comes from outside, read so that whatever can be read can also be shown and stored.

The rule: what no other reader of JSON would take is refused here, with a reason: nesting that ends
a stack, numbers that are none or have more digits than any of ours, halves of characters.
"""

import json
import re
from itertools import accumulate
from typing import Any, Final, NoReturn

DIGITS_MAX: Final = 100
"""Of one number. Python's own bound of 4,300 is not there in every release, and what is below it
takes time with the square of its length."""

NESTED_MAX: Final = 100
"""Brackets within one another. Whoever reads them deeper and deeper must not come to where the
interpreter's own stack ends: what else happens to run there, as callbacks of the collector, fails.
"""

SHOWN_CHARACTERS: Final = 40


BRACKETS_MAX: Final = 40_000
"""All together: no document that anybody sends has so many, and to follow more takes too long."""

STRINGS_LOOKED_FOR: Final = 64 * 1024
"""In longer texts brackets count within strings too, if there are too many within one another."""

STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""One that does not end is taken to the end, so that every character is looked at once."""

OTHERS: Final = bytes(set(range(256)).difference(b"[]{}"))
STEPS: Final = {each: 1 if each in b"[{" else -1 for each in b"[]{}"}


class InvalidJson(ValueError):
    """It cannot be read; the text is one line that says why."""


def parse_json(data: bytes | str, *, brackets_max: int = BRACKETS_MAX) -> Any:
    """The value that ``data`` stands for, with at most so many brackets. Raises
    :class:`InvalidJson`."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        if _is_too_deep(text.encode("utf-8", "surrogatepass"), brackets_max):
            raise InvalidJson(f"expected at most {NESTED_MAX} brackets within one another")
        value = json.loads(text, parse_int=_whole, parse_float=_real, parse_constant=_no_number)
    except InvalidJson:
        raise
    except ValueError as error:
        raise InvalidJson(f"expected JSON, got {_shown(data)}: {error}") from error
    # Only an escape can make half a character of bytes: they are UTF-8.
    if ("\\ud" in text or "\\uD" in text or isinstance(data, str)) and _has_half(value):
        raise InvalidJson("expected characters, got half of one: a surrogate that stands alone")
    return value


def is_text(value: str) -> bool:
    """Can it be written as UTF-8?"""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_too_deep(data: bytes, brackets_max: int) -> bool:
    """Are there too many brackets within one another, or too many at all?"""
    brackets = data.translate(None, OTHERS)
    if len(brackets) > brackets_max:
        return True
    if _depth(brackets) > NESTED_MAX and len(data) <= STRINGS_LOOKED_FOR:
        brackets = STRINGS.sub(b"", data).translate(None, OTHERS)
    return _depth(brackets) > NESTED_MAX


def _depth(brackets: bytes) -> int:
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0)


def _has_half(value: object) -> bool:
    """Is there a lone surrogate in a document?"""
    return not is_text(json.dumps(value, ensure_ascii=False))


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
