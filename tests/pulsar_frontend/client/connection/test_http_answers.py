"""HTTP answers: read whole, up to a bound."""

import gzip
from collections.abc import AsyncIterator

import anyio
import httpx
import pytest

from arneb_pulsar.client.connection import http_answers
from arneb_pulsar.client.connection.http_answers import answer_of
from arneb_pulsar.client.errors import UnexpectedAnswer

HALF_READ = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""httpx leaves the generators of an answer that is not read to its end to the garbage collector."""

URL = "http://broker:8080/admin"


async def asked(answer: httpx.Response) -> httpx.Response:
    transport = httpx.MockTransport(lambda _request: answer)
    async with httpx.AsyncClient(transport=transport, timeout=30) as http:
        return await answer_of(http, http.build_request("GET", URL))


@pytest.mark.parametrize("packed", [False, True])
async def test_an_answer_is_read_whole(packed: bool) -> None:
    body = b'["hare"]'
    headers = {"Content-Type": "application/json"}
    if packed:
        headers["Content-Encoding"] = "gzip"
    found = await asked(
        httpx.Response(200, headers=headers, content=gzip.compress(body) if packed else body)
    )
    assert (found.json(), found.status_code) == (["hare"], 200)
    assert found.url == URL


async def test_a_refusal_is_an_answer() -> None:
    found = await asked(httpx.Response(404, json={"reason": "no such topic"}))
    assert (found.is_success, found.json()["reason"]) == (False, "no such topic")


async def test_of_a_redirect_it_is_said_where_it_leads() -> None:
    found = await asked(httpx.Response(307, headers={"Location": "http://other:8080/admin"}))
    assert found.next_request is not None
    assert found.next_request.url == "http://other:8080/admin"


@HALF_READ
async def test_an_answer_without_end_is_not_read_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_answers, "ANSWER_BYTES_MAX", 10_000)
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1_000
            yield bytes(1_000)

    with pytest.raises(UnexpectedAnswer, match="at most 10000 bytes of broker:8080"):
        await asked(httpx.Response(200, content=endless()))
    assert read == 11_000
    assert len((await asked(httpx.Response(200, content=bytes(10_000)))).content) == 10_000


@HALF_READ
async def test_compressed_answers_count_with_their_decompressed_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_answers, "ANSWER_BYTES_MAX", 1 << 20)
    bomb = gzip.compress(bytes(64 << 20))
    assert len(bomb) < 1 << 20
    with pytest.raises(UnexpectedAnswer):
        await asked(httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=bomb))


async def test_an_answer_that_trickles_is_given_up() -> None:
    async def trickling() -> AsyncIterator[bytes]:
        while True:
            await anyio.sleep(1)
            yield b"x"

    began = anyio.current_time()
    with pytest.raises(TimeoutError):
        await asked(httpx.Response(200, content=trickling()))
    assert anyio.current_time() - began == pytest.approx(30)
