"""Consuming: order, prefetch, acknowledgement, redelivery."""

from collections import Counter

import pytest
from conformance.amqp.conftest import Connect
from conformance.amqp.helpers import Inbox, bodies_in, publish, refused, settle, take, wait_until
from pika.adapters.blocking_connection import BlockingChannel


def got_by(inboxes: list[Inbox]) -> int:
    return sum(len(inbox.got) for inbox in inboxes)


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def test_messages_come_in_the_order_of_publishing(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *numbers(200))
    assert Inbox(channel, queue).wait(200) == numbers(200)


def test_a_waiting_consumer_gets_what_is_published_later(
    channel: BlockingChannel, queue: str
) -> None:
    inbox = Inbox(channel, queue)
    publish(channel, queue, *numbers(20))
    assert inbox.wait(20) == numbers(20)


def test_delivery_tags_count_from_one_on_each_channel(connect: Connect, queue: str) -> None:
    connection = connect()
    first, second = connection.channel(), connection.channel()
    publish(first, queue, *numbers(6))
    for channel in (first, second):
        tags = [method.delivery_tag for method, _, _ in take(channel, queue, 3)]
        assert tags == [1, 2, 3]


def test_a_delivery_names_its_exchange_key_and_consumer(
    channel: BlockingChannel, queue: str
) -> None:
    channel.queue_bind(queue, "amq.topic", "a.#")
    channel.basic_publish("amq.topic", "a.b.c", b"x")
    inbox = Inbox(channel, queue, consumer_tag="me")
    inbox.wait(1)
    method = inbox.got[0][0]
    assert (method.exchange, method.routing_key, method.consumer_tag) == (
        "amq.topic",
        "a.b.c",
        "me",
    )
    assert method.redelivered is False


def test_a_delivery_is_answered_on_its_own_channel_only(connect: Connect, queue: str) -> None:
    connection = connect()
    first, second = connection.channel(), connection.channel()
    publish(first, queue, b"x")
    tag = take(first, queue, 1)[0][0].delivery_tag
    second.basic_ack(tag)
    with refused(406, f"PRECONDITION_FAILED - unknown delivery tag {tag}"):
        second.basic_get(queue)
    first.basic_ack(tag)
    assert first.queue_declare(queue, passive=True).method.message_count == 0


def test_basic_get_ignores_the_prefetch_limit(channel: BlockingChannel, queue: str) -> None:
    channel.basic_qos(prefetch_count=1)
    channel.basic_qos(prefetch_count=1, global_qos=True)
    publish(channel, queue, *numbers(3))
    assert [body for _, _, body in take(channel, queue, 3)] == numbers(3)


@pytest.mark.parametrize("prefetch", [1, 3, 50])
def test_a_consumer_holds_no_more_than_its_prefetch(
    connect: Connect, queue: str, prefetch: int
) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, *numbers(100))
    channel.basic_qos(prefetch_count=prefetch)
    inbox = Inbox(channel, queue)
    inbox.wait(prefetch)
    settle(connection)
    assert len(inbox.got) == prefetch
    channel.basic_ack(inbox.tags[0])
    inbox.wait(prefetch + 1)
    settle(connection)
    assert inbox.bodies == numbers(prefetch + 1)


def test_a_global_prefetch_is_shared_by_the_consumers_of_the_channel(
    connect: Connect, queue: str
) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, *numbers(50))
    channel.basic_qos(prefetch_count=5, global_qos=True)
    inboxes = [Inbox(channel, queue) for _ in range(2)]
    for count in (5, 10):
        wait_until(connection, lambda so_far=count: got_by(inboxes) >= so_far)
        settle(connection)
        assert got_by(inboxes) == count
        channel.basic_ack(0, multiple=True)


def test_a_prefetch_counts_for_each_later_consumer_by_itself(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, *numbers(50))
    channel.basic_qos(prefetch_count=2)
    first = Inbox(channel, queue)
    channel.basic_qos(prefetch_count=7)
    second = Inbox(channel, queue)
    first.wait(2)
    second.wait(7)
    settle(connection)
    assert (len(first.got), len(second.got)) == (2, 7)


def test_without_acks_prefetch_does_not_count(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *numbers(50))
    channel.basic_qos(prefetch_count=1)
    assert Inbox(channel, queue, auto_ack=True).wait(50) == numbers(50)
    assert bodies_in(channel, queue) == []


def test_acked_messages_do_not_come_back_and_others_do_in_order(
    connect: Connect, queue: str
) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, *numbers(10))
    inbox = Inbox(channel, queue)
    inbox.wait(10)
    for tag in inbox.tags[::2]:
        channel.basic_ack(tag)
    connection.close()
    again = Inbox(connect().channel(), queue)
    assert again.wait(5) == numbers(10)[1::2]
    assert all(method.redelivered for method, _, _ in again.got)


def test_a_multiple_ack_takes_every_older_one(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, *numbers(10))
    inbox = Inbox(channel, queue)
    inbox.wait(10)
    channel.basic_ack(inbox.tags[6], multiple=True)
    connection.close()
    assert Inbox(connect().channel(), queue).wait(3) == numbers(3, 7)


def test_a_requeued_message_returns_to_its_place(connect: Connect, queue: str) -> None:
    channel = connect().channel()
    publish(channel, queue, *numbers(5))
    got = take(channel, queue, 3)
    channel.basic_reject(got[1][0].delivery_tag, requeue=True)
    again = take(channel, queue, 3)
    assert [body for _, _, body in again] == [b"1", b"3", b"4"]
    assert [method.redelivered for method, _, _ in again] == [True, False, False]


def test_a_multiple_nack_requeues_in_order(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *numbers(6))
    got = take(channel, queue, 4)
    channel.basic_nack(got[2][0].delivery_tag, multiple=True, requeue=True)
    again = take(channel, queue, 5)
    assert [body for _, _, body in again] == [b"0", b"1", b"2", b"4", b"5"]
    assert [method.redelivered for method, _, _ in again] == [True, True, True, False, False]


def test_a_rejected_message_without_requeue_is_gone(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, *numbers(4))
    got = take(channel, queue, 3)
    channel.basic_reject(got[0][0].delivery_tag, requeue=False)
    channel.basic_nack(got[2][0].delivery_tag, multiple=True, requeue=False)
    connection.close()
    assert bodies_in(connect().channel(), queue) == [b"3"]


def test_recover_redelivers_everything_unacked(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, *numbers(3))
    inbox = Inbox(channel, queue)
    inbox.wait(3)
    channel.basic_ack(inbox.tags[0])
    channel.basic_recover(requeue=True)
    inbox.wait(5)
    settle(connection)
    assert inbox.bodies == [*numbers(3), b"1", b"2"]
    assert [method.redelivered for method, _, _ in inbox.got[3:]] == [True, True]


def test_after_a_cancel_nothing_more_comes_and_unacked_ones_can_be_acked(
    connect: Connect, queue: str
) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, *numbers(4))
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, queue)
    inbox.wait(2)
    channel.basic_cancel(inbox.tag)
    channel.basic_ack(inbox.tags[1], multiple=True)
    settle(connection)
    assert inbox.bodies == numbers(2)
    assert bodies_in(channel, queue) == numbers(2, 2)


def test_consumers_share_a_queue_evenly(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    inboxes = []
    for _ in range(4):
        own = connection.channel()
        own.basic_qos(prefetch_count=1)
        inboxes.append(Inbox(own, queue))
    publish(channel, queue, *numbers(4))
    wait_until(connection, lambda: got_by(inboxes) >= 4)
    settle(connection)
    assert [len(inbox.got) for inbox in inboxes] == [1, 1, 1, 1]
    assert Counter(body for inbox in inboxes for body in inbox.bodies) == Counter(numbers(4))


def test_get_says_how_many_are_left(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *numbers(3))
    left = [channel.basic_get(queue, auto_ack=True)[0].message_count for _ in range(3)]
    assert left == [2, 1, 0]
    assert channel.basic_get(queue) == (None, None, None)


def test_get_without_ack_takes_the_message_for_good(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, b"x")
    channel.basic_get(queue, auto_ack=True)
    connection.close()
    assert bodies_in(connect().channel(), queue) == []


def test_an_exclusive_consumer_does_not_wait_for_others(connect: Connect, queue: str) -> None:
    connection = connect()
    Inbox(connection.channel(), queue)
    with refused(403, f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"):
        Inbox(connection.channel(), queue, exclusive=True)


def test_a_slow_consumer_does_not_hold_up_another(connect: Connect, queue: str) -> None:
    slow, fast = connect(), connect()
    channel = slow.channel()
    publish(channel, queue, *numbers(100))
    channel.basic_qos(prefetch_count=1)
    stuck = Inbox(channel, queue)
    stuck.wait(1)
    quick = Inbox(fast.channel(), queue)
    assert quick.wait(99) == numbers(99, 1)
