"""Clients that misbehave, clients that are slow, and a broker that stops: nobody else is harmed."""

import logging
import random
import time
from pathlib import Path
from typing import Any

import pika
import pytest
from pamqp.commands import Basic
from pika.exceptions import ConnectionClosedByBroker
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread
from tests.amqp_frontend.server.raw import RawClient
from tests.amqp_frontend.session.playbook import publishes

from arneb_amqp.config import AmqpConfig
from arneb_amqp.server.transport.link import Link
from arneb_amqp.wire.constants import PROTOCOL_HEADER


def recorded_session(port: int) -> list[bytes]:
    """What pika sends in an ordinary session, write by write."""
    written: list[bytes] = []
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    output = connection._impl._output_marshaled_frames

    def record(frames: list[bytes]) -> None:
        written.append(b"".join(frames))
        output(frames)

    connection._impl._output_marshaled_frames = record
    channel = connection.channel()
    channel.queue_declare("robust", arguments={"x-max-length": 5})
    channel.confirm_delivery()
    channel.basic_publish("", "robust", b"x" * 300, pika.BasicProperties(headers={"a": [1, "b"]}))
    channel.basic_ack(0, multiple=True)
    channel.queue_delete("robust")
    connection._impl._output_marshaled_frames = output
    connection.close()
    return written


def test_noise_and_broken_frames_do_not_affect_other_clients(broker: Any) -> None:
    rng = random.Random(4711)
    steady = broker.connect()
    channel = steady.channel()
    channel.queue_declare("steady", durable=True)
    channel.confirm_delivery()
    frames = recorded_session(broker.port)
    for number in range(60):
        with RawClient(broker.port) as client:
            if number % 2 == 0:
                client.open()
            sock = client.socket
            data = bytearray(b"".join(frames))
            if number % 3 == 0:
                data = bytearray(rng.randbytes(200))
            for _ in range(rng.randint(1, 4)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            if number % 2 and number % 3:
                data[:0] = PROTOCOL_HEADER
            try:
                sock.sendall(data[: rng.randint(1, len(data))])
                sock.settimeout(0.005)
                sock.recv(65536)
            except OSError:
                pass
        channel.basic_publish("", "steady", b"%d" % number, mandatory=True)
    assert channel.queue_declare("steady", passive=True).method.message_count == 60
    steady.close()


def test_a_consumer_that_does_not_read_costs_bounded_memory(broker: Any) -> None:
    publisher = broker.connect()
    channel = publisher.channel()
    channel.queue_declare("slow")
    body = b"x" * 4096
    for _ in range(3000):
        channel.basic_publish("", "slow", body)
    assert channel.queue_declare("slow", passive=True).method.message_count == 3000
    with RawClient(broker.port).open() as lazy:
        lazy.consume("slow")
        # It asked for everything and reads nothing: the rest stays in the queue.
        for _ in range(50):
            left = channel.queue_declare("slow", passive=True).method.message_count
            if left < 3000:
                break
        assert 500 < left < 3000
        assert channel.basic_get("slow", auto_ack=True)[2] == body
    publisher.close()


def test_a_client_may_publish_for_a_long_time_before_it_reads(broker: Any) -> None:
    """Its one thread writes with blocking calls: if the broker waited for it to read first, it
    would wait for ever."""
    publisher = broker.connect()
    channel = publisher.channel()
    channel.queue_declare("unread")
    for _ in range(1000):
        channel.basic_publish("", "unread", b"x" * 8192)
    channel.queue_declare("written")
    with RawClient(broker.port).open() as client:
        client.consume("unread")
        client.socket.settimeout(20)
        client.socket.sendall(publishes(*[b"y" * 1024] * 10_000, key="written").data)
        for _ in range(600):
            if channel.queue_declare("written", passive=True).method.message_count == 10_000:
                break
        else:
            raise AssertionError("not everything was taken")
    publisher.close()


def test_answers_that_are_not_read_are_bounded(tmp_path: Path) -> None:
    config = AmqpConfig(outbox_bytes_low=1000, outbox_bytes_high=2000, outbox_bytes_max=100_000)
    serving = serve_in_thread(tmp_path / "data", config)
    broker = next(serving)
    publisher = broker.connect()
    channel = publisher.channel()
    channel.queue_declare("q")
    channel.tx_select()
    for _ in range(3000):
        channel.basic_publish("", "q", b"x" * 8192)
    channel.tx_commit()
    with RawClient(broker.port).open() as client:
        for _ in range(3000):
            client.send(Basic.Get, 1, queue="q", no_ack=True)
        before = -1
        while (left := channel.queue_declare("q", passive=True).method.message_count) != before:
            before = left
            channel.connection.process_data_events(0.1)
        assert left > 500
        got = 0
        while got < 3000 * 8192:
            got += len(client.socket.recv(1 << 20))
    publisher.close()
    next(serving, None)


def test_a_slow_consumer_gets_everything_in_the_end(broker: Any) -> None:
    publisher = broker.connect()
    channel = publisher.channel()
    channel.queue_declare("patient")
    for number in range(2000):
        channel.basic_publish("", "patient", b"%06d" % number + b"x" * 2000)
    slow = broker.connect()
    got: list[bytes] = []
    consumer = slow.channel()
    consumer.basic_consume("patient", lambda _c, _m, _p, body: got.append(body[:6]), auto_ack=True)
    for _ in range(10_000):
        slow.process_data_events(0.1)
        if len(got) == 2000:
            break
    assert got == [b"%06d" % number for number in range(2000)]
    slow.close()
    publisher.close()


def test_every_client_is_notified_of_a_stop(tmp_path: Path) -> None:
    serving = serve_in_thread(tmp_path / "data")
    broker = next(serving)
    connection = broker.connect()
    connection.channel().queue_declare("q", durable=True)
    silent = RawClient(broker.port)
    started = time.monotonic()
    next(serving, None)
    assert time.monotonic() - started < 5
    with pytest.raises(ConnectionClosedByBroker) as caught:
        connection.process_data_events(10)
    assert (caught.value.reply_code, caught.value.reply_text) == (
        320,
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
    )
    silent.socket.close()


def test_messages_and_topology_survive_a_restart(tmp_path: Path) -> None:
    serving = serve_in_thread(tmp_path / "data")
    broker = next(serving)
    connection = broker.connect()
    channel = connection.channel()
    channel.exchange_declare("x", "topic", durable=True)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "x", "a.#")
    channel.confirm_delivery()
    channel.basic_publish("x", "a.b", b"before", pika.BasicProperties(delivery_mode=2))
    connection.close()
    next(serving, None)

    serving = serve_in_thread(tmp_path / "data")
    broker = next(serving)
    connection = broker.connect()
    channel = connection.channel()
    channel.basic_publish("x", "a.c", b"after")
    assert [channel.basic_get("q", auto_ack=True)[2] for _ in range(2)] == [b"before", b"after"]
    connection.close()
    next(serving, None)


def test_missed_heartbeats_end_a_connection(tmp_path: Path) -> None:
    serving = serve_in_thread(tmp_path / "data", AmqpConfig(heartbeat_s=1))
    broker = next(serving)
    with RawClient(broker.port).open(heartbeat=1) as client:
        got = b""
        started = time.monotonic()
        while chunk := client.socket.recv(100):
            got += chunk
        assert 1.5 < time.monotonic() - started < 4
        assert got.count(b"\x08\x00\x00\x00\x00\x00\x00\xce") >= 2
    next(serving, None)


def test_a_handshake_that_stalls_is_closed_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "arneb_amqp")
    serving = serve_in_thread(tmp_path / "data", AmqpConfig(handshake_s=0.3))
    broker = next(serving)
    with RawClient(broker.port) as client:
        started = time.monotonic()
        assert client.socket.recv(100) == b""
        assert time.monotonic() - started < 3
    with RawClient(broker.port) as client:
        client.open()
    next(serving, None)
    (line,) = [each for each in caplog.messages if each.startswith("closing connection")]
    assert line.endswith("timed out in connection state handshake"), line


def test_data_is_acknowledged_at_once_only_while_a_connection_opens(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose kernel gathers small writes would otherwise wait 40 ms before it sends
    ``connection.open``."""
    calls: list[Link] = []

    def acknowledge_now(link: Link) -> None:
        calls.append(link)

    monkeypatch.setattr(Link, "acknowledge_now", acknowledge_now)
    with RawClient(broker.port) as client:
        client.open()
        opening = len(calls)
        assert opening >= 3, "expected the header, start-ok, tune-ok and open"
        for _ in range(10):
            client.send(Basic.Qos, 1, prefetch_count=1)
            client.expect(Basic.QosOk)
        assert len(calls) == opening
