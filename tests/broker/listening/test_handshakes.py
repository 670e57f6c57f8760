"""Handshakes: in threads, a few at a time, and none of them blocks the event loop."""

import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Event, Lock, current_thread, main_thread
from typing import Any

import pytest
import trio
from conformance.brokers.certificates import make_certificate

from arneb.listening.handshakes import THREADS, Handshakes
from arneb.settings.tls import TlsConfig, read_tls

pytestmark = pytest.mark.real_time


class Certificates:
    """Those of a server and of the clients that it verifies."""

    def __init__(self, directory: Path) -> None:
        root = make_certificate(directory, "root")
        for owner in ("server", "client"):
            make_certificate(directory, owner, root)
        self.server = TlsConfig(directory / "server.crt", directory / "server.key")
        self.mutual = TlsConfig(
            self.server.certificate, self.server.key, client_ca=directory / "root.crt"
        )
        self.client = ssl.create_default_context(cafile=directory / "root.crt")
        self.known = ssl.create_default_context(cafile=directory / "root.crt")
        self.known.load_cert_chain(directory / "client.crt", directory / "client.key")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls"))


class TlsServer:
    """A listener that sends a greeting when the handshake is complete."""

    def __init__(self, handshakes: Handshakes) -> None:
        self.handshakes = handshakes
        self.port = 0
        self.failures: list[str] = []
        self.seen: list[Any] = []

    async def serve(self, task_status: trio.TaskStatus[None]) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        async with trio.open_nursery() as nursery:
            serve = partial(trio.serve_listeners, self._greet, listeners)
            await nursery.start(serve)
            task_status.started()

    async def _greet(self, transport: trio.SocketStream) -> None:
        try:
            stream = await self.handshakes.secure(transport)
        except trio.BrokenResourceError as error:
            self.failures.append(str(error))
            await trio.aclose_forcefully(transport)
            return
        self.seen.append(stream.getpeercert())
        await stream.send_all(b"hello")
        await stream.receive_some()
        await trio.aclose_forcefully(stream)


@asynccontextmanager
async def opened(context: ssl.SSLContext) -> AsyncIterator[TlsServer]:
    async with trio.open_nursery() as nursery:
        listener = TlsServer(Handshakes(context))
        await nursery.start(listener.serve)
        with trio.fail_after(20):
            yield listener
        nursery.cancel_scope.cancel()


def connect(port: int, context: ssl.SSLContext, session: Any = None) -> tuple[bool, Any]:
    """Whether the session was resumed, and the session; blocks."""
    with (
        socket.create_connection(("127.0.0.1", port), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as stream,
    ):
        assert stream.recv(5) == b"hello"
        return bool(stream.session_reused), stream.session


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("mutual", [False, True])
async def test_a_returning_client_resumes_its_session(
    certificates: Certificates, version: ssl.TLSVersion, mutual: bool
) -> None:
    client = certificates.known if mutual else certificates.client
    context = read_tls(certificates.mutual if mutual else certificates.server)
    context.minimum_version = context.maximum_version = version
    async with opened(context) as listener:
        reused, session = await trio.to_thread.run_sync(connect, listener.port, client)
        assert not reused
        for _ in range(3):
            reused, session = await trio.to_thread.run_sync(connect, listener.port, client, session)
            assert reused
    assert len(listener.seen) == 4
    assert all(bool(each) is mutual for each in listener.seen), (
        "the client's certificate must be known all the same"
    )


class SlowContext:
    """A context whose sessions take as long as the test says.

    Threads are counted and held up. When nothing is left to be done, trio calls the handshake once
    more in its own thread.
    """

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        self._lock = Lock()
        self.go_on = Event()
        self.at_work = self.at_work_max = 0

    def wrap_bio(self, *arguments: Any) -> Any:
        tls, slow = self._context.wrap_bio(*arguments), self

        class SlowSession:
            def do_handshake(self) -> None:
                if current_thread() is main_thread():
                    return tls.do_handshake()
                with slow._lock:
                    slow.at_work += 1
                    slow.at_work_max = max(slow.at_work_max, slow.at_work)
                try:
                    assert slow.go_on.wait(10)
                    tls.do_handshake()
                finally:
                    with slow._lock:
                        slow.at_work -= 1

            def __getattr__(self, name: str) -> Any:
                return getattr(tls, name)

        return SlowSession()


async def test_the_loop_continues_during_handshakes_a_few_at_a_time(
    certificates: Certificates,
) -> None:
    slow: Any = SlowContext(read_tls(certificates.server))
    async with opened(slow) as listener, trio.open_nursery() as nursery:
        for _ in range(5 * THREADS):
            nursery.start_soon(trio.to_thread.run_sync, connect, listener.port, certificates.client)
        limiter = listener.handshakes._limiter
        while slow.at_work + limiter.statistics().tasks_waiting < 5 * THREADS:
            await trio.lowlevel.checkpoint()  # the loop is free to check
        slow.go_on.set()
    assert slow.at_work_max == THREADS
    assert len(listener.seen) == 5 * THREADS


@pytest.mark.parametrize(
    ("data", "failure"),
    [
        (b"", "disconnected before"),
        (b"GET / HTTP/1.1\r\n\r\n" * 9, "no handshake"),
        (b"\x16", "disconnected"),
    ],
)
async def test_the_reason_of_a_failed_handshake_is_named(
    certificates: Certificates, data: bytes, failure: str
) -> None:
    async with opened(read_tls(certificates.server)) as listener:
        stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
        if data:
            await stream.send_all(data)
        await stream.send_eof()
        while not listener.failures:
            await trio.lowlevel.checkpoint()
        await trio.aclose_forcefully(stream)
        assert failure in listener.failures[0]


async def test_a_hello_in_pieces_is_recognised(certificates: Certificates) -> None:
    async with opened(read_tls(certificates.server)) as listener:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = certificates.client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        stream = await trio.open_tcp_stream("127.0.0.1", listener.port)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                data = outgoing.read()
                for start in range(0, len(data), 40):
                    await stream.send_all(data[start : start + 40])
                incoming.write(await stream.receive_some())
        await stream.send_all(outgoing.read())
        while not listener.seen:
            await trio.lowlevel.checkpoint()
        await trio.aclose_forcefully(stream)
