"""A broker without a lease answers nobody, whatever it would have answered."""

import time
from pathlib import Path

import trio.testing
from pamqp import frame
from pamqp.commands import Basic, Connection, Queue
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread
from tests.amqp_frontend.server.raw import RawClient

from arneb_amqp.wire.tables import boolean, table
from arneb_core.api.process.resource_alarms import Resource

WANTS_TO_KNOW: dict[str, object] = {"capabilities": table({"connection.blocked": boolean(True)})}
WITHIN_S = 5.0


def test_clients_that_ask_while_there_is_no_lease_wait_until_it_is_back(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        client.open(properties=WANTS_TO_KNOW)
        client.send(Queue.Declare, 1, queue="q")
        client.expect(Queue.DeclareOk)
        for _ in range(2):
            broker.lend(holds=False)  # and no alarm has been noticed yet
            client.send(Queue.Declare, 1, queue="q", passive=True)
            client.expect(Connection.Blocked)
            broker.lend(holds=True)
            client.expect(Connection.Unblocked)
            client.expect(Queue.DeclareOk)


def test_the_alarm_that_follows_is_sent_once(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        client.open(properties=WANTS_TO_KNOW)
        broker.lend(holds=False)
        client.send(Queue.Declare, 1, queue="q")
        client.expect(Connection.Blocked)
        broker.run_short(Resource.LOG)
        broker.run_short()
        broker.lend(holds=True)
        client.expect(Connection.Unblocked)
        client.expect(Queue.DeclareOk)
        client.send(Basic.Get, 1, queue="q")
        client.expect(Basic.GetEmpty)


def test_a_client_is_read_until_its_request_is_whole(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        client.open(properties=WANTS_TO_KNOW)
        client.send(Queue.Declare, 1, queue="q")
        client.expect(Queue.DeclareOk)
        broker.lend(holds=False)
        request = frame.marshal(Queue.Declare(queue="q", passive=True), 1)
        for piece in (request[:9], request[9:]):
            client.socket.sendall(piece)
            broker.call(trio.testing.wait_all_tasks_blocked)  # it has been read
        client.expect(Connection.Blocked)
        broker.lend(holds=True)
        client.expect(Connection.Unblocked)
        client.expect(Queue.DeclareOk)


def test_a_superseded_broker_closes_its_connections_and_sends_nothing_else(tmp_path: Path) -> None:
    for broker in serve_in_thread(tmp_path):
        client = RawClient(broker.port).open()
        broker.lend(holds=False)
        client.send(Queue.Declare, 1, queue="q")
        broker.lend(holds=False, over=True)
        began = time.monotonic()
    assert time.monotonic() - began < WITHIN_S
    assert client.expect(Connection.Close).reply_code == 320
    client.socket.close()
