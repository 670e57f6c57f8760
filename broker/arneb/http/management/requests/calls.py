"""Calls and replies: a request as handlers see it, and what they return.

The rule: calls and replies are values. A refusal is raised as :class:`Refused`, with RabbitMQ's
status and words.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from arneb_core.access.errors import AccessError
from arneb_core.access.principals import Principal
from arneb_core.api.encoding.json_text import InvalidJson, parse_json

Document = dict[str, Any]

DEFAULT_EXCHANGE: Final = "amq.default"
"""The name of the default exchange in paths."""

ERLANG_LINE: Final = 80
"""Erlang breaks longer terms into lines."""

_NOTHING: Final = frozenset({b"", b"null", b"undefined"})
_TWICE: Final = (
    "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
)
_ABSENT: Final = object()


class Refused(Exception):
    """A call is refused."""

    def __init__(
        self, status: int, error: str, reason: Any, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{status} {error}: {reason}")
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = headers or {}


@dataclass(frozen=True, slots=True)
class Written:
    """A document already written as JSON."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to a call. The body is a value to write as JSON, whose lists may contain
    :class:`Written` items, or None for no body."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"


def written(value: Any) -> Written:
    """Write a value as JSON."""
    return Written(json.dumps(value, separators=(",", ":")))


CREATED: Final = Reply(status=201)
DONE: Final = Reply(status=204)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, its caller authenticated."""

    method: str
    caller: Principal
    params: Mapping[str, str] = field(default_factory=dict)
    """The path's segments for ``:name`` in the route, decoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case."""
    address: str = ""
    """The client's address."""
    scheme: str = "http"

    def document(self) -> "Body":
        """Return the JSON object in the body; no body stands for an empty one."""
        return Body(object_in(self.body))

    @property
    def exchange(self) -> str:
        """The exchange in the path."""
        name = self.params["exchange"]
        return "" if name == DEFAULT_EXCHANGE else name

    def flag(self, name: str) -> bool:
        """Return whether a query parameter is ``true``."""
        return self.query.get(name) == "true"


class Body:
    """The object in a call's body. Unknown keys are ignored, as in RabbitMQ."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    def __repr__(self) -> str:
        return f"<Body with {', '.join(self.given)}>"

    def expect(self, *names: str) -> None:
        """Refuse the call if one of these keys is missing."""
        missing = [name for name in names if name not in self.given]
        if missing:
            terms = [f"{{key_missing,{each}}}" for each in missing]
            text = f"[{','.join(terms)}]"
            if len(text) > ERLANG_LINE:
                text = "[" + ",\n ".join(terms) + "]"
            raise bad_request(text)

    def text(self, name: str, default: str | None = None) -> str:
        """Return a text."""
        value = self.given.get(name, _ABSENT)
        if value is _ABSENT and default is not None:
            return default
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise bad_request(f"expected a text as {name}, got {_shown(value)}")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return a truth value, given as such or as text."""
        value = self.given.get(name, default)
        value = {"true": True, "false": False}.get(value, value) if type(value) is str else value
        if type(value) is not bool:
            raise bad_request(f"expected true or false as {name}, got {_shown(value)}")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """Return a whole number, given as such or as text."""
        value = self.given.get(name, default)
        if isinstance(value, str) and len(value) < 20 and value.lstrip("-").isdecimal():
            value = int(value)
        if type(value) is not int:
            raise bad_request(["not_int", name] if default is None else f"not_int: {name}")
        return value

    def object(self, name: str) -> Mapping[str, Any]:
        """Return an object. An empty list stands for an empty object: Erlang cannot distinguish
        them."""
        value = self.given.get(name, {})
        if value in (None, []):
            return {}
        if not isinstance(value, dict):
            raise bad_request(f"expected an object as {name}, got {_shown(value)}")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts, given as a list or as one text with commas; null is an empty
        list."""
        value = self.given.get(name)
        if value is None:
            return []
        if isinstance(value, str):
            return [each.strip() for each in value.split(",") if each.strip()]
        if not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
            raise bad_request(f"expected a list of texts as {name}, got {_shown(value)}")
        return list(value)


def object_in(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object in a body. Raises :class:`Refused`."""
    if body.strip() in _NOTHING:
        return {}
    try:
        value = parse_json(body)
    except InvalidJson:
        raise bad_request("not_json") from None
    if isinstance(value, str):
        raise bad_request(_TWICE)
    if not isinstance(value, dict):
        raise bad_request("not_json")
    return value


def bad_request(reason: Any) -> Refused:
    """Return a 400."""
    return Refused(400, "bad_request", reason)


def not_found(reason: str = "Not Found", error: str = "Object Not Found") -> Refused:
    """Return a 404; RabbitMQ's words differ if the missing object is not the one in the path."""
    return Refused(404, error, reason)


def not_authorised(reason: str) -> Refused:
    """Return a 401, which RabbitMQ also sends for a missing right."""
    return Refused(401, "not_authorised", reason)


def invalid(error: AccessError) -> Refused:
    """Return the 400 for an invalid change of the catalogue."""
    return bad_request(str(error))


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else json.dumps(value, ensure_ascii=False)[:100]
