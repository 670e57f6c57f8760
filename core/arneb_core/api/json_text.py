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

LONG: Final = 256 * 1024
"""Longer texts are read part by part: the reader of the standard library keeps all other threads
from running until it is through, a hundred milliseconds for 6 MB."""

BETWEEN: Final = re.compile(r"[ \t\n\r]*")

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
        value = _by_parts(text, DECODER) if len(text) > LONG else DECODER.decode(text)
    except InvalidJson:
        raise
    except ValueError as error:
        raise InvalidJson(f"expected JSON, got {_shown(data)}: {error}") from error
    # Only an escape can make half a character of bytes: they are UTF-8.
    if ("\\ud" in text or "\\uD" in text or isinstance(data, str)) and _has_half(value):
        raise InvalidJson("expected characters, got half of one: a surrogate that stands alone")
    return value


def parse_own_json(data: bytes) -> Any:
    """What another node of ours has said, which need not be looked at. For a thread, if it is
    :data:`LONG`. Raises :class:`ValueError`."""
    text = data.decode()
    return _by_parts(text, OWN) if len(text) > LONG else OWN.decode(text)


def _by_parts(text: str, decoder: json.JSONDecoder) -> Any:
    """The same as all at once, with a chance for others after each part of a list, of an object,
    and of a list in it."""
    at = _behind(text, 0)
    if text[at : at + 1] == "[":
        items, at = _list(text, at, decoder)
        _expect_end(text, at)
        return items
    if text[at : at + 1] != "{":
        return decoder.decode(text)
    found: dict[str, Any] = {}
    at = _behind(text, at + 1)
    while text[at : at + 1] != "}" or found:
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("expected a name in double quotes", text, at)
        name, at = decoder.raw_decode(text, at)
        at = _expected(text, _behind(text, at), ":")
        is_list = text[at] == "["
        found[name], at = _list(text, at, decoder) if is_list else decoder.raw_decode(text, at)
        at = _behind(text, at)
        if text[at : at + 1] == "}":
            break
        at = _expected(text, at, ",")
    _expect_end(text, at + 1)
    return found


def _list(text: str, at: int, decoder: json.JSONDecoder) -> tuple[list[Any], int]:
    """The list that begins there, and where it has ended."""
    found: list[Any] = []
    at = _behind(text, at + 1)
    while text[at : at + 1] != "]" or found:
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        at = _behind(text, at)
        if text[at : at + 1] == "]":
            break
        at = _expected(text, at, ",")
    return found, at + 1


def _behind(text: str, at: int) -> int:
    """Where what stands between two parts ends."""
    found = BETWEEN.match(text, at)
    assert found is not None, "it matches nothing, too"
    return found.end()


def _expected(text: str, at: int, what: str) -> int:
    """Where the next part begins, behind ``what``."""
    if text[at : at + 1] != what:
        raise json.JSONDecodeError(f"expected {what!r}", text, at)
    at = _behind(text, at + 1)
    if at == len(text):
        raise json.JSONDecodeError("expected more", text, at)
    return at


def _expect_end(text: str, at: int) -> None:
    if _behind(text, at) != len(text):
        raise json.JSONDecodeError("expected nothing more", text, at)


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


DECODER: Final = json.JSONDecoder(parse_int=_whole, parse_float=_real, parse_constant=_no_number)
OWN: Final = json.JSONDecoder()


def _shown(data: bytes | str) -> str:
    shown = repr(data[:SHOWN_CHARACTERS])
    return shown if len(data) <= SHOWN_CHARACTERS else f"{shown}..."
