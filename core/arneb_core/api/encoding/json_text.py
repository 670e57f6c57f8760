"""JSON from outside, read so that whatever is accepted can also be shown and stored.

The rule: what another JSON reader would not take is refused here, with a reason: nesting that
exhausts a stack, numbers that are none or have more digits than any of ours, halves of characters.
"""

import json
import re
from itertools import accumulate
from typing import Any, Final, NoReturn

DIGITS_MAX: Final = 100
"""Digits of one number. Python's own bound of 4,300 is not in every release, and parsing takes time
with the square of the length."""

NESTED_MAX: Final = 100
"""Brackets within one another. Recursion over them must stay far from the interpreter's recursion
limit, where other code that happens to run there, such as callbacks of the collector, would fail.
"""

SHOWN_CHARACTERS: Final = 40


BRACKETS_MAX: Final = 40_000
"""Brackets in total: no real document has so many, and following more takes too long."""

STRINGS_LOOKED_FOR: Final = 64 * 1024
"""In longer texts, brackets in strings count too when the nesting is checked."""

STRINGS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
"""A string. An unterminated one runs to the end, so that every character is looked at once."""

WHOLE_CHARACTERS_MAX: Final = 256 * 1024
"""Longer texts are read part by part: the standard library's reader keeps all other threads from
running until it is done, a hundred milliseconds for 6 MB."""

WHITESPACE: Final = re.compile(r"[ \t\n\r]*")

OTHERS: Final = bytes(set(range(256)).difference(b"[]{}"))
STEPS: Final = {each: 1 if each in b"[{" else -1 for each in b"[]{}"}


class InvalidJson(ValueError):
    """The text cannot be read; the message is one line that says why."""


def parse_json(data: bytes | str, *, brackets_max: int = BRACKETS_MAX) -> Any:
    """Return the value of ``data``, which may have at most ``brackets_max`` brackets. Raises
    :class:`InvalidJson`."""
    try:
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        if _is_too_deep(text.encode("utf-8", "surrogatepass"), brackets_max):
            raise InvalidJson(f"expected at most {NESTED_MAX} nested brackets")
        is_long = len(text) > WHOLE_CHARACTERS_MAX
        value = _by_parts(text, DECODER) if is_long else DECODER.decode(text)
    except InvalidJson:
        raise
    except ValueError as error:
        raise InvalidJson(f"expected JSON, got {_shown(data)}: {error}") from error
    # Bytes are UTF-8, so only an escape can make half a character of them.
    if ("\\ud" in text or "\\uD" in text or isinstance(data, str)) and _has_half(value):
        raise InvalidJson("expected characters, got half of one: an unpaired surrogate")
    return value


def parse_own_json(data: bytes) -> Any:
    """Parse what another node of ours has sent, which need not be checked. Call it in a thread if
    it is :data:`WHOLE_CHARACTERS_MAX`. Raises :class:`ValueError`."""
    text = data.decode()
    return _by_parts(text, OWN) if len(text) > WHOLE_CHARACTERS_MAX else OWN.decode(text)


def _by_parts(text: str, decoder: json.JSONDecoder) -> Any:
    """Decode ``text``, letting other threads run after each part of a list, of an object, and of a
    list in it."""
    at = _past_space(text, 0)
    if text[at : at + 1] == "[":
        items, at = _list(text, at, decoder)
        _expect_end(text, at)
        return items
    if text[at : at + 1] != "{":
        return decoder.decode(text)
    found: dict[str, Any] = {}
    at = _past_space(text, at + 1)
    while text[at : at + 1] != "}" or found:
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("expected a name in double quotes", text, at)
        name, at = decoder.raw_decode(text, at)
        at = _expected(text, _past_space(text, at), ":")
        is_list = text[at] == "["
        found[name], at = _list(text, at, decoder) if is_list else decoder.raw_decode(text, at)
        at = _past_space(text, at)
        if text[at : at + 1] == "}":
            break
        at = _expected(text, at, ",")
    _expect_end(text, at + 1)
    return found


def _list(text: str, at: int, decoder: json.JSONDecoder) -> tuple[list[Any], int]:
    """Return the list that begins there, and where it ends."""
    found: list[Any] = []
    at = _past_space(text, at + 1)
    while text[at : at + 1] != "]" or found:
        value, at = decoder.raw_decode(text, at)
        found.append(value)
        at = _past_space(text, at)
        if text[at : at + 1] == "]":
            break
        at = _expected(text, at, ",")
    return found, at + 1


def _past_space(text: str, at: int) -> int:
    """Return where the whitespace between two parts ends."""
    found = WHITESPACE.match(text, at)
    assert found is not None, "it matches nothing, too"
    return found.end()


def _expected(text: str, at: int, what: str) -> int:
    """Return where the next part begins, after ``what``."""
    if text[at : at + 1] != what:
        raise json.JSONDecodeError(f"expected {what!r}", text, at)
    at = _past_space(text, at + 1)
    if at == len(text):
        raise json.JSONDecodeError("expected more", text, at)
    return at


def _expect_end(text: str, at: int) -> None:
    if _past_space(text, at) != len(text):
        raise json.JSONDecodeError("expected nothing more", text, at)


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_too_deep(data: bytes, brackets_max: int) -> bool:
    """Whether brackets are nested too deeply, or there are too many in total."""
    brackets = data.translate(None, OTHERS)
    if len(brackets) > brackets_max:
        return True
    if _depth(brackets) > NESTED_MAX and len(data) <= STRINGS_LOOKED_FOR:
        brackets = STRINGS.sub(b"", data).translate(None, OTHERS)
    return _depth(brackets) > NESTED_MAX


def _depth(brackets: bytes) -> int:
    return max(accumulate(map(STEPS.__getitem__, brackets)), default=0)


def _has_half(value: object) -> bool:
    """Whether a document contains a lone surrogate."""
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
