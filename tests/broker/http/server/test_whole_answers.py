"""Whole answers: how much is held for all requests together."""

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from arneb.http.server.whole_answers import HELD, Answer, holding, whole_answer

SIZE = 100
MAX = 1_000


def says(*pieces: bytes) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


async def asked(*pieces: bytes) -> Answer:
    return await whole_answer(says(*pieces), {}, MAX)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HELD, "bytes_max", SIZE)


async def test_what_is_held_for_a_request_is_freed_at_its_end() -> None:
    with holding():
        assert (await asked(b"a" * 30, b"b" * 30)).body == b"a" * 30 + b"b" * 30
        await asked(b"c" * 20)
        assert HELD.bytes == 80
    assert HELD.bytes == 0
    with pytest.raises(ZeroDivisionError), holding():
        await asked(b"a" * 30)
        raise ZeroDivisionError
    assert HELD.bytes == 0


async def test_a_request_that_would_need_too_much_beside_others_is_told_to_retry() -> None:
    with holding():
        await asked(b"a" * 60)
        with holding():
            answer = await asked(b"b" * 30, b"b" * 30, b"b" * 5)
            assert (answer.status, dict(answer.headers)[b"retry-after"]) == (503, b"1")
            assert b"90 bytes" in answer.body
            assert HELD.bytes == 90
        assert (await asked(b"a" * 10)).status == 200
    assert HELD.bytes == 0


async def test_a_single_request_has_only_its_own_bound() -> None:
    with holding():
        assert len((await asked(b"a" * 300, b"b" * 300)).body) == 600
    assert HELD.bytes == 0
