"""The HTTP port over TLS: the same server, and silent clients are the first to be closed."""

import socket
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from conformance.brokers.arneb import Arneb
from conformance.brokers.certificates import make_certificate

from arneb.http.server.server import ByTls, HttpServer, SecuredStream
from arneb.settings.http_limits import DEFAULT_LIMITS
from pyspark_arneb.service.connection import Address, ask, close_connections
from pyspark_arneb.service.errors import ServiceError


@pytest.mark.real_time
def test_the_port_is_served_only_by_tls_to_clients_that_trust_it(tmp_path: Path) -> None:
    root = make_certificate(tmp_path, "root")
    make_certificate(tmp_path, "broker", root)
    make_certificate(tmp_path, "other")
    tls = 'listen = "127.0.0.1:0"\ncertificate = "{0}.crt"\nkey = "{0}.key"\n'
    settings = f"[http.tls]\n{tls.format(tmp_path / 'broker')}"
    broker = Arneb(tmp_path / "one", listeners=("amqp", "http-tls"), settings=settings).start()
    url = f"https://{broker.https_address}"
    try:
        for name in ("root", "root"):
            trusting = Address(url, authorities=(tmp_path / f"{name}.crt").read_text())
            assert ask(trusting, "GET", "")["version"] == 1
            close_connections()
        other = (tmp_path / "other.crt").read_text()
        for address in (Address(url), Address(url, authorities=other)):
            with pytest.raises(ServiceError, match=r"not vouched for: .*service.caFile") as wrong:
                ask(address, "GET", "")
            assert "\n" not in str(wrong.value)
        with pytest.raises(ServiceError, match="cannot reach the broker at http://"):
            ask(Address(url.replace("https", "http")), "GET", "", again=False)
    finally:
        close_connections()
        broker.stop()


async def test_of_the_clients_that_do_not_shake_hands_the_first_is_closed() -> None:
    shaking: list[trio.SocketStream] = []
    left: list[trio.SocketStream] = []

    async def secure(stream: trio.SocketStream) -> SecuredStream:
        shaking.append(stream)
        try:
            await trio.sleep_forever()
        finally:
            left.append(stream)
        raise AssertionError

    async def app(*_: object) -> None:
        raise AssertionError("nobody has asked for anything")

    server = HttpServer(app, replace(DEFAULT_LIMITS, connections_max=2, head_timeout_s=10))
    serve = server.accepted_by(ByTls((), secure))
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(_client, serve)
            await trio.testing.wait_all_tasks_blocked()
            assert len(shaking) == number + 1
        assert left == shaking[:1], "the first handshake must be the one that ended"
    assert len(left) == 3 and trio.current_time() == begun + 10, (
        "the others must end when their own time is up"
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_client, serve)
        await trio.testing.wait_all_tasks_blocked()
        server.stop()
    await _client(serve)
    assert len(shaking) == 4, "no further client may begin a handshake"


async def _client(serve: Callable[[trio.SocketStream], Awaitable[None]]) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        await serve(trio.SocketStream(trio.socket.from_stdlib_socket(theirs)))
