"""Invalid bodies, derived from a valid one.

The rule: pure and deterministic. The bodies are mistakes that people make: nothing, ``null``, a
value of another type, a number as text, a field too many or too few, broken JSON, another content
type.
"""

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

JSON: Final = "application/json"


class Body(NamedTuple):
    """One body with its name and its content type; an empty type means no header."""

    name: str
    content: bytes
    type: str = JSON


OTHERS: Final = ("null", "{}", "[]", '"x"', '""', '"1"', "0", "1", "-1", "1.5", "true", '"false"')
HUGE: Final = "123456789012345678901234567890"
IN_FIELDS: Final = (None, "x", "", "7", 0, -1, 1.5, True, [], {}, 3_000_000_000)
IN_LISTS: Final[tuple[list[Any], ...]] = ([None], [1], ["x"], [[]], [{}], [True])


def bodies(right: Any) -> Iterator[Body]:
    """The valid body and all others."""
    text = json.dumps(right)
    yield Body("right", text.encode())
    yield Body("nothing", b"")
    for each in (*OTHERS, HUGE):
        yield Body(each, each.encode())
    yield Body("broken", b"{")
    yield Body("more behind", f"{text} x".encode())
    yield Body("a text", text.encode(), "text/plain")
    yield Body("of no type", text.encode(), "")
    yield Body("a form", text.encode(), "application/x-www-form-urlencoded")
    yield Body("with a charset", text.encode(), "application/json; charset=utf-8")
    if isinstance(right, str):
        yield Body("in small letters", text.lower().encode())
        yield Body("in capitals", text.upper().encode())
    if isinstance(right, list):
        for each in IN_LISTS:
            yield Body(json.dumps(each), json.dumps(each).encode())
        yield Body("twice", json.dumps([*right, *right]).encode())
    if isinstance(right, dict):
        yield from _of_table(right)


def _of_table(right: dict[str, Any]) -> Iterator[Body]:
    yield Body("with more", json.dumps(right | {"unknown": 1}).encode())
    yield Body("only unknown", b'{"unknown": 1}')
    yield Body(
        "twice the same",
        (json.dumps(right)[:-1] + ", " + json.dumps(right)[1:]).encode(),
    )
    for name, value in right.items():
        rest = {key: each for key, each in right.items() if key != name}
        yield Body(f"without {name}", json.dumps(rest).encode())
        others = [value.upper(), value.lower()] if isinstance(value, str) else []
        for other in (*IN_FIELDS, *others):
            yield Body(f"{name}={json.dumps(other)}", json.dumps(right | {name: other}).encode())
