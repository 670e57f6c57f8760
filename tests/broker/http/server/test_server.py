"""The HTTP server: how much memory and time its clients may take."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from starlette.types import Message, Receive, Scope, Send

from arneb.http.server.asgi import LEFT
from arneb.http.server.connection import HttpConnection
from arneb.http.server.long_answers import between_pieces, long_answer
from arneb.http.server.pace import Lane, Pace
from arneb.http.server.room import HELD_S, LONG_AT_ONCE, Room, Share
from arneb.http.server.senders import HOLD, Sender
from arneb.http.server.server import HttpServer
from arneb.settings.http_limits import DEFAULT_LIMITS, HEAD_BYTES_MAX, HttpLimits

KIB = 1024
SMALL = replace(DEFAULT_LIMITS, body_bytes_max=100 * KIB, held_bytes_max=2 * KIB * KIB)
ANSWER = bytes(KIB * KIB)
LEFT_BYTES = 12345


@dataclass
class Client:
    """One end of a connection; the other is served."""

    stream: trio.testing.MemorySendStream
    both: Any

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            await self.both.send_all(piece)

    async def get(self, path: str = "/") -> None:
        await self.send(f"GET {path} HTTP/1.1\r\nhost: here\r\n\r\n".encode())

    async def take(self, size: int) -> None:
        """Read that much of an answer, or more."""
        got = 0
        while got < size:
            piece = await self.both.receive_some()
            assert piece, f"cut off after {got} bytes"
            got += len(piece)

    async def answers(self) -> bytes:
        """Read everything until the server closes."""
        found = b""
        with trio.fail_after(1000):
            while data := await self.both.receive_some():
                found += bytes(data)
        return found


class Served:
    """A server, and an application that records its requests."""

    def __init__(self, limits: HttpLimits, nursery: trio.Nursery) -> None:
        self.server = HttpServer(self._app, limits)
        self.asked: list[tuple[str, bytes]] = []
        self.hold_on = trio.Event()
        self.making = self.made = 0
        """Long answers that are being made, and those that got room and were made."""
        self._nursery = nursery

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        path = scope["path"]
        self.asked.append((path, body))
        if path == "/wait":
            await self.hold_on.wait()
        if path == "/long":
            await long_answer()
            self.making += 1
            await self.hold_on.wait()
            self.making -= 1
        if path in ("/pieces", "/long-pieces"):
            if path == "/long-pieces":
                await long_answer()
            for _ in range(5):
                await between_pieces()
        if path == "/fail":
            raise RuntimeError("a defect of the application")
        if path == "/hold":
            await scope["extensions"][HOLD](SMALL.held_bytes_max // 2)
            self.made += 1
        answer = ANSWER if path in ("/large", "/hold") else b"x"
        start: Message = {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", b"%d" % len(answer)), (b"X-Case", b"y")],
        }
        await send(start)
        message: Message = {"type": "http.response.body", "body": answer}
        await send(message | {LEFT: LEFT_BYTES} if path == "/left" else message)

    def connect(self, *, reads: bool = True, slowly: bool = False) -> Client:
        """A client. Without ``reads`` it takes nothing until the end; with ``slowly`` nothing is
        sent before it reads."""
        ours, theirs = trio.testing.memory_stream_pair()
        if slowly:
            sent, received = trio.testing.lockstep_stream_one_way_pair()
            theirs = trio.StapledStream(sent, theirs.receive_stream)
            ours = trio.StapledStream(ours.send_stream, received)
        elif not reads:
            theirs.send_stream.send_all_hook = trio.sleep_forever
        self._nursery.start_soon(self.server.handle, theirs, Sender())
        return Client(ours.send_stream, ours)


async def passing(seconds: float) -> None:
    """Advance the tests' clock."""
    with trio.move_on_after(seconds):
        await trio.Event().wait()


@asynccontextmanager
async def served(limits: HttpLimits = SMALL) -> AsyncIterator[Served]:
    async with trio.open_nursery() as nursery:
        yield Served(limits, nursery)
        nursery.cancel_scope.cancel()


async def test_requests_are_answered_one_after_the_other() -> None:
    async with served() as one:
        client = one.connect()
        await client.get("/a")
        await client.send(b"PUT /b HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\n{}")
        await client.send(b"PUT /c HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n")
        await client.send(b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n")
        await client.send(b"HEAD /d HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
        text = await client.answers()
        assert one.asked == [("/a", b""), ("/b", b"{}"), ("/c", b"abcde"), ("/d", b"")]
        assert text.count(b"HTTP/1.1 200 OK\r\n") == 4
        assert text.count(b"\r\n\r\nx") == 3
        assert b"X-Case: y" in text


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("http://here/a", "/a"),
        ("HTTPS://[::1]:8080/a/b?c=d", "/a/b"),
        ("http://here", "/"),
        ("http://here?a=/b", "/"),
        ("/http://here/a", "/http://here/a"),
        ("ftp://here/a", "ftp://here/a"),
    ],
)
async def test_an_absolute_url_is_served_by_its_path(target: str, path: str) -> None:
    async with served() as one:
        client = one.connect()
        await client.get(target)
        await client.take(1)
        assert one.asked == [(path, b"")]


async def test_a_client_that_expects_100_continue_gets_it() -> None:
    async with served() as one:
        client = one.connect()
        await client.send(
            b"PUT /a HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"
        )
        assert b"100 " in bytes(await client.both.receive_some())
        await client.send(b"{}")
        assert b"200 " in bytes(await client.both.receive_some())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"PUT / HTTP/1.1\r\nhost: h\r\ncontent-length: 2147483648\r\n\r\n" + bytes(1000), 413),
        (b"PUT / HTTP/1.1\r\nhost: h\r\ncontent-length: " + b"9" * 5000 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nhost: h\r\nx: " + b"y" * 2 * HEAD_BYTES_MAX + b"\r\n\r\n", 431),
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ],
    ids=["body", "length", "host", "headers", "tls", "http/2"],
)
async def test_requests_that_are_too_large_or_not_http_are_refused_at_once(
    sent: bytes, status: int
) -> None:
    async with served() as one:
        client = one.connect()
        await client.send(sent)
        began = trio.current_time()
        await client.both.send_eof()
        assert f"HTTP/1.1 {status} ".encode() in await client.answers()
        assert trio.current_time() - began < 2
        assert not one.asked


async def test_a_chunked_body_is_bounded_too() -> None:
    async with served() as one:
        client = one.connect()
        await client.send(b"PUT / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(30):
            await client.send(b"2800\r\n" + bytes(0x2800) + b"\r\n")
        assert b"HTTP/1.1 413 " in await client.answers()
        assert not one.asked
        assert not one.server.room.bytes


@pytest.mark.parametrize(
    ("begun", "every_s", "within_s", "status"),
    [
        (b"", 1000, SMALL.idle_timeout_s, b""),
        (b"GET / HTTP/1.1\r\nx:", 3, SMALL.head_timeout_s, b"HTTP/1.1 408 "),
        (b"PUT / HTTP/1.1\r\nhost: h\r\ncontent-length: 99\r\n\r\n", 3, SMALL.body_timeout_s,
         b"HTTP/1.1 408 "),
    ],
    ids=["nothing", "headers", "body"],
)  # fmt: skip
async def test_slow_requests_time_out(
    begun: bytes, every_s: float, within_s: float, status: bytes
) -> None:
    async with served() as one, trio.open_nursery() as nursery:
        client = one.connect()
        began = trio.current_time()

        async def drip() -> None:
            while True:
                await passing(every_s)
                await client.send(b"y")

        await client.send(begun)
        nursery.start_soon(drip)
        assert (await client.answers()).startswith(status)
        assert trio.current_time() - began < within_s + 2
        nursery.cancel_scope.cancel()


async def test_an_idle_connection_times_out() -> None:
    async with served() as one:
        client = one.connect()
        await client.get()
        began = trio.current_time()
        assert b"200" in await client.answers()
        assert trio.current_time() - began < SMALL.idle_timeout_s + 2


async def test_a_client_that_does_not_read_times_out() -> None:
    async with served() as one:
        client = one.connect(reads=False)
        await client.get("/large")
        await trio.testing.wait_all_tasks_blocked()
        assert one.server.room.bytes == len(ANSWER)
        await passing(SMALL.write_timeout_s + 1)
        assert not one.server.connections
        assert not one.server.room.bytes


@pytest.mark.parametrize("path", ["/small", "/large", "/healthz"])
async def test_unread_answers_are_bounded_and_others_get_theirs_at_once(path: str) -> None:
    async with served() as one:
        for _ in range(50):
            client = one.connect(reads=False)
            await client.send(b"GET /large HTTP/1.1\r\nhost: h\r\n\r\n" * 20)
            await trio.testing.wait_all_tasks_blocked()
            assert one.server.room.bytes <= SMALL.held_bytes_max
        began = trio.current_time()
        for _ in range(3):
            reader = one.connect()
            await reader.get(path)
            await reader.take(len(ANSWER) if path == "/large" else 1)
        assert trio.current_time() == began
        assert one.server.room.bytes <= SMALL.held_bytes_max


async def test_a_client_that_reads_is_not_cut_off_for_those_that_do_not() -> None:
    """Even though it reads slowly, and has taken longer than any of them."""
    async with served() as one:
        reader, got = one.connect(slowly=True), 0
        await reader.get("/large")
        while got < len(ANSWER):
            await passing(HELD_S / 2)
            piece = await reader.both.receive_some(64 * KIB)
            assert piece, f"cut off after {got} bytes"
            got += len(piece)
            await one.connect(reads=False).get("/large")
            await trio.testing.wait_all_tasks_blocked()
            assert one.server.room.bytes <= SMALL.held_bytes_max


async def test_what_an_application_still_holds_of_an_answer_is_counted() -> None:
    async with served() as one:
        await one.connect(reads=False).get("/left")
        await trio.testing.wait_all_tasks_blocked()
        assert one.server.room.bytes == 1 + LEFT_BYTES


async def test_few_long_answers_are_made_at_a_time_and_others_do_not_wait_for_them() -> None:
    async with served() as one:
        makers = [one.connect() for _ in range(LONG_AT_ONCE + 3)]
        for maker in makers:
            await maker.get("/long")
        await trio.testing.wait_all_tasks_blocked()
        assert one.making == LONG_AT_ONCE
        other = one.connect()
        await other.get("/small")
        assert b"200" in bytes(await other.both.receive_some())
        one.hold_on.set()
        for maker in makers:
            assert b"200" in bytes(await maker.both.receive_some())
        assert not one.making


@pytest.mark.parametrize(("path", "begun"), [("/pieces", 0), ("/long-pieces", 5)])
async def test_only_long_answers_use_the_queue_for_long_answers(
    monkeypatch: pytest.MonkeyPatch, path: str, begun: int
) -> None:
    lanes, begin = list[Lane](), Pace.begin

    async def counted(pace: Pace, lane: Lane) -> None:
        lanes.append(lane)
        await begin(pace, lane)

    monkeypatch.setattr(Pace, "begin", counted)
    async with served() as one:
        client = one.connect()
        await client.get(path)
        assert b"200" in bytes(await client.both.receive_some())
    assert lanes.count(Lane.LONG) == begun


async def test_a_long_answer_that_nobody_reads_is_abandoned() -> None:
    async with served() as one:
        one.hold_on.set()
        for _ in range(LONG_AT_ONCE):
            await one.connect(reads=False).get("/long")
        reader = one.connect()
        began = trio.current_time()
        await reader.get("/long")
        assert b"200" in bytes(await reader.both.receive_some())
        assert trio.current_time() == began


async def test_a_long_answer_waits_a_little_for_clients_that_read() -> None:
    async with served() as one:
        one.hold_on.set()
        reader = one.connect(slowly=True)
        await reader.get("/large")
        await trio.testing.wait_all_tasks_blocked()
        await one.connect(reads=False).get("/large")  # now more than half is held
        await passing(HELD_S / 4)
        got = len(await reader.both.receive_some())
        began = trio.current_time()
        late = one.connect()
        await late.get("/long")
        assert b"200" in bytes(await late.both.receive_some())
        assert 0 < trio.current_time() - began <= HELD_S
        await reader.take(len(ANSWER) - got)
        assert one.server.room.bytes <= SMALL.held_bytes_max


async def test_a_client_that_holds_nothing_is_not_cut_off_to_make_room() -> None:
    """It is not checked again and again, either: an answer may end in an empty piece, which its
    client does not take."""
    room, cut = Room(100), list[str]()
    shares = {name: Share(partial(cut.append, name)) for name in ("empty", "full", "new")}
    for share in shares.values():
        share.yielding = True
    room.add(shares["empty"], 0)
    room.add(shares["full"], 90)
    room.moved(shares["empty"])
    await passing(HELD_S)
    await room.begin_long(shares["new"])
    assert (cut, room.bytes) == (["full"], 0)
    room.add(shares["full"], 90)
    room.add(shares["new"], 90)
    await room.take(shares["empty"], 90)
    assert (cut, room.bytes) == (["full", "full", "new"], 90)
    for share in shares.values():
        room.give_back(share)
        room.give_back(share)
    assert not room.bytes


async def test_a_client_that_waits_to_have_a_long_answer_made_gives_way_to_another() -> None:
    limits = replace(SMALL, connections_max=LONG_AT_ONCE + 1)
    async with served(limits) as one:
        for _ in range(limits.connections_max):
            await one.connect().get("/long")
        await trio.testing.wait_all_tasks_blocked()
        other = one.connect()
        await other.get("/small")
        assert b"200" in bytes(await other.both.receive_some())


async def test_unread_bodies_are_bounded_too() -> None:
    async with served() as one:
        for _ in range(100):
            client = one.connect()
            await client.send(b"PUT / HTTP/1.1\r\nhost: h\r\ncontent-length: 102400\r\n\r\n")
            await client.send(bytes(100 * KIB - 1))
        await trio.testing.wait_all_tasks_blocked()
        assert one.server.room.bytes <= SMALL.held_bytes_max


async def test_what_an_answer_needs_is_reserved_before_it_is_made() -> None:
    async with served() as one:
        for _ in range(10):
            await one.connect(reads=False).get("/hold")
            await trio.testing.wait_all_tasks_blocked()
            assert one.server.room.bytes <= SMALL.held_bytes_max
        assert one.made <= 2
        await passing(20 * HELD_S)
        assert one.made == 10


async def test_clients_of_large_answers_take_turns_and_none_that_reads_is_cut_off() -> None:
    """There are more than fit, and each reads more slowly than the patience for all of them
    allows."""
    async with served() as one, trio.open_nursery() as nursery:
        done = 0

        async def read() -> None:
            nonlocal done
            reader, got = one.connect(slowly=True), 0
            await reader.get("/hold")
            while got < len(ANSWER):
                await passing(HELD_S / 3)
                piece = await reader.both.receive_some(64 * KIB)
                assert piece, f"cut off after {got} bytes"
                got += len(piece)
            done += 1

        for _ in range(5):
            nursery.start_soon(read)
    assert done == 5


async def test_a_small_body_is_accepted_at_once_however_many_do_not_read() -> None:
    async with served() as one:
        for _ in range(50):
            await one.connect(reads=False).get("/large")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        client = one.connect()
        await client.send(b"PUT / HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\n12345")
        assert b"200" in bytes(await client.both.receive_some())
        assert trio.current_time() == began


async def test_a_request_in_progress_is_not_cut_off() -> None:
    """Even though its body takes room that others need."""
    async with served() as one:
        clients = [one.connect() for _ in range(40)]
        for client in clients:
            await client.send(b"PUT /wait HTTP/1.1\r\nhost: h\r\ncontent-length: 51200\r\n\r\n")
            await client.send(bytes(50 * KIB))
        await trio.testing.wait_all_tasks_blocked()
        late = one.connect()
        await late.get("/large")
        await late.take(len(ANSWER))
        one.hold_on.set()
        for client in clients:
            assert b"200" in bytes(await client.both.receive_some())


async def test_an_idle_connection_gives_way_to_a_new_one() -> None:
    async with served(replace(SMALL, connections_max=3)) as one:
        busy = one.connect()
        await busy.get("/wait")
        idle = one.connect()
        await passing(1)
        other = one.connect()
        await passing(1)
        new = one.connect()
        await new.get("/new")
        assert b"200" in bytes(await new.both.receive_some())
        assert await idle.answers() == b""
        assert len(one.server.connections) == 3
        await other.get("/other")
        assert b"200" in bytes(await other.both.receive_some())
        one.hold_on.set()
        assert b"200" in bytes(await busy.both.receive_some())


async def test_a_client_in_the_queue_is_not_cut_off_for_new_ones() -> None:
    async with served(replace(SMALL, connections_max=200)) as one:
        clients = [one.connect() for _ in range(200)]
        await trio.testing.wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(client.get)
        for _ in range(3):
            await trio.lowlevel.checkpoint()
        assert len(one.asked) < 150, "most requests must still be waiting"
        later = [one.connect() for _ in range(20)]
        for client in clients:
            assert b"200" in bytes(await client.both.receive_some())
        assert len(one.server.connections) <= 200
        assert later


async def test_a_new_client_at_a_full_port_causes_few_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at, found_out = list[HttpConnection](), HttpConnection.may_be_cut.fget
    assert found_out is not None

    def may_be_cut(connection: HttpConnection) -> Any:
        looked_at.append(connection)
        return found_out(connection)

    monkeypatch.setattr(HttpConnection, "may_be_cut", property(may_be_cut))
    async with served(replace(SMALL, connections_max=120)) as one:
        busy = [one.connect() for _ in range(100)]
        for client in busy:
            await client.get("/wait")
        for _ in range(20):
            one.connect()
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(50):
            one.connect()
            await trio.testing.wait_all_tasks_blocked()
        assert len(looked_at) == 50
        assert len(one.server.connections) == 120
        one.hold_on.set()
        for client in busy:
            assert b"200" in bytes(await client.both.receive_some())


async def test_a_bug_in_the_application_fails_one_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with served() as one:
        client = one.connect()
        await client.get("/fail")
        assert b"HTTP/1.1 500 " in await client.answers()
        assert "a defect" in caplog.text


async def test_a_stop_waits_for_requests_in_progress() -> None:
    async with served() as one:
        busy, idle = one.connect(), one.connect()
        await busy.get("/wait")
        await trio.testing.wait_all_tasks_blocked()
        one.server.stop()
        assert await idle.answers() == b""
        one.hold_on.set()
        assert b"connection: close" in await busy.answers()
