"""Requests to a handler, its replies, and its errors."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import trio

from arneb_core.api.encoding.json_text import InvalidJson, parse_json
from arneb_pulsar.authorization.callers import NOBODY, Caller

NO_CONTENT: Final = 204
JSON: Final = "application/json"
TEXT: Final = "text/plain"
BYTES: Final = "application/octet-stream"


class AdminError(Exception):
    """A call that is answered with an error."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


async def no_need(size: int) -> None:
    """Reserve nothing: memory is not counted."""
    await trio.lowlevel.checkpoint()


class Query(dict[str, str]):
    """The parameters of a call, decoded. If a parameter is repeated, the first value counts, as in
    Pulsar, except where a list is asked for."""

    def __init__(self, items: Sequence[tuple[str, str]]) -> None:
        super().__init__(reversed(items))
        self._items = items

    def __repr__(self) -> str:
        return f"<Query {self._items!r}>"

    def every(self, name: str) -> list[str]:
        """Return all values of a parameter, without empty ones."""
        return [value for key, value in self._items if key == name and value]


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """One call; ``names`` are the variable parts of its path, decoded."""

    names: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    host: str = "localhost:8080"
    """The address at which the caller reached this broker."""
    caller: Caller = NOBODY
    hold: Callable[[int], Awaitable[None]] = no_need
    """Reserves the bytes that a large answer will take, and waits until there is room."""

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean query parameter; the default if it is empty."""
        value = self.query.get(name)
        return value.lower() == "true" if value else default

    def every(self, name: str) -> list[str]:
        """Return all values of a parameter that is a list, without empty ones."""
        if isinstance(self.query, Query):
            return self.query.every(name)
        return [self.query[name]] if self.query.get(name) else []

    def json(self) -> Any:
        """Return the body as JSON. Raises :class:`AdminError`."""
        try:
            return parse_json(self.body)
        except InvalidJson as error:
            raise AdminError(400, str(error)) from error

    def given(self) -> Any:
        """Return the body as JSON; an empty one is ``null``, as for Pulsar. Raises
        :class:`AdminError`."""
        return self.json() if self.body.strip() else None

    def number(self, name: str) -> int:
        """Return a part of the path as a number. Raises :class:`AdminError`."""
        text = self.names[name]
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(text) <= 19):
            raise AdminError(400, f"{name}: expected a number, got {text!r}")
        return int(text)


@dataclass(frozen=True, slots=True)
class AdminReply:
    """The answer to one call."""

    status: int = NO_CONTENT
    body: bytes = b""
    kind: str = JSON
    headers: Sequence[tuple[str, str]] = ()
    """Some names may come more than once."""
    reason: str = ""
    """A refusal's reason in the status line: the only part that Java's clients show when they look
    topics up over HTTP."""


DONE: Final = AdminReply()
"""Success, without a body."""

NOTHING_SET: Final = AdminReply(200)
"""The value is not set: Pulsar's ``null``, which has no body."""


def document(value: Any, status: int = 200) -> AdminReply:
    """Return a JSON answer, as compact as Pulsar's."""
    return AdminReply(status, json.dumps(value, separators=(",", ":")).encode())


def text(value: str) -> AdminReply:
    """Return a plain-text answer."""
    return AdminReply(200, value.encode(), TEXT)


def refusal(error: AdminError) -> AdminReply:
    """Return the answer to a failed call: ``{"reason": …}``."""
    return replace(document({"reason": error.reason}, error.status), reason=error.reason)
