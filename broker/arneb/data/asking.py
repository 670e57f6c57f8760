"""Reading requests: their parameters and bodies, with every field checked.

The rule: an unexpected value is refused with what was expected, and so is a field that nobody
reads: a misspelt name must not be ignored.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import trio
from starlette.requests import Request

from arneb.data.errors import DataError, bad_request
from arneb_core.api.encoding.json_text import InvalidJson, parse_json
from arneb_core.api.entries.position import AFTER_ALL, Position, position_at

_POSITION: Final = re.compile(r"(\d{1,10}):(\d{1,10})", re.ASCII)
NUMBER: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
NAME: Final = re.compile(r"[A-Za-z0-9._:-]{1,200}", re.ASCII)
"""The names of queries and stages."""

NUMBER_MAX: Final = (1 << 63) - 1
ID_MAX: Final = (1 << 32) - 1
ENTRY_MAX: Final = (1 << 32) - 1
LEDGER_MAX: Final = (1 << 31) - 1

LONG_BODY_BYTES: Final = 64 * 1024
"""After a longer body the loop yields to other tasks: a MiB takes some 10 ms."""

_ABSENT: Final = object()


class Fields:
    """The fields of one object, each taken once; :meth:`end` refuses what is left."""

    def __init__(self, given: Mapping[str, Any], where: str) -> None:
        self._left = dict(given)
        self._where = where

    def __repr__(self) -> str:
        return f"<Fields of {self._where}, {len(self._left)} left>"

    def take(self, name: str) -> Any:
        """Take a field's value; ``_ABSENT`` if it was not given."""
        return self._left.pop(name, _ABSENT)

    def text(self, name: str, default: str | None = None) -> str:
        """Take a text, which must be given unless there is a default."""
        value = self.take(name)
        if value is _ABSENT and default is not None:
            return default
        if not isinstance(value, str):
            raise self._expected(name, "a text", value)
        return value

    def name(self, name: str) -> str:
        """Take the name of a query or a stage."""
        value = self.text(name)
        if not NAME.fullmatch(value):
            raise self._expected(name, "1 to 200 of A-Z a-z 0-9 . _ : -", value)
        return value

    def number(
        self, name: str, least: int = 0, most: int = NUMBER_MAX, default: int | None = None
    ) -> int:
        """Take a whole number within bounds, given as a number or as text."""
        value = self.take(name)
        if value is _ABSENT and default is not None:
            return default
        if isinstance(value, str) and NUMBER.fullmatch(value):
            value = int(value)
        if type(value) is not int or not least <= value <= most:
            raise self._expected(name, f"a number from {least} to {most}", value)
        return value

    def maybe_number(self, name: str, least: int = 0, most: int = NUMBER_MAX) -> int | None:
        """Take a number as :meth:`number` does; None if it is absent or null."""
        if self._left.get(name) is None:
            self._left.pop(name, None)
            return None
        return self.number(name, least, most)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Take true or false."""
        value = self.take(name)
        if value is _ABSENT:
            return default
        value = {"true": True, "false": False}.get(value, value) if type(value) is str else value
        if type(value) is not bool:
            raise self._expected(name, "true or false", value)
        return value

    def position(self, name: str) -> Position:
        """Take a position, written ``ledger:entry``."""
        value = self.text(name)
        position = parse_position(value)
        if position is None:
            raise self._expected(name, "ledger:entry", value)
        return position

    def objects(self, name: str) -> dict[str, "Fields"]:
        """Take objects by name."""
        value = self.take(name)
        if not isinstance(value, dict) or not all(isinstance(e, dict) for e in value.values()):
            raise self._expected(name, "an object of objects", value)
        return {key: Fields(each, f"{name}[{key!r}]") for key, each in value.items()}

    def texts(self, name: str) -> list[str]:
        """Take a list of texts."""
        value = self.take(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self._expected(name, "a list of texts", value)
        return value

    def list(self, name: str) -> "list[Fields]":
        """Take a list of objects."""
        value = self.take(name)
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self._expected(name, "a list of objects", value)
        return [Fields(each, f"{name}[{index}]") for index, each in enumerate(value)]

    def end(self) -> None:
        """Refuse the fields that were not taken."""
        if self._left:
            unknown = ", ".join(map(repr, list(self._left)[:5]))
            raise bad_request(f"{self._where}: expected nothing else, got {unknown}"[:500])

    def _expected(self, name: str, what: str, got: object) -> DataError:
        shown = "nothing" if got is _ABSENT else repr(got)[:100]
        return bad_request(f"{self._where}: expected {what} in {name!r}, got {shown}"[:500])


def parse_position(text: str) -> Position | None:
    """Return the position that ``text`` names; None if it names none."""
    found = _POSITION.fullmatch(text)
    if found is None:
        return None
    ledger, entry = int(found[1]), int(found[2])
    if ledger > LEDGER_MAX or entry > ENTRY_MAX:
        return None
    return Position(min(position_at(ledger, entry), AFTER_ALL))


def parameters(request: Request) -> Fields:
    """Return a request's parameters; one given twice is refused."""
    given = request.query_params.multi_items()
    names = [name for name, _ in given]
    if len(set(names)) != len(names):
        raise bad_request(f"expected each parameter once, got {', '.join(names)}"[:500])
    return Fields(dict(given), "the query")


async def document(request: Request) -> Fields:
    """Return the JSON object in a request's body."""
    body = await request.body()
    try:
        value = parse_json(body)
    except InvalidJson as error:
        raise bad_request(str(error)) from error
    if len(body) > LONG_BODY_BYTES:
        await trio.lowlevel.checkpoint()
    if not isinstance(value, dict):
        raise bad_request(f"expected a JSON object, got {type(value).__name__}")
    return Fields(value, "the body")
