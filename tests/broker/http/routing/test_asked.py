"""An answer of another node: it is passed on to its end, or seen to be incomplete."""

from typing import Any

import pytest
import trio
import trio.testing

from arneb.http.routing.asked import BrokenOff, pass_on

SCOPE: dict[str, Any] = {"method": "GET", "path": "/api/overview", "headers": []}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n"


async def passed_on(answer: bytes) -> tuple[bool, list[bytes]]:
    """Whether an answer has begun, and the pieces of its body."""
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(answer)
    await theirs.send_eof()
    pieces: list[bytes] = []

    async def send(message: Any) -> None:
        pieces.append(message.get("body", b""))

    return await pass_on(ours, SCOPE, b"", send), pieces


async def test_a_whole_answer_is_passed_on_unchanged() -> None:
    begun, pieces = await passed_on(HEAD + b"text")
    assert begun
    assert b"".join(pieces) == b"text"


async def test_an_answer_that_breaks_off_is_broken_off_here() -> None:
    with pytest.raises(BrokenOff):
        await passed_on(HEAD + b"ha")


async def test_without_an_answer_another_may_be_asked() -> None:
    assert await passed_on(b"") == (False, [])
