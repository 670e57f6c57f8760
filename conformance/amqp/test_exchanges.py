"""Exchanges and bindings: who gets which message."""

import pytest
from conformance.amqp.conftest import Named
from conformance.amqp.helpers import bodies_in, refused
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError


def bound_queue(channel: BlockingChannel, name: Named, exchange: str, *keys: str) -> str:
    queue = name("bound")
    channel.queue_declare(queue, durable=True)
    for key in keys:
        channel.queue_bind(queue, exchange, key)
    return queue


def declared(channel: BlockingChannel, name: Named, kind: str) -> str:
    exchange = name(kind)
    channel.exchange_declare(exchange, kind, durable=True)
    channel.confirm_delivery()
    return exchange


@pytest.mark.parametrize(
    "exchange", ["amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match"]
)
def test_the_standard_exchanges_are_there(channel: BlockingChannel, exchange: str) -> None:
    channel.exchange_declare(exchange, passive=True)


def test_the_default_exchange_routes_by_queue_name(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x")
    assert bodies_in(channel, queue) == [b"x"]


def test_direct_routes_by_the_whole_key(channel: BlockingChannel, name: Named) -> None:
    exchange = declared(channel, name, "direct")
    red = bound_queue(channel, name, exchange, "red")
    both = bound_queue(channel, name, exchange, "red", "blue")
    for key in ("red", "blue", "red.blue", ""):
        channel.basic_publish(exchange, key, key.encode())
    assert bodies_in(channel, red) == [b"red"]
    assert bodies_in(channel, both) == [b"red", b"blue"]


def test_two_bindings_deliver_one_copy(channel: BlockingChannel, name: Named) -> None:
    exchange = declared(channel, name, "topic")
    queue = bound_queue(channel, name, exchange, "a.*", "*.b", "#")
    channel.basic_publish(exchange, "a.b", b"once")
    assert bodies_in(channel, queue) == [b"once"]


def test_fanout_ignores_the_key(channel: BlockingChannel, name: Named) -> None:
    exchange = declared(channel, name, "fanout")
    queues = [bound_queue(channel, name, exchange, key) for key in ("", "x")]
    channel.basic_publish(exchange, "whatever", b"all")
    assert [bodies_in(channel, queue) for queue in queues] == [[b"all"], [b"all"]]


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("stock.*.nyse", ["stock.ibm.nyse", "stock..nyse"], ["stock.nyse", "stock.a.b.nyse"]),
        ("stock.#", ["stock", "stock.ibm", "stock.ibm.nyse"], ["stocks", "a.stock"]),
        ("#.nyse", ["nyse", "a.nyse", "a.b.nyse"], ["nyse.a", "xnyse"]),
        ("#", ["", "a", "a.b.c"], []),
        ("*", ["a"], ["", "a.b"]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b"], ["a", "b", "a.b.c"]),
        ("*.*", ["a.b", "."], ["a", "a.b.c"]),
        ("a", ["a"], ["b", "a."]),
    ],
)
def test_topic_patterns(
    channel: BlockingChannel, name: Named, pattern: str, matching: list[str], others: list[str]
) -> None:
    exchange = declared(channel, name, "topic")
    queue = bound_queue(channel, name, exchange, pattern)
    for key in [*matching, *others]:
        channel.basic_publish(exchange, key, key.encode())
    assert bodies_in(channel, queue) == [key.encode() for key in matching]


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1, "b": "x", "c": 3}, True),
        ({"x-match": "all", "a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2, "b": "x"}, True),
        ({"x-match": "any", "a": 1, "b": "x"}, {"a": 2}, False),
        ({"a": 1, "b": "x"}, {"a": 1}, False),
        ({"x-match": "all"}, {}, True),
        ({"x-match": "all", "a": None}, {"a": 5}, True),
        ({"x-match": "all", "x-ignored": 1, "a": 1}, {"a": 1}, True),
        ({"x-match": "any", "a": 1}, None, False),
    ],
)
def test_headers_matching(
    channel: BlockingChannel,
    name: Named,
    arguments: dict[str, object],
    headers: dict[str, object] | None,
    matches: bool,
) -> None:
    exchange = declared(channel, name, "headers")
    queue = bound_queue(channel, name, exchange)
    channel.queue_bind(queue, exchange, arguments=arguments)
    channel.basic_publish(exchange, "", b"x", BasicProperties(headers=headers))
    assert bodies_in(channel, queue) == ([b"x"] if matches else [])


def test_an_unbound_queue_gets_no_more(channel: BlockingChannel, name: Named) -> None:
    exchange = declared(channel, name, "direct")
    queue = bound_queue(channel, name, exchange, "k")
    channel.basic_publish(exchange, "k", b"before")
    channel.queue_unbind(queue, exchange, "k")
    channel.basic_publish(exchange, "k", b"after")
    assert bodies_in(channel, queue) == [b"before"]


def test_a_deleted_exchange_takes_its_bindings_along(channel: BlockingChannel, name: Named) -> None:
    exchange = declared(channel, name, "direct")
    queue = bound_queue(channel, name, exchange, "k")
    channel.exchange_delete(exchange)
    channel.exchange_declare(exchange, "direct", durable=True)
    channel.basic_publish(exchange, "k", b"x")
    assert bodies_in(channel, queue) == []


def test_a_deleted_queue_takes_its_bindings_along(channel: BlockingChannel, name: Named) -> None:
    exchange = declared(channel, name, "fanout")
    queue = bound_queue(channel, name, exchange, "")
    channel.queue_delete(queue)
    channel.queue_declare(queue, durable=True)
    channel.basic_publish(exchange, "", b"x")
    assert bodies_in(channel, queue) == []


def test_an_auto_delete_exchange_goes_with_its_last_binding(
    channel: BlockingChannel, name: Named
) -> None:
    exchange = name("auto")
    channel.exchange_declare(exchange, "fanout", auto_delete=True)
    queues = [bound_queue(channel, name, exchange, "") for _ in range(2)]
    channel.queue_unbind(queues[0], exchange, "")
    channel.exchange_declare(exchange, passive=True)
    channel.queue_unbind(queues[1], exchange, "")
    with refused(404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        channel.exchange_declare(exchange, passive=True)


def test_the_default_exchange_is_no_alternate(
    channel: BlockingChannel, queue: str, name: Named
) -> None:
    exchange = name("exchange")
    channel.exchange_declare(exchange, arguments={"alternate-exchange": ""})
    channel.confirm_delivery()
    with pytest.raises(UnroutableError):
        channel.basic_publish(exchange, queue, b"", mandatory=True)


def test_declaring_the_same_again_is_no_error(channel: BlockingChannel, name: Named) -> None:
    exchange = declared(channel, name, "topic")
    channel.exchange_declare(exchange, "topic", durable=True)


def test_a_used_exchange_is_not_deleted_if_unused(channel: BlockingChannel, name: Named) -> None:
    exchange = declared(channel, name, "fanout")
    bound_queue(channel, name, exchange, "")
    with refused(406, f"PRECONDITION_FAILED - exchange '{exchange}' in vhost '/' in use"):
        channel.exchange_delete(exchange, if_unused=True)
