"""ASGI: what an application receives and sends in one exchange.

The rule: an application gets a body whole, and what it sends is written before it goes on.
"""

import re
from collections.abc import Awaitable
from http.client import responses
from typing import Final, Protocol

import trio
from starlette.types import Message

VOUCHED: Final = "arneb.vouched"
"""The extension of a scope that says who asks, as another node knows it; no client can say it."""

PROOF_WANTED: Final = "\0proof"
"""In its place: a node asks whose session it is, and by what other shards' leaders may know who
that is."""

UNPROVED: Final = "\0unproved"
"""In its place: somebody whom another server knows, or a token, of whom no proof came. It is no
user of the catalogue, which may have one of that name, who may do more."""

LEFT: Final = "arneb.left"
"""The key of a message with a piece of an answer under which an application says how many bytes it
holds itself meanwhile: the pieces that are still to come, or what these are made of."""

STREAMED: Final = "arneb.streamed"
"""The key of a message with a piece of an answer that has no end: until the next piece the client
may be cut off, for the application waits as it does."""

REASON: Final = "arneb.reason"
"""The key of a message with the head of an answer under which an application says why it refuses,
for the line with the status; whatever stands in it."""

PHRASE_CHARS_MAX: Final = 200

BODILESS: Final = frozenset({204, 304})

ADDRESS: Final = re.compile(rb"https?://[^/?]*", re.IGNORECASE)


def path_and_query(target: bytes) -> tuple[bytes, bytes]:
    """What a request is about. Some proxies send the whole address (RFC 9112, 3.2.2)."""
    address = ADDRESS.match(target)
    path, _, query = target[address.end() if address else 0 :].partition(b"?")
    return path or b"/", query


def phrase(status: int, reason: str) -> str:
    """What the line with the status says, which clients show to people: the reason, if there is
    one. A line break in it would begin a header."""
    said = (each if " " <= each <= "~" else "?" for each in reason[:PHRASE_CHARS_MAX])
    return "".join(said) or responses.get(status, "")


class Written(Protocol):
    """A connection, as far as an answer is written to it."""

    def begin(self, status: int, headers: list[tuple[bytes, bytes]], reason: str = "") -> None:
        """The head of an answer."""
        ...

    def go_on(
        self, piece: bytes, *, last: bool, left: int = 0, streamed: bool = False
    ) -> Awaitable[None]:
        """Write a piece of its body, of which the application holds ``left`` more bytes; when it is
        ``streamed``, the next may be long in coming."""
        ...


class Body:
    """What the application receives: the whole body, and then nothing any more."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body

    def __repr__(self) -> str:
        return f"<Body of {len(self._body or b'')} bytes>"

    async def __call__(self) -> Message:
        """As ASGI's ``receive``."""
        if self._body is None:
            await trio.sleep_forever()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


class Answer:
    """What the application sends, on its way to the connection."""

    def __init__(self, connection: Written, *, is_head: bool) -> None:
        self._connection = connection
        self._bodiless = is_head
        self.started = False
        """The status is known."""

    def __repr__(self) -> str:
        return f"<Answer {'started' if self.started else 'not started'}>"

    async def send(self, message: Message) -> None:
        """As ASGI's ``send``."""
        if message["type"] == "http.response.start":
            self.started = True
            self._bodiless |= message["status"] in BODILESS
            reason = message.get(REASON, "")
            self._connection.begin(message["status"], list(message["headers"]), reason)
        elif message["type"] == "http.response.body":
            piece = b"" if self._bodiless else message.get("body", b"")
            await self._connection.go_on(
                piece,
                last=not message.get("more_body", False),
                left=message.get(LEFT, 0),
                streamed=message.get(STREAMED, False),
            )
