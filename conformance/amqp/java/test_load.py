"""Java's Metrics and Bug19219Test: many things happen at once, and nothing is counted twice. Java's
tests count what the client did; these count what the broker did."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import PERSISTENT, publish, settle, take, wait_until
from conformance.amqp.java.common import got, ready, temporary
from conformance.amqp.java.test_recovery import Recovering
from conformance.conftest import Target
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError

NOTHING = (None, None, b"")


def test_metrics_metrics(connect: Connect, queue: str) -> None:
    """Two connections publish messages, and each message is delivered once."""
    first, second = connect(), connect()
    for connection in (first, second):
        channel = connection.channel()
        for number in range(2):
            channel.basic_publish("", queue, b"%d" % number)
        channel.close()
    channel = first.channel()
    assert [got(channel, queue) is not None for _ in range(5)] == [True] * 4 + [False]


def test_metrics_metrics_publisher_unrouted(connect: Connect) -> None:
    channel = connect().channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError) as caught:
        channel.basic_publish("amq.direct", "any-unroutable-routing-key", b"x", mandatory=True)
    assert len(caught.value.messages) == 1


def test_metrics_metrics_publisher_ack(connect: Connect, queue: str) -> None:
    """A confirm and the acknowledgement of the same message, on one channel."""
    channel = connect().channel()
    channel.confirm_delivery()
    acked: list[int] = []

    def ack(on: BlockingChannel, method: Any, *_: Any) -> None:
        on.basic_ack(method.delivery_tag)
        acked.append(method.delivery_tag)

    channel.basic_consume(queue, ack)
    channel.basic_publish("", queue, b"msg")
    wait_until(channel.connection, lambda: acked == [1])
    channel.close()
    assert got(channel.connection.channel(), queue) is None


def test_metrics_metrics_ack(connect: Connect, queue: str) -> None:
    """Single and multiple acknowledgements on two channels, of basic.get and of four consumers."""
    connection = connect()
    channels = [connection.channel() for _ in range(2)]
    publish(connection.channel(), queue, *[b"%d" % number for number in range(7)])
    one, two = channels
    one.basic_ack(take(one, queue, 1)[0][0].delivery_tag)
    tags: dict[BlockingChannel, list[int]] = {one: [], two: []}
    for number in range(6):
        channel = channels[number % 2]
        tags[channel].append(channel.basic_get(queue)[0].delivery_tag)
    one.basic_ack(tags[one][2])
    one.basic_ack(tags[one][1], multiple=True)
    two.basic_ack(tags[two][0], multiple=True)
    two.basic_ack(tags[two][2], multiple=True)

    acked: list[int] = []

    def consume(channel: BlockingChannel, multiple: bool) -> None:
        def ack(on: BlockingChannel, method: Any, *_: Any) -> None:
            on.basic_ack(method.delivery_tag, multiple=multiple)
            acked.append(method.delivery_tag)

        channel.basic_consume(queue, ack)

    # A single acknowledgement of a delivery that a multiple one has already covered would be an
    # error.
    consume(one, True)
    consume(two, False)
    publish(connection.channel(), queue, *[b"%d" % number for number in range(10)])
    wait_until(connection, lambda: len(acked) == 10)
    for channel in channels:
        channel.close()
    assert got(connection.channel(), queue) is None


def test_metrics_metrics_reject(connect: Connect, queue: str) -> None:
    connection = connect()
    channel = connection.channel()
    publish(channel, queue, b"1", b"2", b"3")
    tags = [method.delivery_tag for method, _, _ in take(channel, queue, 3)]
    channel.basic_reject(tags[1], requeue=False)
    channel.basic_nack(tags[2], multiple=True, requeue=False)
    channel.close()
    assert got(connection.channel(), queue) is None


def test_metrics_multi_threaded_metrics_standard_connection(connect: Connect, queue: str) -> None:
    """Three clients at once, with five channels each, share a hundred messages: each is delivered
    once."""
    chance = random.Random(7)
    sender = connect().channel()
    publish(sender, queue, *[b"%d" % number for number in range(100)])
    plans = [[chance.choice(["get", "reject", "consume"]) for _ in range(5)] for _ in range(3)]

    def work(connection: pika.BlockingConnection, plan: list[str]) -> list[bytes]:
        taken: list[bytes] = []

        def done(on: BlockingChannel, method: Any, _: Any, body: bytes) -> None:
            taken.append(body)
            on.basic_ack(method.delivery_tag)

        channels = [connection.channel() for _ in plan]
        for channel, what in zip(channels, plan, strict=True):
            channel.basic_qos(prefetch_count=1)
            if what == "consume":
                channel.basic_consume(queue, done)
        quiet = 0
        while quiet < 20:
            before = len(taken)
            for channel, what in zip(channels, plan, strict=True):
                method, _, body = (
                    (None, None, b"") if what == "consume" else channel.basic_get(queue)
                )
                if method is not None:
                    taken.append(body)
                    refuse = what == "reject"
                    (channel.basic_reject if refuse else channel.basic_ack)(
                        method.delivery_tag, **({"requeue": False} if refuse else {})
                    )
            connection.process_data_events(0.01)
            quiet = quiet + 1 if len(taken) == before else 0
        return taken

    connections = [connect() for _ in plans]
    with ThreadPoolExecutor(len(plans)) as pool:
        taken = [each for found in pool.map(work, connections, plans) for each in found]
    assert Counter(taken) == Counter(b"%d" % number for number in range(100))
    for connection in connections:
        connection.close()
    assert ready(sender, queue) == 0


def test_metrics_error_in_channel(connect: Connect) -> None:
    """An error closes its channel and leaves the connection open."""
    connection = connect()
    channel = connection.channel()
    channel.basic_publish("unlikelynameforanexchange", "", b"msg")
    wait_until(connection, lambda: channel.is_closed)
    assert connection.is_open


def test_metrics_check_acks_with_automatic_recovery(connect: Connect, queue: str) -> None:
    client = Recovering(connect)
    acked: list[bytes] = []

    def ack(on: BlockingChannel, method: Any, _: Any, body: bytes) -> None:
        on.basic_ack(method.delivery_tag)
        acked.append(body)

    client.do(lambda channel: channel.basic_consume(queue, ack))
    sender = connect().channel()
    publish(sender, queue, *[b"a%d" % number for number in range(10)])
    wait_until(client.connection, lambda: len(acked) == 10)
    client.channel.basic_qos(prefetch_count=0)
    client.lose()
    publish(sender, queue, *[b"b%d" % number for number in range(10)])
    wait_until(client.connection, lambda: len(acked) == 20)
    client.channel.close()
    assert len(set(acked)) == 20
    assert ready(sender, queue) == 0


QUEUES = 200
PUBLISHERS = 2


def test_bug19219_test_it(broker: Target, connect: Connect, name: Named) -> None:
    """A channel with hundreds of busy queues closes promptly, although their unacknowledged
    messages must be requeued."""
    exchange = name("fanout")
    channel = connect().channel()
    channel.exchange_declare(exchange, "fanout")
    for _ in range(QUEUES):
        queue = temporary(channel)
        channel.queue_bind(queue, exchange)
        channel.basic_consume(queue, lambda *_: None)
    enough = Event()

    def flood() -> None:
        address = broker.address
        parameters = pika.ConnectionParameters(address.host, address.port)
        connection = pika.BlockingConnection(parameters)
        sender = connection.channel()
        try:
            while not enough.is_set():
                sender.basic_publish(exchange, "", b"", PERSISTENT)
                connection.sleep(0.1)
        except AMQPError:
            assert enough.is_set()
        finally:
            if connection.is_open:
                connection.close()

    with ThreadPoolExecutor(PUBLISHERS) as pool:
        floods = [pool.submit(flood) for _ in range(PUBLISHERS)]
        try:
            settle(channel.connection, 1.0)
            # Not the blocking channel's own close, which would first cancel every consumer.
            channel._impl.close()
            wait_until(channel.connection, lambda: channel._impl.is_closed)
            assert channel.connection.is_open
        finally:
            enough.set()
        for each in floods:
            each.result()
