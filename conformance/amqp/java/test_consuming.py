"""Java's BasicConsume, BasicGet, ConsumerCount, ConsumerNotifications, ConsumerPriorities,
DirectReplyTo, Exception*, MessageCount, NoRequeueOnCancel and Tables."""

import struct
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import PERSISTENT, Inbox, refused, take, wait_until
from conformance.amqp.java.common import bare_frame, got, pause, ready, temporary, wait_ready
from conformance.amqp.wire import Wire
from conformance.conftest import Target
from pamqp import commands
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelWrongStateError

REPLY_TO = "amq.rabbitmq.reply-to"


def test_basic_consume_basic_consume_ok(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    for _ in range(2):
        channel.basic_publish("", queue, b"msg", PERSISTENT)
    assert Inbox(channel, queue).wait(2) == [b"msg"] * 2


def test_basic_get_basic_get_with_enqueued_messages(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    channel.basic_publish("", queue, b"msg", PERSISTENT)
    pause(channel, 50)
    assert got(channel, queue) == b"msg"
    channel.queue_purge(queue)
    assert got(channel, queue) is None


def test_basic_get_basic_get_with_empty_queue(channel: BlockingChannel) -> None:
    assert got(channel, temporary(channel)) is None


def test_basic_get_basic_get_with_closed_channel(connect: Connect) -> None:
    connection = connect()
    channel = connection.channel()
    queue = temporary(channel)
    channel.close()
    # pika raises only after it has sent the method, on a channel that is not open.
    with pytest.raises(ChannelWrongStateError):
        channel.basic_get(queue)
    with refused(504, "CHANNEL_ERROR - expected 'channel.open'", connection=True):
        wait_until(connection, lambda: False)


def test_consumer_count_consumer_count(channel: BlockingChannel) -> None:
    queue = temporary(channel)

    def consumers() -> int:
        return int(channel.queue_declare(queue, passive=True).method.consumer_count)

    assert consumers() == 0
    tag = channel.basic_consume(queue, lambda *_: None)
    assert consumers() == 1
    channel.basic_cancel(tag)
    assert consumers() == 0


def test_message_count_message_count(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    assert ready(channel, queue) == 0
    channel.basic_publish("", queue, b"msg")
    wait_ready(channel, queue, 1)
    channel.queue_purge(queue)
    assert ready(channel, queue) == 0


def cancelled(channel: BlockingChannel) -> list[Any]:
    """A list to which the server's basic.cancel methods are added from now on."""
    came: list[Any] = []
    channel.add_on_cancel_callback(came.append)
    return came


def test_consumer_notifications_consumer_cancellation_notification(connect: Connect) -> None:
    channel = connect().channel()
    queue = temporary(channel)
    came = cancelled(channel)
    tag = channel.basic_consume(queue, lambda *_: None)
    channel.queue_delete(queue)
    wait_until(channel.connection, lambda: came)
    assert came[0].method.consumer_tag == tag


def test_consumer_notifications_consumer_cancellation_handler_uses_blocking_operations(
    connect: Connect, name: Named
) -> None:
    """The cancel callback may declare another queue immediately, on the same channel."""
    channel = connect().channel()
    queue, other = temporary(channel), name("fallback")
    made: list[str] = []

    def fall_back(_: Any) -> None:
        made.append(channel.queue_declare(other, exclusive=True).method.queue)

    channel.add_on_cancel_callback(fall_back)
    channel.basic_consume(queue, lambda *_: None)
    channel.queue_delete(queue)
    wait_until(channel.connection, lambda: made)
    inbox = Inbox(channel, other)
    channel.basic_publish("", other, b"x")
    assert inbox.wait(1) == [b"x"]


def test_consumer_notifications_handle_shutdown_should_be_called_when_channel_is_closed(
    connect: Connect,
) -> None:
    """A closed channel has no consumers any more, and no basic.cancel is sent for them."""
    connection = connect()
    channel, other = connection.channel(), connection.channel()
    queue = temporary(channel)
    came = cancelled(channel)
    channel.basic_consume(queue, lambda *_: None)
    channel.close()
    assert other.queue_declare(queue, passive=True).method.consumer_count == 0
    assert came == []


@pytest.mark.parametrize(
    ("priority", "kind"),
    [("banana", "longstr"), ({}, "table"), (None, "void"), ([1, 2, 3], "array")],
    ids=["text", "table", "nothing", "list"],
)
def test_consumer_priorities_validation(connect: Connect, priority: Any, kind: str) -> None:
    channel = connect().channel()
    queue = temporary(channel)
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{queue}' in vhost '/': "
        f'"expected integer, got {kind}"'
    )
    with refused(406, text):
        channel.basic_consume(
            queue, lambda *_: None, auto_ack=True, arguments={"x-priority": priority}
        )


def test_consumer_priorities_consumer_priorities(channel: BlockingChannel) -> None:
    queue = temporary(channel)
    inboxes = [
        Inbox(channel, queue, auto_ack=True, arguments=arguments)
        for arguments in ({"x-priority": 1}, {}, {"x-priority": -1})
    ]
    for number, inbox in enumerate(inboxes):
        for _ in range(10):
            channel.basic_publish("", queue, b"%d" % number)
        assert inbox.wait(10) == [b"%d" % number] * 10
        channel.basic_cancel(inbox.tag)
    assert [len(inbox.got) for inbox in inboxes] == [10, 10, 10]


def asked(channel: BlockingChannel) -> str:
    """Send a request; the result is the address to which its answer must go."""
    served = temporary(channel)
    channel.basic_publish("", served, b"request", pika.BasicProperties(reply_to=REPLY_TO))
    properties: Any = take(channel, served, 1)[0][1]
    return str(properties.reply_to)


def test_direct_reply_to_round_trip(connect: Connect) -> None:
    channel = connect().channel()
    inbox = Inbox(channel, REPLY_TO, auto_ack=True)
    reply_to = asked(channel)
    channel.connection.channel().queue_declare(reply_to, passive=True)
    channel.confirm_delivery()
    channel.basic_publish("", reply_to, b"response")
    assert inbox.wait(1) == [b"response"]


def test_direct_reply_to_hack(connect: Connect) -> None:
    """Someone who knows only part of the reply address cannot reach the waiting client."""
    channel = connect().channel()
    inbox = Inbox(channel, REPLY_TO, auto_ack=True)
    forged = asked(channel)[:-5] + "xxxxx"
    with refused(404, f"NOT_FOUND - no queue '{forged}' in vhost '/'"):
        channel.connection.channel().queue_declare(forged, passive=True)
    channel.basic_publish("", forged, b"response")
    pause(channel, 200)
    assert inbox.bodies == []


def test_direct_reply_to_consume_fail(connect: Connect) -> None:
    connection = connect()
    with refused(406, "PRECONDITION_FAILED - reply consumer cannot acknowledge"):
        connection.channel().basic_consume(REPLY_TO, lambda *_: None)
    channel = connection.channel()
    channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)
    with refused(406, "PRECONDITION_FAILED - reply consumer already set"):
        channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True)


def test_direct_reply_to_consume_success(channel: BlockingChannel) -> None:
    tags = []
    for _ in range(2):
        tags.append(channel.basic_consume(REPLY_TO, lambda *_: None, auto_ack=True))
        channel.basic_cancel(tags[-1])
    assert tags[0] != tags[1]


def test_exception_messages_already_closed_exception_message_with_channel_error(
    channel: BlockingChannel, name: Named
) -> None:
    queue = name("nobody")
    with refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        channel.queue_declare(queue, passive=True)
    with pytest.raises(ChannelWrongStateError, match="closed"):
        channel.queue_declare(queue, passive=True)


def test_exception_messages_already_closed_exception_message_with_clean_close(
    channel: BlockingChannel, name: Named
) -> None:
    channel.close()
    with pytest.raises(ChannelWrongStateError, match="closed"):
        channel.queue_declare(name("never"))


class Broken(Exception):
    """The error that the failing consumer raises."""


@pytest.mark.parametrize("closes", [True, False], ids=["default", "forgiving"])
def test_exception_handling_consumer_handle_consumer_exception(
    connect: Connect, queue: str, closes: bool
) -> None:
    """If the failing consumer closes its channel, the message is requeued; otherwise it stays
    unacknowledged."""
    connection = connect()
    channel = connection.channel()

    def fail(*_: Any) -> None:
        raise Broken

    channel.basic_consume(queue, fail)
    channel.basic_publish("", queue, b"x")
    with pytest.raises(Broken):
        wait_until(connection, lambda: False)
    if closes:
        channel.close()
    assert channel.is_open is not closes
    assert got(connection.channel(), queue) == (b"x" if closes else None)


def test_no_requeue_on_cancel_no_requeue_on_cancel(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    channel.basic_publish("", queue, b"1")
    inbox = Inbox(channel, queue)
    inbox.wait(1)
    channel.basic_cancel(inbox.tag)
    assert got(channel, queue) is None
    channel.close()
    assert got(connection.channel(), queue) == b"1"


def field(key: bytes, kind: bytes, value: bytes) -> bytes:
    return bytes([len(key)]) + key + kind + value


def sized(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


FIELDS = b"".join(
    (
        field(b"S", b"S", sized(b"string")),
        field(b"I", b"I", struct.pack(">i", 1)),
        field(b"D", b"D", struct.pack(">Bi", 1, 11)),
        field(b"T", b"T", struct.pack(">Q", 1000)),
        field(b"F", b"F", sized(field(b"key", b"I", struct.pack(">i", 1)))),
        field(b"b", b"b", struct.pack(">b", -1)),
        field(b"d", b"d", struct.pack(">d", 1.1)),
        field(b"f", b"f", struct.pack(">f", 1.1)),
        field(b"l", b"l", struct.pack(">q", 1)),
        field(b"s", b"s", struct.pack(">h", 1)),
        field(b"t", b"t", b"\1"),
        field(b"x", b"x", sized(b"byte")),
        field(b"V", b"V", b""),
        field(b"A", b"A", sized(b"S" + sized(b"foo") + b"I" + struct.pack(">i", 123))),
    )
)
HEADERS_ONLY = 1 << 13
"""The property flags of a content header whose only property is ``headers``."""


def test_tables_types(broker: Target, queue: str, name: Named) -> None:
    """As message headers they come back byte for byte; as arguments of an exchange they are
    ignored."""
    table = sized(FIELDS)
    content = struct.pack(">HHQH", 60, 0, 0, HEADERS_ONLY) + table
    exchange = name("x").encode()
    declared = struct.pack(">HHH", 40, 10, 0) + bytes([len(exchange)]) + exchange
    declared += b"\x06direct\0" + table
    with Wire(broker) as wire:
        wire.open()
        wire.send(commands.Channel.Open(), 1)
        wire.read()
        wire.send(commands.Basic.Publish(exchange="", routing_key=queue), 1)
        wire.socket.sendall(bare_frame(frame_header := 2, 1, content))
        wire.send(commands.Basic.Get(queue=queue, no_ack=True), 1)
        assert isinstance(wire.read(), commands.Basic.GetOk)
        head = wire._exactly(7)
        back = wire._exactly(struct.unpack(">I", head[3:])[0] + 1)
        assert (head[0], back[:-1]) == (frame_header, content)
        wire.socket.sendall(bare_frame(1, 1, declared))
        assert isinstance(wire.read(), commands.Exchange.DeclareOk)
