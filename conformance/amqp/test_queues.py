"""Queues: their names, lifetimes and counts."""

import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import Inbox, bodies_in, publish, refused, settle, wait_until
from conformance.amqp.wire import WireClient
from conformance.conftest import Target
from pamqp import body, commands, header
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker


def count(channel: BlockingChannel, queue: str) -> tuple[int, int]:
    """The numbers of ready messages and of consumers."""
    method = channel.queue_declare(queue, passive=True).method
    return method.message_count, method.consumer_count


def test_the_server_names_a_queue_without_a_name(channel: BlockingChannel) -> None:
    first = channel.queue_declare("", exclusive=True).method.queue
    second = channel.queue_declare("", exclusive=True).method.queue
    assert first != second
    assert first.startswith("amq.gen-")


def test_an_empty_name_means_the_queue_declared_last(channel: BlockingChannel) -> None:
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind("", "amq.fanout")
    publish(channel, queue, b"x")
    assert channel.basic_get("", auto_ack=True)[2] == b"x"


def test_an_exclusive_queue_is_locked_for_others_and_goes_with_its_connection(
    connect: Connect, name: Named
) -> None:
    owner, other = connect(), connect()
    queue = name("exclusive")
    owner.channel().queue_declare(queue, exclusive=True)
    text = (
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration."
    )
    for action in ("queue_declare", "queue_delete", "queue_purge", "basic_get"):
        with refused(405, text):
            getattr(other.channel(), action)(queue)
    owner.close()
    with refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        other.channel().queue_declare(queue, passive=True)


def test_an_auto_delete_queue_goes_with_its_last_consumer(connect: Connect, name: Named) -> None:
    connection = connect()
    channel = connection.channel()
    queue = name("auto")
    channel.queue_declare(queue, auto_delete=True)
    settle(connection)
    assert count(channel, queue) == (0, 0)
    tags = [channel.basic_consume(queue, lambda *_: None) for _ in range(2)]
    channel.basic_cancel(tags[0])
    assert count(channel, queue) == (0, 1)
    channel.basic_cancel(tags[1])
    with refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        channel.queue_declare(queue, passive=True)


def test_cancelling_the_last_consumer_of_an_auto_delete_queue_is_only_answered(
    broker: Target, name: Named
) -> None:
    """Whether or not the client still owes answers, the queue is deleted, and there is no consumer
    left to notify."""
    queue = name("auto")
    with WireClient(broker) as raw:
        raw.start(capabilities={"consumer_cancel_notify": True})
        raw.send(commands.Connection.TuneOk(2047, 131_072, 0))
        raw.send(commands.Connection.Open("/"))
        assert isinstance(raw.read(), commands.Connection.OpenOk)
        raw.open_channel()
        raw.send(commands.Queue.Declare(queue=queue, auto_delete=True), 1)
        assert isinstance(raw.read(), commands.Queue.DeclareOk)
        raw.send(commands.Basic.Publish(routing_key=queue), 1)
        raw.send(header.ContentHeader(0, 1, commands.Basic.Properties()), 1)
        raw.send(body.ContentBody(b"x"), 1)
        raw.send(commands.Basic.Consume(queue=queue, consumer_tag="c"), 1)
        came = [type(raw.read()) for _ in range(4)]
        assert came[1] is commands.Basic.Deliver
        raw.send(commands.Basic.Cancel(consumer_tag="c"), 1)
        assert isinstance(raw.read(), commands.Basic.CancelOk)
        raw.send(commands.Basic.Ack(1), 1)
        raw.send(commands.Queue.Declare(queue=queue, passive=True), 1)
        gone = raw.read()
        assert isinstance(gone, commands.Channel.Close)
        assert gone.reply_code == 404


def test_declare_answers_ready_messages_and_consumers(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2", b"3")
    assert count(channel, queue) == (3, 0)
    assert channel.basic_get(queue)[0].message_count == 2
    assert count(channel, queue) == (2, 0)
    inbox = Inbox(channel, queue)
    inbox.wait(2)
    assert count(channel, queue) == (0, 1)


def test_purge_takes_what_is_ready_and_leaves_what_is_unacked(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, b"1", b"2", b"3")
    channel.basic_get(queue)
    assert channel.queue_purge(queue).method.message_count == 2
    assert count(channel, queue) == (0, 0)
    channel.close()
    assert bodies_in(connection.channel(), queue) == [b"1"]


def test_delete_answers_how_many_messages_went(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"1", b"2")
    assert channel.queue_delete(queue).method.message_count == 2
    with refused(404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        channel.queue_declare(queue, passive=True)


def test_deleting_what_is_not_there_is_no_error(channel: BlockingChannel) -> None:
    assert channel.queue_delete("never-made").method.message_count == 0
    channel.exchange_delete("never-made")


def test_a_queue_made_again_is_empty(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"old")
    channel.queue_delete(queue)
    channel.queue_declare(queue, durable=True)
    assert count(channel, queue) == (0, 0)
    publish(channel, queue, b"new")
    assert bodies_in(channel, queue) == [b"new"]


def test_a_queue_is_not_deleted_if_it_is_used_or_not_empty(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, b"x")
    with refused(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"):
        channel.queue_delete(queue, if_empty=True)
    channel = connection.channel()
    channel.basic_consume(queue, lambda *_: None)
    with refused(406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"):
        connection.channel().queue_delete(queue, if_unused=True)


def test_consumers_are_notified_when_their_queue_is_deleted(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume(queue, lambda *_: None)
    connect().channel().queue_delete(queue)
    wait_until(connection, lambda: cancelled)


@pytest.mark.parametrize("durable", [True, False])
def test_redeclaring_with_another_durability_is_refused(
    connect: Connect, name: Named, durable: bool
) -> None:
    queue = name("fixed")
    connection = connect()
    connection.channel().queue_declare(queue, durable=durable)
    connection.channel().queue_declare(queue, durable=durable)
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'durable' for queue '{queue}' in vhost '/': "
        f"received '{str(not durable).lower()}' but current is '{str(durable).lower()}'"
    )
    with refused(406, text):
        connection.channel().queue_declare(queue, durable=not durable)


def test_a_transient_queue_works_like_any_other(channel: BlockingChannel, name: Named) -> None:
    queue = name("transient")
    channel.queue_declare(queue, durable=False)
    publish(channel, queue, *[b"%d" % number for number in range(100)])
    assert bodies_in(channel, queue) == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize(
    "strange",
    ["with space", "slash/and%2F", "ünï-cödé", "a" * 200, "dots.and#hash*star", "q?x=1&y"],
)
def test_any_name_is_a_queue_name(channel: BlockingChannel, name: Named, strange: str) -> None:
    queue = name("") + strange
    channel.queue_declare(queue, durable=True)
    try:
        publish(channel, queue, b"x")
        assert count(channel, queue) == (1, 0)
        assert bodies_in(channel, queue) == [b"x"]
    finally:
        channel.queue_delete(queue)


def test_a_missing_queue_cannot_be_got_from_or_consumed(connect: Connect) -> None:
    connection = connect()
    with pytest.raises(ChannelClosedByBroker, match="no queue 'nope'"):
        connection.channel().basic_get("nope")
    with pytest.raises(ChannelClosedByBroker, match="no queue 'nope'"):
        connection.channel().basic_consume("nope", lambda *_: None)
