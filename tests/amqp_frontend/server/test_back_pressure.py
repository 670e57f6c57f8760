"""Back-pressure: whoever is too fast has to wait, and whoever is too slow delays nobody else."""

import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pika
import pytest
import trio
from pamqp.commands import Basic, Channel, Confirm, Queue
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread
from tests.amqp_frontend.server.raw import RawClient
from tests.amqp_frontend.session.playbook import publishes

from arneb_amqp.server.transport.link import RECEIVE_BYTES_MAX
from arneb_amqp.server.transport.read_ahead import UNSTORED_BYTES_MAX
from arneb_amqp.topology.names import topic_of
from arneb_core.api.errors import StoreFull
from arneb_core.api.process.long_turns import FIRST_READ_BYTES
from arneb_core.api.topics.topic import Topic
from arneb_core.engine.engine import Engine

BODY = bytes(1000)
CHUNK = publishes(*[BODY] * 100, key="flood").data
AHEAD_MAX = 2 * (UNSTORED_BYTES_MAX + RECEIVE_BYTES_MAX) * 5 // 4
"""An entry is a little larger than its message on the wire."""


def flood(client: RawClient, chunk: bytes = CHUNK, most: int = 1 << 30) -> int:
    """Publish until the socket accepts nothing more for a while; return the number of bytes
    sent."""
    client.socket.settimeout(0.3)
    sent = 0
    try:
        while sent < most:
            sent += client.socket.send(chunk[sent % len(chunk) :])
    except TimeoutError:
        return sent
    raise AssertionError("the broker reads whatever comes")


def test_a_batch_that_arrives_together_is_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = publishes(*[bytes(400)] * 100, key="q").data
    assert FIRST_READ_BYTES < len(batch) <= RECEIVE_BYTES_MAX
    runs: list[int] = []
    append = Engine.append

    def noted(self: Engine, topic: Topic, entries: list[bytes], *rest: Any, **more: Any) -> None:
        runs.append(len(entries))
        append(self, topic, entries, *rest, **more)

    for broker in serve_in_thread(tmp_path):
        with RawClient(broker.port) as client:
            client.open()
            client.send(Queue.Declare, 1, queue="q", durable=True)
            client.expect(Queue.DeclareOk)
            client.send(Confirm.Select, 1)
            client.expect(Confirm.SelectOk)
            monkeypatch.setattr(Engine, "append", noted)

            async def send_while_nobody_reads(sock: socket.socket) -> None:
                sock.sendall(batch)

            for _ in range(3):  # whatever the size of the read before
                broker.call(send_while_nobody_reads, client.socket)
                assert client.expect(Basic.Ack).delivery_tag % 100 == 0
        assert runs == [100] * 3


def waiting_bytes(broker: Broker) -> int:
    async def look() -> int:
        return broker.engine.statistics().waiting_bytes

    return broker.call(look)


def test_a_flood_delays_others_only_by_its_share(tmp_path: Path) -> None:
    for broker in serve_in_thread(tmp_path):
        with RawClient(broker.port) as client:
            client.open()
            client.send(Queue.Declare, 1, queue="flood", durable=True)
            client.expect(Queue.DeclareOk)
            steady = broker.connect()
            channel = steady.channel()
            channel.queue_declare("steady", durable=True)
            channel.confirm_delivery()
            broker.faults.hold()
            sent = flood(client)
            assert sent > AHEAD_MAX
            assert 0 < waiting_bytes(broker) <= AHEAD_MAX
            release = Thread(target=broker.faults.release)
            release.start()
            channel.basic_publish("", "steady", b"x", pika.BasicProperties(delivery_mode=2))
            release.join()
            client.socket.settimeout(10)
            client.socket.sendall(CHUNK[sent % len(CHUNK) :])
            client.send(Queue.Declare, 1, queue="flood", passive=True)
            count = client.expect(Queue.DeclareOk).message_count
            assert count == (sent // len(CHUNK) + 1) * 100
            steady.close()


def occupy(broker: Broker, queue: str) -> Callable[[], None]:
    """Make changes of the topic of ``queue`` wait until the returned function is called."""

    async def begin() -> trio.Event:
        over, begun = trio.Event(), trio.Event()

        async def hold() -> None:
            async with broker.engine.catalog.locks.holding(topic_of("public/default", queue)):
                begun.set()
                await over.wait()

        trio.lowlevel.spawn_system_task(hold)
        await begun.wait()
        return over

    over = broker.call(begin)

    async def end() -> None:
        over.set()

    return lambda: broker.call(end)


def test_a_client_is_not_read_while_another_task_carries_out_its_effects(
    tmp_path: Path,
) -> None:
    """A failed commit closed its channel, and finishing that has to wait. What the client sends in
    the meantime must stay in its socket."""
    for broker in serve_in_thread(tmp_path):
        with RawClient(broker.port) as client, RawClient(broker.port) as other:
            client.open()
            other.open()
            client.send(Queue.Declare, 1, queue="q", durable=True)
            client.expect(Queue.DeclareOk)
            client.send(Basic.Consume, 1, queue="q", consumer_tag="c")
            client.expect(Basic.ConsumeOk)
            client.send(Channel.Open, 2)
            client.expect(Channel.OpenOk)
            client.send(Queue.Declare, 2, queue="flood", durable=True)
            client.expect(Queue.DeclareOk)
            release = occupy(broker, "late")
            other.send(
                Queue.Declare, 1, queue="late", durable=True
            )  # nobody else may change the catalogue
            broker.faults.fail_next(1, StoreFull("told to be full"))
            client.socket.sendall(publishes(b"lost", key="q").data)
            client.expect(Channel.Close)
            chunk = publishes(*[BODY] * 100, key="flood", channel=2).data
            try:
                sent = flood(client, chunk, most=64 << 20)
            finally:
                release()
            assert sent < 16 << 20, "the broker took more than the sockets and one read hold"
            other.expect(Queue.DeclareOk)
            client.socket.settimeout(10)
            client.socket.sendall(chunk[sent % len(chunk) :])
            client.send(Queue.Declare, 2, queue="flood", passive=True)
            count = client.expect(Queue.DeclareOk).message_count
            assert count == (sent // len(chunk) + 1) * 100


def test_a_consumer_that_does_not_read_delays_no_other_on_any_queue(
    broker: Broker,
) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("shared")
    channel.queue_declare("other")
    with RawClient(broker.port).open() as lazy:
        lazy.consume("shared")
        for _ in range(4000):
            channel.basic_publish("", "shared", bytes(4096))
        left = channel.queue_declare("shared", passive=True).method.message_count
        assert 1000 < left < 4000
        for number in range(50):
            channel.basic_publish("", "other", b"%d" % number)
            assert channel.basic_get("other", auto_ack=True)[2] == b"%d" % number
        got = [body for _, _, body in take_all(channel, "shared", left)]
        assert len(got) == left
        assert channel.queue_declare("shared", passive=True).method.message_count == 0
    connection.close()


def take_all(channel: pika.adapters.blocking_connection.BlockingChannel, queue: str, count: int):
    """``count`` messages, consumed."""
    found = []
    for message in channel.consume(queue, auto_ack=True, inactivity_timeout=5):
        assert message[0] is not None, f"expected {count} messages, got {len(found)}"
        found.append(message)
        if len(found) == count:
            channel.cancel()
            return found
    return found


def test_a_client_that_is_not_read_is_not_taken_for_dead(tmp_path: Path) -> None:
    """The disk hangs for longer than two heartbeats, and the client cannot show that it is
    alive."""
    for broker in serve_in_thread(tmp_path):
        with RawClient(broker.port).open(heartbeat=1) as client:
            broker.faults.hold()
            client.send(Queue.Declare, 1, queue="slow", durable=True)
            for _ in range(5):
                client.expect_heartbeat()
            Thread(target=broker.faults.release).start()
            client.expect(Queue.DeclareOk)
