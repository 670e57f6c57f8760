"""Whole answers: another application's answer as one value, before any of it is passed on.

The rule: an answer that exceeds the caller's bound is not held any further, so its size shows that
some is missing. The answers to all requests together are bounded by :data:`ALL_BYTES_MAX`: a
request that would need more is asked to try again.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from starlette.types import ASGIApp, Message, Scope, Send

UNAVAILABLE: Final = 503
"""The status if an application sent nothing."""

ALL_BYTES_MAX: Final = 128 * 1024 * 1024
"""The answers to all requests of the process, while they are combined: two of the largest, as two
long answers are made at a time (:data:`.room.LONG_AT_ONCE`). The objects made from them take
several times that."""

RETRY_S: Final = 1
""":data:`.room.HELD_S`: by then a client that reads nothing of its answer has been cut off."""


class Held:
    """The bytes held for all requests together.

    Invariant: ``bytes`` is the sum over all requests, and at most ``bytes_max`` unless a single
    request holds it all.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0

    def __repr__(self) -> str:
        return f"<Held {self.bytes}/{self.bytes_max} bytes>"


class _Request:
    """The bytes held for one request."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0

    def __repr__(self) -> str:
        return f"<_Request holds {self.bytes} bytes>"

    def take(self, size: int) -> bool:
        """Hold ``size`` more if there is room, and return whether there is. A request that is alone
        always has room, up to its own bound."""
        if HELD.bytes > self.bytes and HELD.bytes + size > HELD.bytes_max:
            return False
        self.bytes += size
        HELD.bytes += size
        return True


HELD: Final = Held(ALL_BYTES_MAX)
_REQUEST: Final[ContextVar[_Request | None]] = ContextVar("answers are held for", default=None)


@contextmanager
def holding() -> Iterator[None]:
    """Count the answers of :func:`whole_answer` in this block as held: they, or what is made from
    them, stay in memory until its end."""
    request = _Request()
    before = _REQUEST.set(request)
    try:
        yield
    finally:
        _REQUEST.reset(before)
        HELD.bytes -= request.bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An application's answer."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    """Without the content length."""
    body: bytes

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    async def pass_on(self, send: Send, *, is_head: bool = False) -> None:
        """Send this answer; for a HEAD request, without the body."""
        headers = [*self.headers, (b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if is_head else self.body})


async def whole_answer(app: ASGIApp, scope: Scope, bytes_max: int, body: bytes = b"") -> Answer:
    """Return the answer of ``app`` to a request with that body; 503 while too much is held."""
    status, headers, content = UNAVAILABLE, list[tuple[bytes, bytes]](), bytearray()
    request, has_room = _REQUEST.get(), True

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def take(message: Message) -> None:
        nonlocal status, headers, has_room
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = [each for each in message["headers"] if each[0].lower() != b"content-length"]
        elif len(content) <= bytes_max and has_room:
            piece = message.get("body", b"")
            has_room = request is None or request.take(len(piece))
            if has_room:
                content.extend(piece)

    await app(scope, receive, take)
    return Answer(status, headers, bytes(content)) if has_room else _come_again()


def _come_again() -> Answer:
    reason = f"answers of {HELD.bytes} bytes are being put together: ask again in {RETRY_S} s"
    headers = [(b"content-type", b"application/json"), (b"retry-after", str(RETRY_S).encode())]
    body = json.dumps({"error": "unavailable", "reason": reason}).encode()
    return Answer(UNAVAILABLE, headers, body)
