"""The memory of an ended connection is freed at once: it leaves no reference cycle for the garbage
collector.

Objects that have survived a full collection are frozen. Only a collection of all objects could find
such cycles, and everybody would have to wait for that.
"""

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
import trio
import trio.testing
from pamqp import body, frame, header
from pamqp.commands import Basic, Confirm, Queue
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread
from tests.amqp_frontend.server.raw import RawClient

from arneb_amqp.server.connection import Connection
from arneb_amqp.server.transport.link import Link
from arneb_amqp.session.channel.channel import Channel as SessionChannel
from arneb_amqp.session.connection.session import ConnectionSession
from arneb_amqp.session.consume.unacked import Unacked

PARTS = (Connection, ConnectionSession, Link, SessionChannel, Unacked)

TRIES = 100
CUSHION_S = 0.05


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    gc.collect()
    gc.disable()
    try:
        yield from serve_in_thread(tmp_path / "data")
    finally:
        gc.enable()


def parts() -> list[Any]:
    return [each for each in gc.get_objects() if isinstance(each, PARTS)]


def all_given_up(broker: Broker, wanted: int = 0) -> bool:
    """Without a garbage collection, as soon as the broker has noticed that the client is gone."""
    for _ in range(TRIES):
        broker.call(trio.testing.wait_all_tasks_blocked, CUSHION_S)
        if len(parts()) <= wanted:
            return True
    return False


def closes_politely(broker: Broker) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare("q")
    channel.basic_consume("q", lambda *_: None)
    channel.basic_publish("", "q", b"x")
    connection.process_data_events(0.2)
    connection.close()


def is_cut_off_with_channels_open(broker: Broker) -> None:
    client = RawClient(broker.port).open()
    client.send(Queue.Declare, 1, queue="q")
    client.expect(Queue.DeclareOk)
    client.send(Basic.Consume, 1, queue="q", consumer_tag="here")
    client.expect(Basic.ConsumeOk)
    client.socket.close()


def is_cut_off_before_its_messages_are_on_disk(broker: Broker) -> None:
    client = RawClient(broker.port).open()
    client.send(Queue.Declare, 1, queue="kept", durable=True)
    client.expect(Queue.DeclareOk)
    client.send(Confirm.Select, 1)
    client.expect(Confirm.SelectOk)
    broker.faults.hold()
    publish = frame.marshal(Basic.Publish(routing_key="kept"), 1)
    publish += frame.marshal(header.ContentHeader(0, 1, Basic.Properties(delivery_mode=2)), 1)
    client.socket.sendall((publish + frame.marshal(body.ContentBody(b"x"), 1)) * 50)
    client.socket.close()
    broker.faults.wait_for_commit()
    broker.faults.release()


def asks_for_what_is_not_there(broker: Broker) -> None:
    connection = broker.connect()
    for _ in range(3):
        channel = connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.queue_declare("nowhere", passive=True)
    connection.close()


@pytest.mark.parametrize(
    "client",
    [
        closes_politely,
        is_cut_off_with_channels_open,
        is_cut_off_before_its_messages_are_on_disk,
        asks_for_what_is_not_there,
    ],
    ids=lambda client: client.__name__,
)
def test_an_ended_connection_is_freed(broker: Broker, client: Callable[[Broker], None]) -> None:
    client(broker)
    assert all_given_up(broker), parts()


def test_a_closed_channel_is_freed_while_its_connection_stays_open(broker: Broker) -> None:
    connection = broker.connect()
    connection.channel().close()
    before = len(parts())
    for _ in range(20):
        channel = connection.channel()
        channel.queue_declare("q")
        channel.close()
    assert all_given_up(broker, before), parts()
    connection.close()
