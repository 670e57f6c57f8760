"""Tests of the Java client's suite on which other brokers have failed: RefreshCredentialsTest and
RpcTest."""

from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import Inbox, wait_until
from conformance.amqp.java.common import temporary
from conformance.amqp.java.test_recovery import Recovering
from pika.adapters.blocking_connection import BlockingChannel

REPLY_TO = "amq.rabbitmq.reply-to"


def test_refresh_credentials_test_connection_and_refresh_credentials(connect: Connect) -> None:
    """A connection updates its secret repeatedly and keeps working."""
    connection = connect()
    channel = connection.channel()
    queue = temporary(channel)
    inbox = Inbox(channel, queue, auto_ack=True)
    for count in range(1, 6):
        connection.update_secret("guest", "Refresh scheduled by client")
        channel.basic_publish("", queue, b"%d" % count)
        assert inbox.wait(count)[-1] == b"%d" % count


class Caller:
    """An RPC client: sends questions and keeps the answers."""

    def __init__(self, connect: Connect, served: str) -> None:
        self._channel = connect().channel()
        self._served = served
        self._inbox = Inbox(self._channel, REPLY_TO, auto_ack=True)
        self._asked = 0

    def ask(self, question: bytes, serving: pika.BlockingConnection) -> bytes:
        """Send a question and return its answer; meanwhile the events of ``serving`` are processed
        too."""
        self._asked += 1
        properties = pika.BasicProperties(reply_to=REPLY_TO, correlation_id=str(self._asked))
        self._channel.basic_publish("", self._served, question, properties)

        def answered() -> bool:
            serving.process_data_events(0)
            return len(self._inbox.got) == self._asked

        wait_until(self._channel.connection, answered)
        _, found, body = self._inbox.got[-1]
        assert found.correlation_id == str(self._asked)
        return body


@pytest.mark.parametrize("durable", [False, True])
def test_rpc_test_given_consumer_is_recovered_can_make_rpc_calls(
    connect: Connect, name: Named, durable: bool
) -> None:
    """The server of the RPC loses its connection and continues on the next one."""
    queue = name("rpc")
    server = Recovering(connect)

    def answer(on: BlockingChannel, method: Any, asked: Any, body: bytes) -> None:
        properties = pika.BasicProperties(correlation_id=asked.correlation_id)
        on.basic_publish("", asked.reply_to, b"*** " + body + b" ***", properties)
        on.basic_ack(method.delivery_tag)

    server.do(lambda channel: channel.queue_declare(queue, durable=durable))
    server.do(lambda channel: channel.basic_consume(queue, answer))
    caller = Caller(connect, queue)
    assert caller.ask(b"hello", server.connection) == b"*** hello ***"
    server.lose()
    for _ in range(3):
        assert caller.ask(b"again", server.connection) == b"*** again ***"
