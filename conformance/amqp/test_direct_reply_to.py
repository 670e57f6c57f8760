"""Direct reply-to: answers without a queue."""

from collections.abc import Callable
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import Inbox, refused, settle, take
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

REPLY_TO = "amq.rabbitmq.reply-to"
ASKING = pika.BasicProperties(reply_to=REPLY_TO, correlation_id="1")


def asked(channel: BlockingChannel, queue: str) -> str:
    """The reply address that the server of ``queue`` receives."""
    channel.basic_publish("", queue, b"question", ASKING)
    properties: Any = take(channel.connection.channel(), queue, 1)[0][1]
    assert properties.correlation_id == "1"
    name: str = properties.reply_to
    return name


def listen(channel: BlockingChannel, queue: str) -> None:
    """Try to consume from the reply address."""
    Inbox(channel, queue, auto_ack=True)


def bind(channel: BlockingChannel, queue: str) -> None:
    """Have everything that ``amq.fanout`` gets sent there."""
    channel.queue_bind(queue, "amq.fanout")


def test_an_answer_comes_back(connect: Connect, queue: str) -> None:
    channel, server = connect().channel(), connect().channel()
    inbox = Inbox(channel, REPLY_TO, auto_ack=True)
    name = asked(channel, queue)
    assert name.startswith(REPLY_TO + ".")
    server.confirm_delivery()
    server.basic_publish("", name, b"answer", pika.BasicProperties(correlation_id="1"))
    assert inbox.wait(1) == [b"answer"]
    method, properties, _ = inbox.got[0]
    assert (method.exchange, method.routing_key) == ("", name)
    assert properties.correlation_id == "1"


def test_each_channel_has_a_name_of_its_own_which_it_keeps(connect: Connect, queue: str) -> None:
    connection = connect()
    first, second = connection.channel(), connection.channel()
    for channel in (first, second):
        Inbox(channel, REPLY_TO, auto_ack=True)
    names = [asked(first, queue), asked(first, queue), asked(second, queue)]
    assert names[0] == names[1] != names[2]


def test_asking_without_listening_is_refused(channel: BlockingChannel, queue: str) -> None:
    with refused(406, "PRECONDITION_FAILED - fast reply consumer does not exist"):
        channel.basic_publish("", queue, b"question", ASKING)
        channel.queue_declare(queue, passive=True)


def test_answers_are_not_acknowledged(channel: BlockingChannel) -> None:
    with refused(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge"):
        channel.basic_consume(REPLY_TO, lambda *_: None)


def test_one_consumer_a_channel(channel: BlockingChannel) -> None:
    Inbox(channel, REPLY_TO, auto_ack=True)
    with refused(406, "PRECONDITION_FAILED - reply consumer already set"):
        channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)


@pytest.mark.parametrize("leave", ["cancel", "close"])
def test_a_requester_that_has_left_gets_no_answer(connect: Connect, queue: str, leave: str) -> None:
    channel, server = connect().channel(), connect().channel()
    inbox = Inbox(channel, REPLY_TO, auto_ack=True)
    name = asked(channel, queue)
    server.queue_declare(name, passive=True)
    if leave == "cancel":
        channel.basic_cancel(inbox.tag)
    else:
        channel.close()
    server.confirm_delivery()
    with pytest.raises(UnroutableError):
        server.basic_publish("", name, b"answer", mandatory=True)
    with refused(404, f"NOT_FOUND - no queue '{name}' in vhost '/'"):
        server.queue_declare(name, passive=True)


def test_the_pseudo_queue_can_be_looked_at(channel: BlockingChannel) -> None:
    for _ in range(2):
        method = channel.queue_declare(REPLY_TO, passive=True).method
        assert (method.queue, method.message_count, method.consumer_count) == (REPLY_TO, 0, 1)


def test_a_forged_name_leads_nowhere(connect: Connect, queue: str, name: Named) -> None:
    channel = connect().channel()
    inbox = Inbox(channel, REPLY_TO, auto_ack=True)
    forged = REPLY_TO + ".nobody"
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        channel.basic_publish("", forged, b"answer", mandatory=True)
    settle(channel.connection)
    assert inbox.bodies == []


@pytest.mark.parametrize(
    "action", [BlockingChannel.basic_get, BlockingChannel.queue_purge, listen, bind]
)
@pytest.mark.parametrize("is_over", [False, True])
def test_another_connection_cannot_use_a_reply_address(
    connect: Connect, queue: str, action: Callable[[BlockingChannel, str], Any], is_over: bool
) -> None:
    """Another connection can neither get, purge nor consume at a reply address, even after the
    requester has cancelled its consumer."""
    channel = connect().channel()
    inbox = Inbox(channel, REPLY_TO, auto_ack=True)
    stolen = asked(channel, queue)
    if is_over:
        channel.basic_cancel(inbox.tag)
    with refused(404, f"NOT_FOUND - no queue '{stolen}' in vhost '/'"):
        action(connect().channel(), stolen)
