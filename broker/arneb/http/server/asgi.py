"""ASGI: what an application receives and sends in one exchange.

The rule: an application receives a body whole, and each piece that it sends is written before it
continues.
"""

import re
from collections.abc import Awaitable
from http.client import responses
from typing import Final, Protocol

import trio
from starlette.types import Message

VOUCHED: Final = "arneb.vouched"
"""The scope extension with the sender's identity as authenticated by another node; clients cannot
set it."""

PROOF_WANTED: Final = "\0proof"
"""A value of that extension: a node asks for the session's user, with the credentials by which
other shards' leaders can authenticate the user."""

UNPROVED: Final = "\0unproved"
"""A value of that extension: a user of an external authority or of a token, whose credentials are
not known. It must not be taken for a catalogue user of the same name, who may have more rights."""

LEFT: Final = "arneb.left"
"""The key, in a message with a piece of an answer, for the number of bytes that the application
itself holds meanwhile: the pieces still to come, or what they are made from."""

STREAMED: Final = "arneb.streamed"
"""The key, in a message with a piece of an answer, that marks an endless answer: until the next
piece the client may be cut off, since the application is only waiting too."""

REASON: Final = "arneb.reason"
"""The key, in a message with the head of an answer, for the reason of a refusal in the status line;
it may contain any characters."""

PHRASE_CHARS_MAX: Final = 200

BODILESS: Final = frozenset({204, 304})

ADDRESS: Final = re.compile(rb"https?://[^/?]*", re.IGNORECASE)


def path_and_query(target: bytes) -> tuple[bytes, bytes]:
    """Return path and query of a request target. Some proxies send the absolute form (RFC 9112,
    3.2.2)."""
    address = ADDRESS.match(target)
    path, _, query = target[address.end() if address else 0 :].partition(b"?")
    return path or b"/", query


def phrase(status: int, reason: str) -> str:
    """Return the reason phrase of the status line, which clients show to people: ``reason``, if
    given. Other than printable ASCII is replaced: a line break would begin a header."""
    printable = (each if " " <= each <= "~" else "?" for each in reason[:PHRASE_CHARS_MAX])
    return "".join(printable) or responses.get(status, "")


class Written(Protocol):
    """The part of a connection that answers are written to."""

    def begin(self, status: int, headers: list[tuple[bytes, bytes]], reason: str = "") -> None:
        """Begin an answer with its head."""
        ...

    def write_piece(
        self, piece: bytes, *, last: bool, left: int = 0, streamed: bool = False
    ) -> Awaitable[None]:
        """Write a piece of the body, of which the application holds ``left`` more bytes. After a
        ``streamed`` one, the next may take long."""
        ...


class Body:
    """What the application receives: the whole body, and nothing afterwards."""

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
    """Passes what the application sends to the connection."""

    def __init__(self, connection: Written, *, is_head: bool) -> None:
        self._connection = connection
        self._bodiless = is_head
        self.started = False
        """Whether the application has sent the head."""

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
            await self._connection.write_piece(
                piece,
                last=not message.get("more_body", False),
                left=message.get(LEFT, 0),
                streamed=message.get(STREAMED, False),
            )
