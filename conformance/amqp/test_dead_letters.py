"""Dead letters, TTLs and length limits: which messages leave a queue, when, and with which
headers."""

from collections.abc import Mapping
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import PERSISTENT, Inbox, bodies_in, publish, settle, take, wait_until
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, NackError

SHORT_MS = 60


@pytest.fixture
def grave(channel: BlockingChannel, name: Named) -> tuple[str, str]:
    """A dead letter exchange and the queue bound to it."""
    exchange, queue = name("dlx"), name("grave")
    channel.exchange_declare(exchange, "fanout", durable=True)
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, exchange)
    return exchange, queue


def declare(channel: BlockingChannel, queue: str, **arguments: Any) -> str:
    """Declare a durable queue; the keywords are its ``x-`` arguments, with underscores for dashes
    and without the prefix."""
    named = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments=named)
    return queue


def ready(channel: BlockingChannel, queue: str) -> int:
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


def until_empty(channel: BlockingChannel, *queues: str) -> None:
    """Wait until all of the queues are empty, and check that nothing more arrives."""
    for _ in range(2):
        wait_until(channel.connection, lambda: not any(ready(channel, each) for each in queues))
        settle(channel.connection, 3 * SHORT_MS / 1000)
    assert not any(ready(channel, each) for each in queues)


def deaths(properties: pika.BasicProperties) -> list[Mapping[str, Any]]:
    """The entries of ``x-death``, without the time."""
    headers = properties.headers or {}
    return [{k: v for k, v in each.items() if k != "time"} for each in headers["x-death"]]


def firsts(properties: pika.BasicProperties) -> list[Any]:
    headers = properties.headers or {}
    return [headers[f"x-first-death-{key}"] for key in ("queue", "reason", "exchange")]


def test_a_rejected_message_is_dead_lettered(
    channel: BlockingChannel, name: Named, grave: tuple[str, str]
) -> None:
    queue = declare(channel, name("queue"), dead_letter_exchange=grave[0])
    publish(channel, queue, b"a", b"b", b"c")
    got = take(channel, queue, 3)
    channel.basic_reject(got[0][0].delivery_tag, requeue=False)
    channel.basic_nack(got[2][0].delivery_tag, multiple=True, requeue=False)
    found = take(channel, grave[1], 3)
    assert [body for _, _, body in found] == [b"a", b"b", b"c"]
    method, properties, _ = found[0]
    assert (method.exchange, method.routing_key, method.redelivered) == (grave[0], queue, False)
    assert deaths(properties) == [
        {"count": 1, "exchange": "", "queue": queue, "reason": "rejected", "routing-keys": [queue]}
    ]
    assert firsts(properties) == [queue, "rejected", ""]
    assert properties.delivery_mode == 2
    assert ready(channel, queue) == 0


def test_a_rejected_message_without_an_exchange_is_gone(
    channel: BlockingChannel, name: Named
) -> None:
    queue = declare(channel, name("queue"))
    publish(channel, queue, b"a")
    channel.basic_reject(take(channel, queue, 1)[0][0].delivery_tag, requeue=False)
    assert ready(channel, queue) == 0


def test_the_queue_may_choose_the_routing_key(channel: BlockingChannel, name: Named) -> None:
    target = declare(channel, name("target"))
    queue = declare(channel, name("queue"), dead_letter_exchange="", dead_letter_routing_key=target)
    properties = pika.BasicProperties(headers={"CC": ["elsewhere"], "k": 1})
    channel.basic_publish("", queue, b"a", properties)
    channel.basic_reject(take(channel, queue, 1)[0][0].delivery_tag, requeue=False)
    method, found, _ = take(channel, target, 1)[0]
    assert (method.exchange, method.routing_key) == ("", target)
    assert deaths(found)[0]["routing-keys"] == [queue, "elsewhere"]
    assert (found.headers or {})["k"] == 1
    assert "CC" not in (found.headers or {})


def test_the_ttl_of_a_queue(channel: BlockingChannel, name: Named, grave: tuple[str, str]) -> None:
    queue = declare(channel, name("queue"), message_ttl=SHORT_MS, dead_letter_exchange=grave[0])
    publish(channel, queue, b"a", b"b")
    found = take(channel, grave[1], 2)
    assert [body for _, _, body in found] == [b"a", b"b"]
    assert deaths(found[0][1]) == [
        {"count": 1, "exchange": "", "queue": queue, "reason": "expired", "routing-keys": [queue]}
    ]
    assert ready(channel, queue) == 0


def test_the_ttl_of_a_message(
    channel: BlockingChannel, name: Named, grave: tuple[str, str]
) -> None:
    queue = declare(channel, name("queue"), dead_letter_exchange=grave[0])
    properties = pika.BasicProperties(expiration=str(SHORT_MS))
    channel.basic_publish("", queue, b"a", properties)
    _, found, _ = take(channel, grave[1], 1)[0]
    assert found.expiration is None
    assert deaths(found)[0]["original-expiration"] == str(SHORT_MS)
    assert deaths(found)[0]["reason"] == "expired"


def test_only_the_front_expires_and_nothing_expired_is_delivered(
    channel: BlockingChannel, name: Named
) -> None:
    queue = declare(channel, name("queue"))
    publish(channel, queue, b"stays")
    channel.basic_publish("", queue, b"goes", pika.BasicProperties(expiration=str(SHORT_MS)))
    publish(channel, queue, b"stays too")
    settle(channel.connection, 3 * SHORT_MS / 1000)
    assert ready(channel, queue) == 3
    assert bodies_in(channel, queue) == [b"stays", b"stays too"]


def test_the_front_expires_and_what_came_with_it_stays(
    channel: BlockingChannel, name: Named, grave: tuple[str, str]
) -> None:
    queue = declare(channel, name("queue"), dead_letter_exchange=grave[0])
    channel.tx_select()
    for body in (b"first", b"second"):
        channel.basic_publish("", queue, body, pika.BasicProperties(expiration=str(SHORT_MS)))
    channel.basic_publish("", queue, b"stays")
    channel.tx_commit()
    assert [body for _, _, body in take(channel, grave[1], 2)] == [b"first", b"second"]
    assert bodies_in(channel, queue) == [b"stays"]
    channel.tx_commit()


def test_a_ttl_of_zero_is_enough_for_a_waiting_consumer(connect: Connect, name: Named) -> None:
    channel = connect().channel()
    queue = declare(channel, name("queue"), message_ttl=0)
    publish(channel, queue, b"nobody")
    assert channel.basic_get(queue)[0] is None
    inbox = Inbox(channel, queue)
    publish(channel, queue, b"somebody")
    assert inbox.wait(1) == [b"somebody"]


def test_a_ttl_of_zero_is_not_enough_for_a_later_consumer(connect: Connect, name: Named) -> None:
    channel = connect().channel()
    queue = declare(channel, name("queue"))
    publish(channel, queue, b"waits")
    channel.basic_publish("", queue, b"missed", pika.BasicProperties(expiration="0"))
    inbox = Inbox(channel, queue)
    publish(channel, queue, b"comes")
    assert inbox.wait(2) == [b"waits", b"comes"]


def test_a_requeued_message_keeps_its_expiry(
    channel: BlockingChannel, name: Named, grave: tuple[str, str]
) -> None:
    queue = declare(channel, name("queue"), message_ttl=2000, dead_letter_exchange=grave[0])
    publish(channel, queue, b"a")
    method, _, _ = take(channel, queue, 1)[0]
    settle(channel.connection, 2.5)
    assert ready(channel, grave[1]) == 0  # unacknowledged messages do not expire
    channel.basic_nack(method.delivery_tag, requeue=True)
    assert [body for _, _, body in take(channel, grave[1], 1)] == [b"a"]


def test_a_full_queue_drops_from_the_front(
    channel: BlockingChannel, name: Named, grave: tuple[str, str]
) -> None:
    queue = declare(channel, name("queue"), max_length=3, dead_letter_exchange=grave[0])
    publish(channel, queue, *(b"%d" % index for index in range(7)))
    found = take(channel, grave[1], 4)
    assert [body for _, _, body in found] == [b"0", b"1", b"2", b"3"]
    assert deaths(found[0][1])[0]["reason"] == "maxlen"
    assert bodies_in(channel, queue) == [b"4", b"5", b"6"]


def test_what_is_out_does_not_count(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"), max_length=2)
    publish(channel, queue, b"a", b"b")
    got = take(channel, queue, 2)
    publish(channel, queue, b"c", b"d")
    assert ready(channel, queue) == 2
    channel.basic_nack(got[1][0].delivery_tag, multiple=True, requeue=True)
    wait_until(channel.connection, lambda: ready(channel, queue) == 2)
    assert bodies_in(channel, queue) == [b"c", b"d"]


def test_a_queue_that_is_full_by_bytes(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"), max_length_bytes=300)
    publish(channel, queue, *(b"%d" % index + bytes(99) for index in range(5)))
    assert [body[:1] for body in bodies_in(channel, queue)] == [b"2", b"3", b"4"]


def test_a_length_of_nothing(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"), max_length=0)
    publish(channel, queue, b"a")
    assert ready(channel, queue) == 0


def test_a_consumer_after_a_confirm_gets_nothing_beyond_the_limit(
    channel: BlockingChannel, name: Named
) -> None:
    for number in range(20):
        queue = declare(channel, name(f"queue-{number}"), max_length=1)
        publish(channel, queue, b"a", b"b", b"c")
        assert Inbox(channel, queue, auto_ack=True).wait(1) == [b"c"]


def test_what_is_rejected_is_dead_lettered_in_that_order(
    channel: BlockingChannel, name: Named, grave: tuple[str, str]
) -> None:
    queue = declare(channel, name("queue"), dead_letter_exchange=grave[0])
    publish(channel, queue, *(b"%d" % number for number in range(6)))
    tags = [method.delivery_tag for method, _, _ in take(channel, queue, 6)]
    for rejected in (5, 2):
        channel.basic_reject(tags[rejected], requeue=False)
    channel.basic_nack(tags[1], multiple=True, requeue=False)
    channel.basic_nack(0, multiple=True, requeue=False)
    buried = [body for _, _, body in take(channel, grave[1], 6)]
    assert buried == [b"5", b"2", b"0", b"1", b"3", b"4"]


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_full_queue_may_refuse(
    channel: BlockingChannel, name: Named, grave: tuple[str, str], overflow: str
) -> None:
    queue = declare(
        channel, name("queue"), max_length=2, overflow=overflow, dead_letter_exchange=grave[0]
    )
    publish(channel, queue, b"a", b"b")
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"c", PERSISTENT)
    buried = [b"c"] if overflow.endswith("dlx") else []
    assert [body for _, _, body in take(channel, grave[1], len(buried))] == buried
    assert bodies_in(channel, queue) == [b"a", b"b"]
    publish(channel, queue, b"d")
    assert bodies_in(channel, queue) == [b"d"]


def test_payloads_count_for_a_queue_that_refuses(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"), max_length_bytes=300, overflow="reject-publish")
    publish(channel, queue, *(b"%d" % index + bytes(99) for index in range(3)))
    with pytest.raises(NackError):
        channel.basic_publish("", queue, b"x", PERSISTENT)
    assert len(bodies_in(channel, queue)) == 3


def test_going_round_counts_and_a_reject_lets_it_go_on(
    channel: BlockingChannel, name: Named
) -> None:
    queue = name("queue")
    declare(channel, queue, dead_letter_exchange="")
    publish(channel, queue, b"a")
    for count in range(1, 4):
        method, _, _ = take(channel, queue, 1)[0]
        channel.basic_reject(method.delivery_tag, requeue=False)
        method, properties, _ = take(channel, queue, 1)[0]
        assert [each["count"] for each in deaths(properties)] == [count]
        channel.basic_nack(method.delivery_tag, requeue=True)


def test_a_circle_without_a_reject_ends(channel: BlockingChannel, name: Named) -> None:
    queue = name("queue")
    declare(channel, queue, dead_letter_exchange="", message_ttl=SHORT_MS)
    publish(channel, queue, b"a")
    until_empty(channel, queue)


def test_the_latest_death_stands_first(channel: BlockingChannel, name: Named) -> None:
    last = declare(channel, name("last"))
    second = declare(
        channel, name("second"), dead_letter_exchange="", dead_letter_routing_key=last,
        max_length=0,
    )  # fmt: skip
    first = declare(channel, name("first"), dead_letter_exchange="", dead_letter_routing_key=second)
    publish(channel, first, b"a")
    channel.basic_reject(take(channel, first, 1)[0][0].delivery_tag, requeue=False)
    _, properties, _ = take(channel, last, 1)[0]
    assert [(each["queue"], each["reason"]) for each in deaths(properties)] == [
        (second, "maxlen"),
        (first, "rejected"),
    ]
    assert firsts(properties) == [first, "rejected", ""]


def test_a_missing_exchange_loses_the_message(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"), dead_letter_exchange=name("nowhere"))
    publish(channel, queue, b"a")
    channel.basic_reject(take(channel, queue, 1)[0][0].delivery_tag, requeue=False)
    assert ready(channel, queue) == 0


def test_an_unused_queue_expires(connect: Connect, name: Named) -> None:
    channel = connect().channel()
    queue = declare(channel, name("queue"), expires=2000)
    Inbox(channel, queue)
    settle(channel.connection, 2.5)
    ready(channel, queue)  # a consumer keeps the queue from expiring
    channel.connection.close()
    channel = connect().channel()
    with pytest.raises(ChannelClosedByBroker) as caught:
        for _ in range(10):
            settle(channel.connection, 2.5)
            ready(channel, queue)  # a passive declare counts as use
    assert caught.value.reply_code == 404


def test_a_queue_that_is_only_purged_expires(channel: BlockingChannel, name: Named) -> None:
    queue = declare(channel, name("queue"), expires=1500)
    for _ in range(4):
        settle(channel.connection, 1)
        try:
            channel.queue_purge(queue)
        except ChannelClosedByBroker as closed:
            assert closed.reply_code == 404
            return
    raise AssertionError("the purges kept the queue from expiring")


def test_a_basic_get_does_not_keep_a_queue_from_expiring(
    channel: BlockingChannel, name: Named
) -> None:
    queue = declare(channel, name("queue"), expires=500)
    publish(channel, queue, b"a")
    take(channel, queue, 1)
    settle(channel.connection, 3)
    with pytest.raises(ChannelClosedByBroker) as caught:
        ready(channel, queue)
    assert caught.value.reply_code == 404


def test_a_transaction_rejects_when_it_is_committed(
    channel: BlockingChannel, name: Named, grave: tuple[str, str]
) -> None:
    queue = declare(channel, name("queue"), dead_letter_exchange=grave[0])
    channel.basic_publish("", queue, b"a", PERSISTENT)
    method, _, _ = take(channel, queue, 1)[0]
    channel.tx_select()
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert ready(channel, grave[1]) == 0
    channel.tx_commit()
    assert [body for _, _, body in take(channel, grave[1], 1)] == [b"a"]
