"""Written answers: JSON in pieces, some items per turn.

The rule: long answers are written in turns, so that others can run in between.
"""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

from arneb.http.management.requests.calls import Written, written
from arneb.http.server.long_answers import between_pieces

ITEMS_PER_PIECE: Final = 100


async def rendered(value: Any) -> AsyncIterator[bytes]:
    """Yield a value as JSON, lists and lists in an object some items at a time."""
    if isinstance(value, list):
        async for piece in _list(value):
            yield piece
    elif isinstance(value, dict) and any(map(_is_long, value.values())):
        before = "{"
        for name, each in value.items():
            yield f"{before}{json.dumps(name)}:".encode()
            before = ","
            async for piece in rendered(each):
                yield piece
        yield b"}"
    else:
        yield _dump(value).encode()


def _is_long(value: Any) -> bool:
    """Return whether this is a list to be written in pieces."""
    is_list = isinstance(value, list) and value
    return bool(is_list and (len(value) > ITEMS_PER_PIECE or type(value[0]) is Written))


async def _list(items: list[Any]) -> AsyncIterator[bytes]:
    yield b"["
    for start in range(0, len(items), ITEMS_PER_PIECE):
        if start:
            await between_pieces()
        text = ",".join(map(_dump, items[start : start + ITEMS_PER_PIECE]))
        yield f"{',' if start else ''}{text}".encode()
    yield b"]"


def _dump(value: Any) -> str:
    return value.text if type(value) is Written else written(value).text
