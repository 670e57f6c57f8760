"""The end of a connection: the socket is always closed, and the messages it held are returned."""

import socket
from pathlib import Path
from typing import Any

import pytest
from pamqp.commands import Basic, Connection, Queue
from pika.exceptions import ChannelClosedByBroker
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread
from tests.amqp_frontend.server.raw import RawClient

from arneb_amqp.config import AmqpConfig
from arneb_amqp.server import connection as module
from arneb_amqp.wire.constants import HEARTBEAT_FRAME

LONG_S = 60.0
SHORT_S = 0.05
PATIENCE = 300
"""Attempts, a tenth of a second apart."""


def say_goodbye(client: RawClient) -> None:
    client.send(Connection.Close, reply_code=200, reply_text="bye", class_id=0, method_id=0)


def waits(client: RawClient) -> bool:
    """Nothing arrives, not even the end of the stream."""
    client.socket.settimeout(0.1)
    try:
        return client.socket.recv(1) != b""
    except TimeoutError:
        return True


def ended(client: RawClient) -> bool:
    """The broker has closed the socket, after everything it still had to send."""
    client.socket.settimeout(PATIENCE / 10)
    try:
        while client.socket.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def comes_back(broker: Any, queue: str, messages: int) -> None:
    """All messages of ``queue`` are ready again."""
    watching = broker.connect()
    channel = watching.channel()
    for _ in range(PATIENCE):
        if channel.queue_declare(queue, passive=True).method.message_count == messages:
            break
        watching.process_data_events(0.1)
    else:
        raise AssertionError("they did not come back")
    watching.close()


def held_by(broker: Any, client: RawClient, queue: str) -> None:
    """Messages of ``queue`` are in flight to ``client``, which has read them."""
    publisher = broker.connect()
    channel = publisher.channel()
    channel.queue_declare(queue)
    for _ in range(3):
        channel.basic_publish("", queue, b"x")
    client.send(Basic.Consume, 1, queue=queue, consumer_tag="raw")
    client.expect(Basic.ConsumeOk)
    for _ in range(3):
        client.skip_delivery()
    assert channel.queue_declare(queue, passive=True).method.message_count == 0
    publisher.close()


def test_the_client_closes_the_socket_first(broker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER_S", LONG_S)
    with RawClient(broker.port).open() as client:
        say_goodbye(client)
        client.expect(Connection.CloseOk)
        assert waits(client)
        client.socket.shutdown(socket.SHUT_WR)
        assert ended(client)


@pytest.mark.parametrize("is_talking", [False, True])
def test_a_client_that_never_closes_is_closed(
    broker: Any, monkeypatch: pytest.MonkeyPatch, is_talking: bool
) -> None:
    monkeypatch.setattr(module, "LINGER_S", SHORT_S)
    with RawClient(broker.port).open() as client:
        say_goodbye(client)
        client.expect(Connection.CloseOk)
        if is_talking:
            client.socket.settimeout(PATIENCE / 10)
            with pytest.raises(ConnectionError):
                while True:
                    client.socket.sendall(HEARTBEAT_FRAME * 1000)
        else:
            assert ended(client)


def test_a_client_that_closes_and_reads_nothing_is_disconnected(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LINGER_S", SHORT_S)
    publisher = broker.connect()
    channel = publisher.channel()
    channel.queue_declare("unread at the end")
    for _ in range(3000):
        channel.basic_publish("", "unread at the end", b"x" * 8192)
    # Messages are returned when the connection has ended.
    with RawClient(broker.port).open() as client:
        client.send(Basic.Consume, 1, queue="unread at the end", consumer_tag="raw")
        client.expect(Basic.ConsumeOk)
        say_goodbye(client)
        comes_back(broker, "unread at the end", 3000)
        assert ended(client)
    publisher.close()


def test_messages_of_a_client_are_returned_however_long_that_takes(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket is not kept open for it; but a consumer left behind would withhold its messages
    from everybody else."""
    with RawClient(broker.port).open() as client:
        held_by(broker, client, "given back late")
        monkeypatch.setattr(module, "CLEANUP_S", 0)
    comes_back(broker, "given back late", 3)


def test_an_exclusive_queue_goes_however_long_that_takes(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else could ever use its name again."""
    with RawClient(broker.port).open() as client:
        client.send(Queue.Declare, 1, queue="gone late", exclusive=True)
        client.expect(Queue.DeclareOk)
        monkeypatch.setattr(module, "CLEANUP_S", 0)
    watching = broker.connect()
    for _ in range(PATIENCE):
        try:
            watching.channel().queue_declare("gone late", exclusive=True)
            break
        except ChannelClosedByBroker:
            watching.process_data_events(0.1)
    else:
        raise AssertionError("the queue is still there")
    watching.close()


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A broker with the shortest heartbeats, which does not wait for dead clients."""
    monkeypatch.setattr(module, "LINGER_S", SHORT_S)
    yield from serve_in_thread(tmp_path / "data", AmqpConfig(heartbeat_s=1, close_s=0.2))


def test_messages_of_a_dead_client_are_returned(quick: Broker) -> None:
    """Its machine is gone: it sends no heartbeats, and nobody closes the socket for it."""
    with RawClient(quick.port).open(heartbeat=1) as dead:
        held_by(quick, dead, "held by the dead")
        comes_back(quick, "held by the dead", 3)


def test_messages_of_a_client_that_does_not_read_an_error_are_returned(quick: Broker) -> None:
    with RawClient(quick.port).open() as stubborn:
        held_by(quick, stubborn, "held by the stubborn")
        stubborn.send(Basic.Qos, 1, prefetch_size=1, prefetch_count=0)
        comes_back(quick, "held by the stubborn", 3)
        stubborn.expect(Connection.Close)
        assert ended(stubborn)
