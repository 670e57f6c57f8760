"""Room for answers: a client that asks for much and reads nothing makes the broker hold little."""

import socket
from pathlib import Path

import pika
from pamqp.commands import Basic, Queue
from tests.amqp_frontend.server.conftest import Broker, serve_in_thread
from tests.amqp_frontend.server.raw import RawClient

from arneb_amqp.config import AmqpConfig
from arneb_amqp.wire.constants import ChannelId
from arneb_amqp.wire.methods import encode_method

KIB = 1024
BODY = bytes(64 * KIB)
MESSAGES = 200
SMALL = AmqpConfig(
    outbox_bytes_low=64 * KIB, outbox_bytes_high=128 * KIB, outbox_bytes_max=512 * KIB
)
KERNEL_BYTES = 4 * 1024 * KIB
"""What the buffers of two sockets may take at most."""


def fill(broker: Broker, queue: str) -> None:
    connection = broker.connect()
    channel = connection.channel()
    channel.queue_declare(queue)
    for _ in range(MESSAGES):
        channel.basic_publish("", queue, BODY)
    assert ready(channel, queue) == MESSAGES
    connection.close()


def ready(channel: pika.adapters.blocking_connection.BlockingChannel, queue: str) -> int:
    return channel.queue_declare(queue, passive=True).method.message_count


def gets(count: int, queue: str) -> bytes:
    method = Basic.Get(queue=queue, no_ack=True)
    return encode_method(ChannelId(1), method) * count


def test_messages_are_got_only_while_there_is_room(tmp_path: Path) -> None:
    for broker in serve_in_thread(tmp_path, SMALL):
        fill(broker, "large")
        with RawClient(broker.port) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * KIB)
            client.open()
            client.socket.sendall(gets(MESSAGES, "large"))
            connection = broker.connect()
            channel = connection.channel()
            # Others are served, and see how many messages have gone. The number soon stops
            # changing.
            left, before = ready(channel, "large"), -1
            while left != before:
                connection.sleep(0.3)
                left, before = ready(channel, "large"), left
            got = (MESSAGES - left) * len(BODY)
            assert got <= SMALL.outbox_bytes_max + 2 * len(BODY) + KERNEL_BYTES
            assert left > 0
            for _ in range(MESSAGES):
                client.skip_delivery()
            client.send(Queue.Declare, 1, queue="large", passive=True)
            assert client.expect(Queue.DeclareOk).message_count == 0
            connection.close()


def test_a_client_that_does_not_read_the_messages_it_got_can_be_closed(tmp_path: Path) -> None:
    for broker in serve_in_thread(tmp_path, SMALL):
        fill(broker, "large")
        with RawClient(broker.port).open() as client:
            client.socket.sendall(gets(MESSAGES, "large"))
        connection = broker.connect()
        channel = connection.channel()
        channel.basic_publish("", "large", b"served")
        connection.close()
