"""The exchange type x-delayed-message of RabbitMQ's plugin.

Debian's RabbitMQ does not include that plugin, so these tests run against RabbitMQ only where
somebody has enabled it. Their expectations are taken from the plugin's README and its test suite.
"""

import time
from pathlib import Path
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import WITHIN_S, refused, settle, wait_until
from conformance.brokers.arneb import Arneb
from conformance.conftest import Target
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ConnectionClosed

LATE_S = 10.0
"""How late a message may be, in seconds, on a busy machine, where the test itself is late too."""


@pytest.fixture
def delaying(channel: BlockingChannel, connect: Connect, name: Named, broker: Target) -> str:
    """A direct exchange that delays messages. Only RabbitMQ may lack the type, and then it must
    answer that the type is unknown. Any other refusal, and every refusal by Arneb, is a failure."""
    exchange = name("delaying")
    try:
        connect().channel().exchange_declare(
            exchange, "x-delayed-message", arguments={"x-delayed-type": "direct"}
        )
    except ConnectionClosed as refusal:
        if not (broker.is_rabbitmq and "unknown exchange type" in refusal.reply_text):
            raise
        pytest.skip(
            "this RabbitMQ has no plugin rabbitmq_delayed_message_exchange; Debian's has not"
        )
    channel.confirm_delivery()
    return exchange


def bound(channel: BlockingChannel, name: Named, exchange: str, key: str = "k") -> str:
    queue = name("queue")
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, key)
    return queue


def publish(
    channel: BlockingChannel, exchange: str, delay: Any, body: bytes = b"x", **fields: Any
) -> None:
    headers = {"x-delay": delay, **fields.pop("headers", {})}
    channel.basic_publish(exchange, "k", body, pika.BasicProperties(headers=headers, **fields))


def next_message(channel: BlockingChannel, queue: str, within_s: float = WITHIN_S) -> Any:
    """Wait for the next message; the result is its method, properties and body."""
    for found in channel.consume(queue, auto_ack=True, inactivity_timeout=within_s):
        channel.cancel()
        return found
    raise AssertionError("the consumer was cancelled")


def count(channel: BlockingChannel, queue: str) -> int:
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def test_messages_come_in_the_order_of_their_delays(
    channel: BlockingChannel, connect: Connect, name: Named, delaying: str
) -> None:
    """The plugin's test delay_order."""
    # unconfirmed, because a confirm may take longer than the difference between two delays
    hurried = connect().channel()
    queue = bound(channel, name, delaying)
    delays = [500, 100, 300, 200, 100, 400]
    begin = time.monotonic()
    for delay in delays:
        publish(hurried, delaying, delay, b"%d" % delay)
    assert count(channel, queue) == 0, "delayed messages are not in the queue yet"
    coming = channel.consume(queue, auto_ack=True, inactivity_timeout=5)
    for delay, (method, properties, body) in zip(sorted(delays), coming, strict=False):
        assert int(body) == delay
        assert time.monotonic() - begin >= delay / 1000
        assert time.monotonic() - begin <= delay / 1000 + LATE_S
        assert properties.headers["x-delay"] == -delay
        assert (method.exchange, method.routing_key) == (delaying, "k")
        assert not method.redelivered


@pytest.mark.parametrize("delay", [0, -100, "0", True, 1 << 32, None, [1]])
def test_other_values_are_no_delay(
    channel: BlockingChannel, name: Named, delaying: str, delay: Any
) -> None:
    queue = bound(channel, name, delaying)
    publish(channel, delaying, delay)
    _, properties, _ = next_message(channel, queue, 1.0)
    assert properties.headers["x-delay"] == delay


def test_a_delay_may_be_text(channel: BlockingChannel, name: Named, delaying: str) -> None:
    """The plugin's test string_delay_header."""
    queue = bound(channel, name, delaying)
    publish(channel, delaying, "300")
    assert next_message(channel, queue, 0.1)[0] is None
    _, properties, _ = next_message(channel, queue)
    assert properties.headers["x-delay"] == -300


def test_the_bindings_of_the_time_when_it_is_due_count(
    channel: BlockingChannel, name: Named, delaying: str
) -> None:
    early = bound(channel, name, delaying)
    publish(channel, delaying, 300)
    channel.queue_unbind(early, delaying, "k")
    late = bound(channel, name, delaying)
    assert next_message(channel, late)[2] == b"x"
    assert count(channel, early) == 0


def test_what_no_queue_wants_is_dropped(
    channel: BlockingChannel, name: Named, delaying: str
) -> None:
    publish(channel, delaying, 100)
    time.sleep(0.3)
    queue = bound(channel, name, delaying)
    assert next_message(channel, queue, 0.3)[0] is None


def test_it_routes_as_the_other_type(channel: BlockingChannel, name: Named, delaying: str) -> None:
    """The plugin's test routing_topic."""
    exchange = name("topic")
    channel.exchange_declare(exchange, "x-delayed-message", arguments={"x-delayed-type": "topic"})
    queue = name("queue")
    channel.queue_declare(queue)
    for key in ("a.b.c", "a.*.c", "a.#"):
        channel.queue_bind(queue, exchange, key)
    for delay in (0, 100):
        for key in ("a.b.c", "a.z.c", "a.j.k", "b.b.c"):
            channel.basic_publish(
                exchange, key, b"x", pika.BasicProperties(headers={"x-delay": delay})
            )
    wait_until(channel.connection, lambda: count(channel, queue) == 6)
    settle(channel.connection)
    assert count(channel, queue) == 6


def test_a_message_is_delayed_once_on_its_way(
    channel: BlockingChannel, name: Named, delaying: str
) -> None:
    """The plugin's test e2e_delay, with an additional queue on the first exchange."""
    front = name("front")
    channel.exchange_declare(front, "fanout")
    channel.exchange_bind(delaying, front)
    second = name("second")
    channel.exchange_declare(second, "x-delayed-message", arguments={"x-delayed-type": "fanout"})
    channel.exchange_bind(second, delaying, "k")
    now = bound(channel, name, front)
    queue = bound(channel, name, second)
    publish(channel, front, 400)
    _, properties, _ = next_message(channel, now)
    assert properties.headers["x-delay"] == 400, "a queue that is not behind it gets it as sent"
    begin = time.monotonic()
    assert next_message(channel, queue)[1].headers["x-delay"] == -400
    assert time.monotonic() - begin < 0.4 + LATE_S


def test_a_mandatory_message_that_is_delayed_is_returned_and_comes(
    channel: BlockingChannel, name: Named, delaying: str
) -> None:
    """When the plugin must answer the publish, the message has not been routed to any queue yet."""
    queue = bound(channel, name, delaying)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(
            delaying, "k", b"x", pika.BasicProperties(headers={"x-delay": 100}), mandatory=True
        )
    assert next_message(channel, queue)[2] == b"x"


def test_its_life_begins_when_it_is_due(
    channel: BlockingChannel, name: Named, delaying: str
) -> None:
    queue = bound(channel, name, delaying)
    publish(channel, delaying, 2000, expiration="1500")
    wait_until(channel.connection, lambda: count(channel, queue) == 1)
    wait_until(channel.connection, lambda: count(channel, queue) == 0)


def test_copies_are_made_when_it_is_due(
    channel: BlockingChannel, name: Named, delaying: str
) -> None:
    first, second = bound(channel, name, delaying), bound(channel, name, delaying, "other")
    third = bound(channel, name, delaying, "blind")
    publish(channel, delaying, 100, headers={"CC": ["other"], "BCC": ["blind"]})
    for queue in (first, second, third):
        _, properties, _ = next_message(channel, queue)
        assert properties.headers["CC"] == ["other"]
        assert "BCC" not in properties.headers


def test_a_transaction_delays_from_its_commit_on(
    connect: Connect, channel: BlockingChannel, name: Named, delaying: str
) -> None:
    queue = bound(channel, name, delaying)
    other = connect().channel()
    other.tx_select()
    publish(other, delaying, 200)
    assert next_message(channel, queue, 0.5)[0] is None
    begin = time.monotonic()
    other.tx_commit()
    assert next_message(channel, queue)[2] == b"x"
    assert time.monotonic() - begin >= 0.2
    publish(other, delaying, 100)
    other.tx_rollback()
    assert next_message(channel, queue, 0.4)[0] is None


def test_a_dead_letter_is_delayed_too(channel: BlockingChannel, name: Named, delaying: str) -> None:
    """This is a way to retry later."""
    again = bound(channel, name, delaying)
    work = name("work")
    channel.queue_declare(
        work,
        arguments={"x-dead-letter-exchange": delaying, "x-dead-letter-routing-key": "k"},
    )
    channel.basic_publish("", work, b"x", pika.BasicProperties(headers={"x-delay": 300}))
    method, _, _ = channel.basic_get(work)
    channel.basic_reject(method.delivery_tag, requeue=False)
    assert next_message(channel, again, 0.15)[0] is None
    _, properties, _ = next_message(channel, again)
    assert properties.headers["x-delay"] == -300
    assert properties.headers["x-death"][0]["queue"] == work


def test_what_an_exchange_keeps_goes_with_it(
    channel: BlockingChannel, name: Named, delaying: str
) -> None:
    queue = bound(channel, name, delaying)
    publish(channel, delaying, 200)
    channel.exchange_delete(delaying)
    assert next_message(channel, queue, 0.6)[0] is None


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (
            {},
            406,
            (
                "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing "
                "exchange type"
            ),
        ),
        (
            {"x-delayed-type": "x-delayed-message"},
            406,
            (
                "PRECONDITION_FAILED - Invalid argument, 'x-delayed-message' can't be used for "
                "'x-delayed-type'"
            ),
        ),
        ({"x-delayed-type": "wibble"}, 503, "COMMAND_INVALID - unknown exchange type 'wibble'"),
    ],
)
def test_the_other_type_must_be_there(
    connect: Connect, name: Named, delaying: str, arguments: dict[str, Any], code: int, text: str
) -> None:
    """The plugin's tests wrong_exchange_argument_type and exchange_argument_type_not_self."""
    channel = connect().channel()
    with refused(code, text, connection=code == 503):
        channel.exchange_declare(name("wrong"), "x-delayed-message", arguments=arguments)


@pytest.mark.parametrize("kill", [False, True], ids=["stop", "kill"])
def test_what_is_delayed_outlives_the_broker(tmp_path: Path, broker: Target, kill: bool) -> None:
    """The plugin's tests node_restart_before_delay_expires and node_restart_after_delay_expires."""
    if broker.is_rabbitmq:
        pytest.skip("it starts an Arneb of its own, so it runs only once")
    own = Arneb(tmp_path / "own", listeners=["amqp"])
    try:
        own.start()
        with pika.BlockingConnection(pika.URLParameters(own.url)) as connection:
            channel = connection.channel()
            channel.exchange_declare(
                "e", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
            )
            channel.exchange_declare(
                "gone", "x-delayed-message", arguments={"x-delayed-type": "fanout"}
            )
            channel.queue_declare("q", durable=True)
            channel.queue_bind("q", "e")
            channel.queue_bind("q", "gone")
            channel.confirm_delivery()
            begin = time.time()
            for number in range(300):
                publish(channel, "e", 500 + number % 3 * 2_000, b"%d" % number)
            publish(channel, "gone", 1_000, b"of an exchange that is not durable")
        own.kill() if kill else own.stop()
        time.sleep(1)  # some become due while it is down
        own.start()
        with pika.BlockingConnection(pika.URLParameters(own.url)) as connection:
            channel = connection.channel()
            found: dict[int, float] = {}
            for method, _, body in channel.consume("q", auto_ack=True, inactivity_timeout=WITHIN_S):
                assert method is not None, f"got {len(found)} of 300"
                assert int(body) not in found
                found[int(body)] = time.time() - begin
                if len(found) == 300:
                    break
            assert all(found[number] >= 0.5 + number % 3 * 2 for number in found)
            # Only messages with the same delay are compared: on a busy machine the last message of
            # one delay may be due after the first of the next.
            for delay in range(3):
                came = [number for number in found if number % 3 == delay]
                assert came == sorted(came)
    finally:
        own.stop()
