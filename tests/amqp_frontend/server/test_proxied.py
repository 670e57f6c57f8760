"""Clients behind a proxy: the proxy header gives their address, and the rules for that address
apply."""

import contextlib
import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pamqp.commands import Connection
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread
from tests.amqp_frontend.server.raw import RawClient

from arneb_amqp.config import AmqpConfig, User

FROM_AFAR = b"PROXY TCP4 203.0.113.9 198.51.100.1 40000 5672\r\n"
FROM_HERE = b"PROXY TCP4 127.0.0.1 198.51.100.1 40000 5672\r\n"
MAPPED = b"PROXY TCP6 ::ffff:127.0.0.1 ::1 40000 5672\r\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    config = AmqpConfig(
        users=(User("guest", "guest", loopback_only=True), User("far", "far")),
        proxy_protocol=True,
    )
    yield from serve_in_thread(tmp_path_factory.mktemp("proxied") / "data", config)


def logs_in(broker: Broker, header: bytes, user: str) -> bool:
    with RawClient(broker.port) as client:
        client.socket.sendall(header + b"AMQP\0\0\x09\x01")
        client.expect(Connection.Start)
        client.send(
            Connection.StartOk,
            client_properties={}, mechanism="PLAIN",
            response=f"\0{user}\0{user}".encode(), locale="en_US",
        )  # fmt: skip
        try:
            client.expect(Connection.Tune)
        except (AssertionError, ConnectionError):
            return False
        return True


@pytest.mark.parametrize("header", [FROM_HERE, MAPPED, b"PROXY UNKNOWN\r\n"])
def test_a_local_client_behind_a_proxy_counts_as_local(broker: Broker, header: bytes) -> None:
    assert logs_in(broker, header, "guest")


def test_a_remote_client_behind_a_local_proxy_does_not_count_as_local(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    assert logs_in(broker, FROM_AFAR, "far")
    assert not logs_in(broker, FROM_AFAR, "guest")
    assert "can only connect via localhost (from 203.0.113.9)" in caplog.text


@pytest.mark.parametrize("data", [b"AMQP\0\0\x09\x01 and more", b"PROXY TCP4 x\r\n", b"\0" * 16])
def test_without_a_header_nobody_is_served(
    broker: Broker, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    with socket.create_connection(("127.0.0.1", broker.port), timeout=5) as client:
        client.sendall(data)
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100) == b""
    assert "of the PROXY protocol" in caplog.text


def test_a_client_that_sends_no_header_is_disconnected(tmp_path: Any) -> None:
    config = AmqpConfig(proxy_protocol=True, handshake_s=0.1)
    for broker in serve_in_thread(tmp_path / "data", config):
        with socket.create_connection(("127.0.0.1", broker.port), timeout=5) as client:
            client.sendall(b"PROXY")
            assert client.recv(100) == b""
