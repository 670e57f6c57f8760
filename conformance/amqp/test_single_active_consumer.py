"""Single active consumer, and consumer priorities: which of several consumers receives the
messages."""

from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import Inbox, publish, refused, settle, wait_until
from pika.adapters.blocking_connection import BlockingChannel

SINGLE = {"x-single-active-consumer": True}


def declare(channel: BlockingChannel, queue: str) -> str:
    channel.queue_declare(queue, durable=True, arguments=SINGLE)
    return queue


def test_only_the_first_consumer_gets_messages(connect: Connect, name: Named) -> None:
    one, two = connect(), connect()
    channel = one.channel()
    queue = declare(channel, name("queue"))
    first = Inbox(channel, queue, auto_ack=True)
    second = Inbox(two.channel(), queue, auto_ack=True)
    publish(one.channel(), queue, b"a", b"b", b"c")
    assert first.wait(3) == [b"a", b"b", b"c"]
    settle(two)
    assert second.bodies == []


def test_the_next_takes_over_what_was_unanswered(connect: Connect, name: Named) -> None:
    one, two = connect(), connect()
    channel = one.channel()
    queue = declare(channel, name("queue"))
    first = Inbox(channel, queue)
    second = Inbox(two.channel(), queue)
    publish(two.channel(), queue, b"a", b"b")
    first.wait(2)
    one.close()
    assert second.wait(2) == [b"a", b"b"]
    assert all(method.redelivered for method, _, _ in second.got)


def test_a_cancelled_consumer_makes_room_and_keeps_what_it_has(
    connect: Connect, name: Named
) -> None:
    connection = connect()
    channel = connection.channel()
    queue = declare(channel, name("queue"))
    first = Inbox(channel, queue)
    second = Inbox(channel, queue)
    publish(connect().channel(), queue, b"a")
    first.wait(1)
    channel.basic_cancel(first.tag)
    publish(connect().channel(), queue, b"b")
    assert second.wait(1) == [b"b"]
    assert first.bodies == [b"a"]
    channel.basic_nack(first.tags[0])
    assert second.wait(2) == [b"b", b"a"]


def test_a_higher_priority_does_not_replace_the_active_consumer(
    connect: Connect, name: Named
) -> None:
    connection = connect()
    channel = connection.channel()
    queue = declare(channel, name("queue"))
    first = Inbox(channel, queue, auto_ack=True)
    low = Inbox(channel, queue, auto_ack=True, arguments={"x-priority": 1})
    high = Inbox(channel, queue, auto_ack=True, arguments={"x-priority": 5})
    publish(connect().channel(), queue, b"a")
    assert first.wait(1) == [b"a"]
    channel.basic_cancel(first.tag)
    publish(connect().channel(), queue, b"b")
    assert high.wait(1) == [b"b"]
    assert low.bodies == []


def test_an_exclusive_consumer_is_refused(connect: Connect, name: Named) -> None:
    channel = connect().channel()
    queue = declare(channel, name("queue"))
    with refused(403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"):
        channel.basic_consume(queue, lambda *_: None, exclusive=True)


def test_a_higher_priority_gets_everything_while_it_has_room(connect: Connect, name: Named) -> None:
    connection = connect()
    queue = name("queue")
    low_channel, high_channel = connection.channel(), connection.channel()
    low_channel.queue_declare(queue, durable=True)
    high_channel.basic_qos(prefetch_count=2)
    low = Inbox(low_channel, queue)
    high = Inbox(high_channel, queue, arguments={"x-priority": 10})
    publish(connect().channel(), queue, b"a", b"b", b"c")
    wait_until(connection, lambda: len(low.got) + len(high.got) == 3)
    assert (high.bodies, low.bodies) == ([b"a", b"b"], [b"c"])
