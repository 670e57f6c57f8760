"""Bodies that a hostile client divides, or whose length it says in two ways."""

import pytest
import trio
from tests.broker.http.server.test_server import SMALL, served

from arneb.http.server.connection import PIECES_A_UNIT
from arneb.http.server.pace import UNITS_A_PASS

CHUNKS = 10_000


async def test_a_body_in_tiny_chunks_is_read_in_many_passes() -> None:
    """A single read brings ten thousand of them."""
    passes = 0

    async def count() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async with served() as one, trio.open_nursery() as nursery:
        client = one.connect()
        await client.send(b"PUT /a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n")
        await client.send(b"1\r\na\r\n" * CHUNKS)
        nursery.start_soon(count)
        await client.send(b"0\r\n\r\n")
        await client.take(1)
        nursery.cancel_scope.cancel()
    assert one.asked == [("/a", b"a" * CHUNKS)]
    assert passes > CHUNKS / PIECES_A_UNIT / UNITS_A_PASS


@pytest.mark.parametrize(
    "head",
    [
        b"PUT /a HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
        b"PUT /a HTTP/1.1\r\nhost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n",
        b"PUT /a HTTP/1.0\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n",
    ],
)
async def test_a_request_with_two_lengths_is_refused_with_everything_after_it(head: bytes) -> None:
    """Its body may hold another request, which a proxy in front takes for a part of the body."""
    async with served(SMALL) as one:
        client = one.connect()
        await client.send(head + b"0\r\n\r\nGET /hidden HTTP/1.1\r\nhost: h\r\n\r\n")
        answers = await client.answers()
        assert answers.startswith(b"HTTP/1.1 400 ")
        assert answers.count(b"HTTP/1.1 ") == 1
        assert not one.asked
