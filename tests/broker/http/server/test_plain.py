"""The stream over a client's socket, and how new clients are admitted."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
import trio
from starlette.types import Receive, Scope, Send
from trio.testing import wait_all_tasks_blocked

from arneb.http.server.pace import UNITS_A_PASS, Lane, Pace
from arneb.http.server.server import HttpServer
from arneb.settings.http_limits import DEFAULT_LIMITS, HttpLimits
from arneb_core.api.connections.plain_stream import TURN_BYTES, PlainStream

pytestmark = pytest.mark.real_time

QUESTION = b"GET /small HTTP/1.1\r\nhost: here\r\n\r\n"
MUCH = bytes(range(256)) * 32 * 1024


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[PlainStream, trio.SocketStream]]:
    """A stream, and its client."""
    ours, theirs = socket.socketpair()
    stream = PlainStream(ours)
    async with trio.SocketStream(trio.socket.from_stdlib_socket(theirs)) as client:
        with trio.fail_after(20):
            yield stream, client
        stream.close()


async def test_available_data_is_received_and_what_fits_is_sent_at_once() -> None:
    async with pair() as (stream, client):
        await client.send_all(b"abcdef")
        with trio.CancelScope() as scope:
            scope.cancel()  # a checkpoint would end it
            assert stream.has_come(3) == stream.has_come(3) == b"abc"
            assert await stream.receive_some(4) == b"abcd"
            assert await stream.receive_some() == b"ef"
            assert stream.has_come(3) == b""
            await stream.send_all(b"answer")
        assert not scope.cancelled_caught
        assert await client.receive_some() == b"answer"
        await client.send_eof()
        assert await stream.receive_some() == b""


async def test_it_waits_for_a_client_that_reads_and_writes_later() -> None:
    async with pair() as (stream, client), trio.open_nursery() as nursery:
        sent, heard, received = trio.Event(), list[bytes](), bytearray()

        async def send() -> None:
            await stream.send_all(MUCH)
            sent.set()

        async def receive() -> None:
            heard.append(await stream.receive_some())

        nursery.start_soon(send)
        nursery.start_soon(receive)
        await wait_all_tasks_blocked()
        assert not sent.is_set() and not heard
        await client.send_all(b"late")
        while len(received) < len(MUCH):
            received += await client.receive_some()
        assert received == MUCH
        await sent.wait()
    assert heard == [b"late"]


async def test_others_get_a_turn_after_each_piece_of_a_large_answer() -> None:
    async with pair() as (stream, client), trio.open_nursery() as nursery:
        steps, over = 0, False

        async def another() -> None:
            nonlocal steps
            while not over:
                await trio.lowlevel.checkpoint()
                steps += 1

        nursery.start_soon(another)
        nursery.start_soon(client.send_all, MUCH)
        taken, begun, turns = 0, 0, 0
        while taken < len(MUCH):
            before = steps
            taken += len(await stream.receive_some())
            turns += steps > before
            begun += 1
        assert turns >= begun // 2 and turns >= len(MUCH) // TURN_BYTES // 2
        over = True


async def test_requests_that_arrive_together_are_answered_one_per_turn() -> None:
    async with opened() as port, trio.open_nursery() as nursery:
        client = await port.come(5 * QUESTION)
        turns: list[trio.lowlevel.Task] = []

        class Turns(trio.abc.Instrument):
            def before_task_step(self, task: trio.lowlevel.Task) -> None:
                turns.append(task)

        nursery.start_soon(port.server.accepted, await port.listener.accept())
        trio.lowlevel.add_instrument(turned := Turns())
        answers = b""
        while answers.count(b"200 OK") < 5:
            answers += await client.receive_some()
        trio.lowlevel.remove_instrument(turned)
        server = {each for each in turns if "accepted" in each.name}
        assert sum(each in server for each in turns) >= 5
        nursery.cancel_scope.cancel()


async def test_either_side_notices_the_end() -> None:
    async with pair() as (stream, client):
        await stream.send_eof()
        assert await client.receive_some() == b""
        await client.aclose()
        with pytest.raises(trio.BrokenResourceError):
            await stream.send_all(MUCH)
        await stream.send_eof()  # it does not matter any more
        stream.close()
        stream.close()
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some()
        with pytest.raises(trio.ClosedResourceError):
            await stream.send_all(b"x")
        assert stream.has_come(1) == b""
    async with pair() as (stream, _), trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(trio.ClosedResourceError):
                await stream.receive_some()

        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        await stream.aclose()


@dataclass
class Port:
    """A server at a real port."""

    server: HttpServer
    listener: trio.SocketListener
    clients: list[trio.SocketStream] = field(default_factory=list)

    async def come(self, data: bytes) -> trio.SocketStream:
        """A client that has sent something before the server sees it."""
        port = self.listener.socket.getsockname()[1]
        client = await trio.open_tcp_stream("127.0.0.1", port)
        if data:
            await client.send_all(data)
        self.clients.append(client)
        return client


async def _application(_: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]}
    )
    await send({"type": "http.response.body", "body": b"x"})


@asynccontextmanager
async def opened(limits: HttpLimits = DEFAULT_LIMITS) -> AsyncIterator[Port]:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    with trio.fail_after(20):
        port = Port(HttpServer(_application, limits), listeners[0])
        yield port
    for each in (*listeners, *port.clients):
        await each.aclose()


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Lane]:
    """What was begun at any port. Clients that have connected and sent no complete request are not
    in it."""
    lanes, begin = list[Lane](), Pace.begin

    async def counted(pace: Pace, lane: Lane) -> None:
        lanes.append(lane)
        if lane is Lane.COMING:
            await trio.sleep_forever()
        await begin(pace, lane)

    monkeypatch.setattr(Pace, "begin", counted)
    return lanes


@pytest.mark.parametrize(
    "first", [b"", QUESTION[:-1], b"PUT / HTTP/1.1\r\nx: y"], ids=["nothing", "part", "head"]
)
async def test_clients_that_have_sent_a_request_overtake_those_that_have_only_connected(
    begun: list[Lane], first: bytes
) -> None:
    async with opened() as port, trio.open_nursery() as nursery:
        for text in (first, first, QUESTION):
            client = await port.come(text)
            nursery.start_soon(port.server.accepted, await port.listener.accept())
        assert b"200" in await client.receive_some()
        assert begun == [Lane.COMING, Lane.COMING, Lane.NEW]
        assert len(port.server.connections) == 1
        nursery.cancel_scope.cancel()


async def test_of_the_clients_that_have_only_connected_a_few_wait_and_the_others_are_closed(
    begun: list[Lane],
) -> None:
    limits = replace(DEFAULT_LIMITS, connections_max=2)
    async with opened(limits) as port, trio.open_nursery() as nursery:
        silent = []
        for _ in range(4):
            silent.append(await port.come(b""))
            nursery.start_soon(port.server.accepted, await port.listener.accept())
            await wait_all_tasks_blocked()
        for each in silent[2:]:
            assert await each.receive_some() == b"", "a connection beyond the limit must be closed"
        client = await port.come(QUESTION)
        nursery.start_soon(port.server.accepted, await port.listener.accept())
        assert b"200" in await client.receive_some()
        assert begun == [Lane.COMING, Lane.COMING, Lane.NEW]
        nursery.cancel_scope.cancel()


async def test_a_client_that_has_only_connected_is_soon_begun_with_and_answered() -> None:
    async with opened() as port, trio.open_nursery() as nursery:
        clients = []
        for _ in range(UNITS_A_PASS):
            clients.append(await port.come(b""))
            nursery.start_soon(port.server.accepted, await port.listener.accept())
        for each in clients:
            await each.send_all(QUESTION)
            assert b"200" in await each.receive_some()
        nursery.cancel_scope.cancel()


async def test_clients_that_took_too_long_are_answered_a_few_per_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lanes, begin = list[Lane](), Pace.begin

    async def counted(pace: Pace, lane: Lane) -> None:
        lanes.append(lane)
        await begin(pace, lane)

    monkeypatch.setattr(Pace, "begin", counted)
    limits = replace(DEFAULT_LIMITS, head_timeout_s=0.01, body_timeout_s=0.01)
    requests = (QUESTION[:-1], b"PUT / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n")
    for text, coming in zip(requests, (Lane.COMING, Lane.NEW), strict=True):
        async with opened(limits) as port, trio.open_nursery() as nursery:
            client = await port.come(text)
            nursery.start_soon(port.server.accepted, await port.listener.accept())
            assert b"HTTP/1.1 408" in await client.receive_some()
            nursery.cancel_scope.cancel()
        assert lanes[0] is coming and lanes[-1] is Lane.PART
        lanes.clear()
