"""Whole answers: what another application answers, as one value, before any of it is passed on.

The rule: once there is more of it than the caller can use nothing more is held, so whoever looks at
the size knows that some is missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Message, Scope, Send

UNAVAILABLE: Final = 503
"""Of an application that said nothing."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an application has said."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    """Without the length, which is that of the body."""
    body: bytes

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    async def pass_on(self, send: Send, *, is_head: bool = False) -> None:
        """Answer so; ``is_head``: without the body, as a request asked."""
        headers = [*self.headers, (b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if is_head else self.body})


async def whole_answer(app: ASGIApp, scope: Scope, bytes_max: int, body: bytes = b"") -> Answer:
    """What ``app`` answers to a request with that body."""
    status, headers, said = UNAVAILABLE, list[tuple[bytes, bytes]](), bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def take(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = [each for each in message["headers"] if each[0].lower() != b"content-length"]
        elif len(said) <= bytes_max:
            said.extend(message.get("body", b""))

    await app(scope, receive, take)
    return Answer(status, headers, bytes(said))
