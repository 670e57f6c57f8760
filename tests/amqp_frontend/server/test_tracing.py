"""Tracing: while it is on, published and delivered messages are copied, and the copies are not."""

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pika.exceptions import UnroutableError
from tests.amqp_frontend.server.conftest import Broker

from arneb_amqp.wire.constants import TABLE_DEPTH_MAX


@pytest.fixture
def seen(broker: Broker, channel: Any) -> Iterator[Any]:
    """Takes all copies that have arrived; tracing is on."""
    channel.confirm_delivery()
    traces = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(traces, "amq.rabbitmq.trace", "#")
    trace(broker, "here")

    def take(count: int) -> list[tuple[str, dict[str, Any], bytes]]:
        got = []
        for method, properties, body in channel.consume(traces, inactivity_timeout=2):
            if method is None:
                break
            channel.basic_ack(method.delivery_tag)
            got.append((method.routing_key, properties.headers, body))
            if len(got) == count:
                break
        channel.cancel()
        assert channel.queue_declare(traces, passive=True).method.message_count == 0
        return got

    yield take
    trace(broker, None)


def trace(broker: Broker, node: str | None) -> None:
    async def switch() -> None:
        vhost = broker.topology.vhost("/")
        assert vhost is not None
        vhost.trace(node)

    broker.call(switch)


def test_a_message_is_traced_when_it_arrives_and_when_it_leaves(channel: Any, seen: Any) -> None:
    channel.queue_declare("t1")
    properties = pika.BasicProperties(content_type="a/b", priority=3, headers={"x": 1})
    channel.basic_publish("", "t1", b"body", properties)
    channel.basic_get("t1", auto_ack=True)
    (came, headers, body), (went, delivered, _) = seen(2)
    assert (came, body, headers["exchange_name"]) == ("publish.", b"body", "")
    assert headers["routing_keys"] == ["t1"]
    assert headers["routed_queues"] == ["t1"]
    assert headers["properties"] == {"content_type": "a/b", "priority": 3, "headers": {"x": 1}}
    assert (headers["vhost"], headers["user"], headers["node"]) == ("/", "guest", "here")
    assert headers["channel"] == channel.channel_number
    assert " -> 127.0.0.1:" in headers["connection"]
    assert (went, delivered["redelivered"]) == ("deliver.t1", 0)


def test_a_consumer_is_traced_with_its_channel(broker: Broker, channel: Any, seen: Any) -> None:
    channel.queue_declare("t2")
    channel.basic_publish("amq.direct", "nobody", b"lost")
    with pytest.raises(UnroutableError):
        channel.basic_publish("amq.direct", "nobody", b"lost", mandatory=True)
    with broker.connect() as connection:
        other = connection.channel(7)
        channel.basic_publish("", "t2", b"a")
        for method, _, _ in other.consume("t2"):
            other.basic_ack(method.delivery_tag)
            break
        other.cancel()
    lost, returned, came, went = seen(4)
    for key, headers, body in (lost, returned):
        assert (key, headers["routed_queues"], body) == ("publish.amq.direct", [], b"lost")
    assert (came[0], went[0]) == ("publish.", "deliver.t2")
    assert (went[1]["channel"], went[1]["redelivered"]) == (7, 0)


def test_a_redelivery_is_marked(channel: Any, seen: Any) -> None:
    channel.queue_declare("t4")
    channel.basic_publish("", "t4", b"a")
    for _ in range(2):
        channel.basic_nack(channel.basic_get("t4")[0].delivery_tag)
    _, first, again = seen(3)
    assert [first[1]["redelivered"], again[1]["redelivered"]] == [0, 1]


def test_transactions_are_traced_and_nothing_after_tracing_is_off(
    broker: Broker, channel: Any, seen: Any
) -> None:
    with broker.connect() as connection:
        other = connection.channel()
        other.queue_declare("t3")
        other.tx_select()
        other.basic_publish("", "t3", b"a")
        other.tx_commit()
        assert [key for key, _, _ in seen(1)] == ["publish."]
        trace(broker, None)
        other.basic_publish("", "t3", b"b")
        other.tx_commit()
        assert seen(1) == []


def test_copies_of_the_deepest_headers_can_be_dead_lettered(channel: Any, seen: Any) -> None:
    """The headers are nested deeper in the copy than a client may send them."""
    channel.queue_declare("grave")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "grave"}
    copies = channel.queue_declare("", exclusive=True, arguments=arguments).method.queue
    channel.queue_bind(copies, "amq.rabbitmq.trace", "publish.#")
    deepest: dict[str, Any] = {}
    for _ in range(TABLE_DEPTH_MAX):
        deepest = {"d": deepest}
    channel.basic_publish("amq.direct", "nobody", b"deep", pika.BasicProperties(headers=deepest))
    seen(1)
    channel.basic_nack(channel.basic_get(copies)[0].delivery_tag, requeue=False)
    channel.queue_unbind(copies, "amq.rabbitmq.trace", "publish.#")
    _, properties, body = channel.basic_get("grave", auto_ack=True)
    assert body == b"deep"
    assert properties.headers["x-death"][0]["queue"] == copies
    assert properties.headers["properties"]["headers"] == deepest
