"""Resource alarms: a blocked connection waits, is not read, and still ends when its client does."""

import socket
import struct
import time
from pathlib import Path

import trio
import trio.testing
from pamqp.commands import Basic, Connection, Queue
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread
from tests.amqp_frontend.server.raw import RawClient
from tests.amqp_frontend.session.playbook import publishes

from arneb_core.api.process.resource_alarms import Resource

WITHIN_S = 5.0
CHUNK = publishes(bytes(50_000), key="short").data


def test_a_blocked_client_is_not_read_so_that_its_own_socket_fills(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        client.open()
        client.send(Queue.Declare, 1, queue="short")
        client.expect(Queue.DeclareOk)
        broker.run_short(Resource.MEMORY)
        client.socket.settimeout(0.3)
        sent = 0
        try:
            while sent < 1 << 30:
                sent += client.socket.send(CHUNK)
        except TimeoutError:
            pass
        assert sent < 64 << 20, "the broker went on reading"
        broker.run_short()
        client.socket.settimeout(WITHIN_S)
        client.socket.sendall(CHUNK[sent % len(CHUNK) :] if sent % len(CHUNK) else CHUNK)
        client.send(Basic.Get, 1, queue="short", no_ack=True)
        client.expect(Basic.GetOk)


def test_a_blocked_client_that_has_gone_is_forgotten(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        client.open(heartbeat=1)
        client.send(Queue.Declare, 1, queue="gone", exclusive=True)
        client.expect(Queue.DeclareOk)
        broker.run_short(Resource.DISK)
        client.socket.sendall(publishes(b"x", key="gone").data)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def wait_until_gone() -> None:
        with trio.fail_after(WITHIN_S):
            while any(name.endswith("gone") for name in broker.engine.topics):
                await trio.testing.wait_all_tasks_blocked(0.05)

    broker.call(wait_until_gone)
    broker.run_short()


def test_a_broker_can_stop_while_connections_are_blocked(tmp_path: Path) -> None:
    for broker in serve_in_thread(tmp_path):
        client = RawClient(broker.port).open()
        broker.run_short(*Resource)
        client.socket.sendall(publishes(b"x", key="nowhere").data)
        began = time.monotonic()
    assert time.monotonic() - began < WITHIN_S
    assert client.expect(Connection.Close).reply_code == 320
    client.socket.close()
