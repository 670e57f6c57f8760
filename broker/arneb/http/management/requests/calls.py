"""Calls and replies: a request as handlers see it, and what they answer.

The rule: values. What cannot be answered is raised as :class:`Refused`, with RabbitMQ's status and
words.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from arneb_core.access.errors import AccessError
from arneb_core.access.principals import Principal
from arneb_core.api.json_text import InvalidJson, parse_json

Document = dict[str, Any]

DEFAULT_EXCHANGE: Final = "amq.default"
"""What the exchange without a name is called in paths."""

ERLANG_LINE: Final = 80
"""Longer terms are broken into lines when Erlang prints them."""

_NOTHING: Final = frozenset({b"", b"null", b"undefined"})
_TWICE: Final = (
    "invalid payload: the request body JSON-decoded to a string. Is the input doubly-JSON-encoded?"
)
_ABSENT: Final = object()


class Refused(Exception):
    """A call that is not carried out."""

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
    """A document that is JSON already."""

    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What is answered; the body is a value for JSON, in whose lists some may be written already,
    or None for no body."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"


def written(value: Any) -> Written:
    """A value as it leaves."""
    return Written(json.dumps(value, separators=(",", ":")))


CREATED: Final = Reply(status=201)
DONE: Final = Reply(status=204)


@dataclass(frozen=True, slots=True)
class Call:
    """One request of somebody who was let in."""

    method: str
    caller: Principal
    params: Mapping[str, str] = field(default_factory=dict)
    """What stands in the path where the route has ``:name``, decoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By their names in small letters."""
    address: str = ""
    """Where it comes from."""
    scheme: str = "http"

    def document(self) -> "Body":
        """The JSON object that it brings; nothing stands for an empty one."""
        return Body(object_in(self.body))

    @property
    def exchange(self) -> str:
        """The exchange in the path."""
        name = self.params["exchange"]
        return "" if name == DEFAULT_EXCHANGE else name

    def flag(self, name: str) -> bool:
        """A parameter of the query that is ``true``."""
        return self.query.get(name) == "true"


class Body:
    """The object that a call brings. Keys that nobody asks for mean nothing, as in RabbitMQ."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given

    def __repr__(self) -> str:
        return f"<Body with {', '.join(self.given)}>"

    def expect(self, *names: str) -> None:
        """Refuse it without one of these keys."""
        missing = [name for name in names if name not in self.given]
        if missing:
            terms = [f"{{key_missing,{each}}}" for each in missing]
            text = f"[{','.join(terms)}]"
            if len(text) > ERLANG_LINE:
                text = "[" + ",\n ".join(terms) + "]"
            raise bad_request(text)

    def text(self, name: str, default: str | None = None) -> str:
        """A text."""
        value = self.given.get(name, _ABSENT)
        if value is _ABSENT and default is not None:
            return default
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise bad_request(f"expected a text as {name}, got {_shown(value)}")
        return value

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false, as such or as text."""
        value = self.given.get(name, default)
        value = {"true": True, "false": False}.get(value, value) if type(value) is str else value
        if type(value) is not bool:
            raise bad_request(f"expected true or false as {name}, got {_shown(value)}")
        return value

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number, as such or as text."""
        value = self.given.get(name, default)
        if isinstance(value, str) and len(value) < 20 and value.lstrip("-").isdecimal():
            value = int(value)
        if type(value) is not int:
            raise bad_request(["not_int", name] if default is None else f"not_int: {name}")
        return value

    def object(self, name: str) -> Mapping[str, Any]:
        """An object; an empty list stands for an empty one, for Erlang cannot tell them apart."""
        value = self.given.get(name, {})
        if value in (None, []):
            return {}
        if not isinstance(value, dict):
            raise bad_request(f"expected an object as {name}, got {_shown(value)}")
        return value

    def texts(self, name: str) -> list[str]:
        """A list of texts, or one text with commas; null stands for none."""
        value = self.given.get(name)
        if value is None:
            return []
        if isinstance(value, str):
            return [each.strip() for each in value.split(",") if each.strip()]
        if not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
            raise bad_request(f"expected a list of texts as {name}, got {_shown(value)}")
        return list(value)


def object_in(body: bytes) -> Mapping[str, Any]:
    """The JSON object of a body. Raises :class:`Refused`."""
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
    """400."""
    return Refused(400, "bad_request", reason)


def not_found(reason: str = "Not Found", error: str = "Object Not Found") -> Refused:
    """404; with other words for what is missing in the body's stead of the path's."""
    return Refused(404, error, reason)


def not_authorised(reason: str) -> Refused:
    """401, with which RabbitMQ also says that a right is lacking."""
    return Refused(401, "not_authorised", reason)


def invalid(error: AccessError) -> Refused:
    """400 for a change of the catalogue that cannot be."""
    return bad_request(str(error))


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else repr(value)[:100]
