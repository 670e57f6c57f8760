"""The routes of dead letters, and the headers they carry after passing through several queues."""

from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import PERSISTENT, Inbox, bodies_in, publish, settle, take, wait_until
from conformance.amqp.test_dead_letters import deaths, declare, firsts, ready, until_empty
from pika.adapters.blocking_connection import BlockingChannel


def exchange(channel: BlockingChannel, made: str, kind: str, **arguments: Any) -> str:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    channel.exchange_declare(made, kind, durable=True, arguments=named)
    return made


def bound(channel: BlockingChannel, queue: str, source: str, key: str, **arguments: Any) -> str:
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(queue, source, key, arguments)
    return queue


def reject(channel: BlockingChannel, queue: str) -> None:
    channel.basic_reject(take(channel, queue, 1)[0][0].delivery_tag, requeue=False)


def one(channel: BlockingChannel, queue: str) -> tuple[Any, Any, bytes]:
    return take(channel, queue, 1)[0]


def test_carbon_copies_are_routed_again(channel: BlockingChannel, name: Named) -> None:
    dlx = exchange(channel, name("dlx"), "direct")
    queue, copied = name("queue"), name("copied")
    declare(channel, queue, dead_letter_exchange=dlx)
    grave = bound(channel, name("grave"), dlx, queue)
    other = bound(channel, name("other"), dlx, copied)
    properties = pika.BasicProperties(headers={"CC": [copied]})
    channel.basic_publish("", queue, b"a", properties)
    reject(channel, queue)
    for place in (grave, other):
        method, found, _ = one(channel, place)
        assert method.routing_key == queue
        assert (found.headers or {})["CC"] == [copied]
        assert deaths(found)[0]["routing-keys"] == [queue, copied]


def test_blind_copies_are_not_shown(channel: BlockingChannel, name: Named) -> None:
    dlx = exchange(channel, name("dlx"), "fanout")
    queue = declare(channel, name("queue"), dead_letter_exchange=dlx)
    grave = bound(channel, name("grave"), dlx, "")
    properties = pika.BasicProperties(headers={"BCC": ["blind"]})
    channel.basic_publish("", queue, b"a", properties)
    reject(channel, queue)
    _, found, _ = one(channel, grave)
    assert "BCC" not in (found.headers or {})
    assert deaths(found)[0]["routing-keys"] == [queue]


def test_patterns_choose_among_graves(channel: BlockingChannel, name: Named) -> None:
    source, dlx = exchange(channel, name("source"), "topic"), exchange(channel, name("d"), "topic")
    queue = declare(channel, name("queue"), dead_letter_exchange=dlx)
    channel.queue_bind(queue, source, "order.#")
    paid = bound(channel, name("paid"), dlx, "*.paid")
    every = bound(channel, name("every"), dlx, "#")
    channel.queue_bind(every, dlx, "order.*")
    for key in ("order.paid", "order.new"):
        channel.basic_publish(source, key, key.encode())
        reject(channel, queue)
    assert [body for _, _, body in take(channel, every, 2)] == [b"order.paid", b"order.new"]
    method, properties, _ = one(channel, paid)
    assert (method.exchange, method.routing_key) == (dlx, "order.paid")
    assert deaths(properties)[0]["exchange"] == source
    assert firsts(properties) == [queue, "rejected", source]
    assert ready(channel, every) == ready(channel, paid) == 0


def test_headers_choose_among_graves(channel: BlockingChannel, name: Named) -> None:
    dlx = exchange(channel, name("dlx"), "headers")
    queue = declare(channel, name("queue"), dead_letter_exchange=dlx)
    grave = bound(channel, name("grave"), dlx, "", kind="a")
    for kind in ("b", "a"):
        properties = pika.BasicProperties(headers={"kind": kind})
        channel.basic_publish("", queue, kind.encode(), properties)
        reject(channel, queue)
    assert one(channel, grave)[2] == b"a"
    assert ready(channel, grave) == 0


def test_the_alternate_exchange_gets_what_no_grave_takes(
    channel: BlockingChannel, name: Named
) -> None:
    last = exchange(channel, name("last"), "fanout")
    dlx = exchange(channel, name("dlx"), "direct", alternate_exchange=last)
    queue = declare(channel, name("queue"), dead_letter_exchange=dlx)
    grave = bound(channel, name("grave"), last, "")
    publish(channel, queue, b"a")
    reject(channel, queue)
    method, properties, _ = one(channel, grave)
    assert (method.exchange, method.routing_key) == (dlx, queue)
    assert deaths(properties)[0]["queue"] == queue


def test_an_exchange_that_comes_later_counts(channel: BlockingChannel, name: Named) -> None:
    dlx, queue = name("dlx"), name("queue")
    declare(channel, queue, dead_letter_exchange=dlx)
    publish(channel, queue, b"too early", b"a", b"too late")
    reject(channel, queue)
    assert ready(channel, queue) == 2  # this answer comes after the reject has taken effect
    exchange(channel, dlx, "fanout")
    grave = bound(channel, name("grave"), dlx, "")
    reject(channel, queue)
    assert one(channel, grave)[2] == b"a"
    channel.exchange_delete(dlx)
    reject(channel, queue)
    settle(channel.connection)
    assert ready(channel, grave) == ready(channel, queue) == 0


def test_everything_else_about_the_message_stays(channel: BlockingChannel, name: Named) -> None:
    grave = declare(channel, name("grave"))
    queue = declare(channel, name("queue"), dead_letter_exchange="", dead_letter_routing_key=grave)
    properties = pika.BasicProperties(
        content_type="text/plain", content_encoding="gzip", delivery_mode=2, priority=3,
        correlation_id="c", reply_to="r", expiration="60000", message_id="m", timestamp=1234,
        type="t", user_id="guest", app_id="a", headers={"n": 1, "deep": {"er": [True, None]}},
    )  # fmt: skip
    body = bytes(300_000)
    channel.basic_publish("", queue, body, properties)
    reject(channel, queue)
    _, found, got = one(channel, grave)
    assert got == body
    assert (found.headers or {})["deep"] == {"er": [True, None]}
    wanted, seen = dict(vars(properties)), dict(vars(found))
    for each in (wanted, seen):
        del each["headers"], each["expiration"]
    assert seen == wanted
    assert found.expiration is None
    assert deaths(found)[0]["original-expiration"] == "60000"
    seconds = (found.headers or {})["x-death"][0]["time"]
    assert seconds is not None


def test_a_retry_queue_goes_round_for_ever(channel: BlockingChannel, name: Named) -> None:
    """Rejected messages wait in a second queue, whose TTL returns them to the first."""
    work, wait = name("work"), name("wait")
    declare(channel, work, dead_letter_exchange="", dead_letter_routing_key=wait)
    declare(channel, wait, dead_letter_exchange="", dead_letter_routing_key=work, message_ttl=20)
    publish(channel, work, b"a")
    for round_ in range(4):
        method, properties, _ = one(channel, work)
        if round_:
            assert [
                (each["queue"], each["reason"], each["count"]) for each in deaths(properties)
            ] == [
                (wait, "expired", round_),
                (work, "rejected", round_),
            ]
            assert firsts(properties) == [work, "rejected", ""]
        channel.basic_reject(method.delivery_tag, requeue=False)


def test_two_queues_in_a_circle_end(channel: BlockingChannel, name: Named) -> None:
    one_, two = name("one"), name("two")
    declare(channel, one_, dead_letter_exchange="", dead_letter_routing_key=two, message_ttl=20)
    declare(channel, two, dead_letter_exchange="", dead_letter_routing_key=one_, message_ttl=20)
    publish(channel, one_, b"a")
    until_empty(channel, one_, two)


def test_only_the_way_that_is_a_circle_ends(channel: BlockingChannel, name: Named) -> None:
    dlx = exchange(channel, name("dlx"), "fanout")
    queue = declare(channel, name("queue"), dead_letter_exchange=dlx, message_ttl=20)
    channel.queue_bind(queue, dlx)
    grave = bound(channel, name("grave"), dlx, "")
    publish(channel, queue, b"a")
    assert one(channel, grave)[2] == b"a"
    until_empty(channel, queue, grave)


@pytest.mark.parametrize("durable", [True, False], ids=["to disk", "to memory"])
def test_between_memory_and_disk(channel: BlockingChannel, name: Named, durable: bool) -> None:
    queue, grave = name("queue"), name("grave")
    channel.queue_declare(grave, durable=durable)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": grave}
    channel.queue_declare(queue, durable=not durable, arguments=arguments)
    publish(channel, queue, b"a", b"b")
    inbox = Inbox(channel, queue)
    inbox.wait(2)
    channel.basic_nack(inbox.tags[-1], multiple=True, requeue=False)
    assert [body for _, _, body in take(channel, grave, 2)] == [b"a", b"b"]
    assert bodies_in(channel, queue) == []


def test_too_many_deliveries(channel: BlockingChannel, name: Named) -> None:
    grave = declare(channel, name("grave"))
    queue = declare(
        channel, name("queue"), queue_type="quorum", delivery_limit=1, dead_letter_exchange="",
        dead_letter_routing_key=grave,
    )  # fmt: skip
    channel.basic_publish("", queue, b"a", PERSISTENT)
    for _ in range(2):
        method, _, _ = one(channel, queue)
        channel.basic_nack(method.delivery_tag, requeue=True)
    _, properties, body = one(channel, grave)
    assert body == b"a"
    assert deaths(properties) == [
        {
            "count": 1, "exchange": "", "queue": queue, "reason": "delivery_limit",
            "routing-keys": [queue],
        }
    ]  # fmt: skip
    assert firsts(properties) == [queue, "delivery_limit", ""]


def test_many_at_once(connect: Connect, channel: BlockingChannel, name: Named) -> None:
    dlx = exchange(channel, name("dlx"), "fanout")
    grave = bound(channel, name("grave"), dlx, "")
    queue = declare(channel, name("queue"), dead_letter_exchange=dlx, message_ttl=500)
    sender = connect().channel()
    for index in range(3_000):
        sender.basic_publish("", queue, b"%d" % index, PERSISTENT)
    wait_until(sender.connection, lambda: ready(channel, grave) == 3_000)
    assert bodies_in(channel, grave) == [b"%d" % index for index in range(3_000)]
