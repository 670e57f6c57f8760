"""Streams: reading removes nothing, and each consumer starts at an offset of its choice."""

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import (
    PERSISTENT,
    WITHIN_S,
    Inbox,
    publish,
    refused,
    settle,
    wait_until,
)
from conformance.brokers.process import Broker
from conformance.brokers.rabbitmq import RabbitMQ
from conformance.conftest import Target
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import AMQPError, ChannelClosedByBroker

STREAM = {"x-queue-type": "stream"}
DAY = dt.timedelta(days=1)


@pytest.fixture
def stream(channel: BlockingChannel, name: Named) -> str:
    """A stream with ten messages, m0 to m9."""
    made = name("stream")
    channel.queue_declare(made, durable=True, arguments=STREAM)
    publish(channel, made, *(b"m%d" % number for number in range(10)))
    return made


def reader(connect: Connect, queue: str, prefetch: int = 100, **arguments: Any) -> Inbox:
    """A consumer on a connection of its own."""
    channel = connect().channel()
    channel.basic_qos(prefetch_count=prefetch)
    return Inbox(channel, queue, arguments={k.replace("_", "-"): v for k, v in arguments.items()})


def offsets(inbox: Inbox) -> list[tuple[int, bytes]]:
    return [(properties.headers["x-stream-offset"], body) for _, properties, body in inbox.got]


def numbered(first: int, end: int) -> list[tuple[int, bytes]]:
    return [(number, b"m%d" % number) for number in range(first, end)]


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("first", 0),
        ("last", 9),
        (0, 0),
        (4, 4),
        (9, 9),
        (-3, 0),
        ("5m", 0),
        ("1Y", 0),
        (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), 0),
    ],
)
def test_where_a_consumer_begins(
    connect: Connect, channel: BlockingChannel, stream: str, start: object, first: int
) -> None:
    inbox = reader(connect, stream, x_stream_offset=start)
    inbox.wait(10 - first)
    publish(channel, stream, b"m10")
    inbox.wait(11 - first)
    assert offsets(inbox) == numbered(first, 11)
    assert inbox.tags == list(range(1, 12 - first))
    assert not any(method.redelivered for method, _, _ in inbox.got)


@pytest.mark.parametrize("arguments", [{}, {"x_stream_offset": "next"}, {"x_stream_offset": 10}])
def test_a_consumer_that_wants_only_what_comes(
    connect: Connect, channel: BlockingChannel, stream: str, arguments: dict[str, Any]
) -> None:
    inbox = reader(connect, stream, **arguments)
    settle(inbox.channel.connection)
    publish(channel, stream, b"m10", b"m11")
    inbox.wait(2)
    assert offsets(inbox) == numbered(10, 12)


def test_a_time_that_has_not_come_means_what_comes_next(
    connect: Connect, channel: BlockingChannel, stream: str
) -> None:
    inbox = reader(connect, stream, x_stream_offset=dt.datetime.now(dt.UTC) + DAY)
    settle(inbox.channel.connection)
    publish(channel, stream, b"m10")
    inbox.wait(1)
    assert offsets(inbox) == numbered(10, 11)


def test_an_offset_that_has_not_come_is_waited_for(
    connect: Connect, channel: BlockingChannel, stream: str
) -> None:
    inbox = reader(connect, stream, x_stream_offset=12)
    publish(channel, stream, *(b"m%d" % number for number in range(10, 15)))
    inbox.wait(3)
    assert offsets(inbox) == numbered(12, 15)


def test_it_can_be_replayed_as_often_as_wanted(connect: Connect, stream: str) -> None:
    for _ in range(3):
        inbox = reader(connect, stream, x_stream_offset="first")
        assert inbox.wait(10) == [b"m%d" % number for number in range(10)]
        inbox.channel.basic_ack(0, multiple=True)
        inbox.channel.connection.close()


def test_each_consumer_reads_for_itself(
    connect: Connect, channel: BlockingChannel, stream: str
) -> None:
    inboxes = [reader(connect, stream, x_stream_offset=start) for start in ("first", "first", 5)]
    publish(channel, stream, b"m10")
    for inbox, count in zip(inboxes, (11, 11, 6), strict=True):
        inbox.wait(count)
        assert offsets(inbox) == numbered(11 - count, 11)


def test_no_more_comes_than_the_prefetch_count_until_it_is_acknowledged(
    connect: Connect, stream: str
) -> None:
    inbox = reader(connect, stream, prefetch=3, x_stream_offset="first")
    inbox.wait(3)
    settle(inbox.channel.connection)
    assert len(inbox.got) in (3, 4)  # RabbitMQ's credit occasionally lets one more through
    inbox.channel.basic_ack(2, multiple=True)
    inbox.wait(5)
    for tag in range(3, 11):
        inbox.wait(tag)
        inbox.channel.basic_ack(tag)
    assert offsets(inbox) == numbered(0, 10)


def test_a_message_keeps_its_properties(
    connect: Connect, channel: BlockingChannel, name: Named
) -> None:
    """It keeps them, and nothing in a stream expires."""
    queue = name("stream")
    channel.queue_declare(queue, durable=True, arguments=STREAM)
    channel.confirm_delivery()
    sent = pika.BasicProperties(
        expiration="1",
        delivery_mode=1,
        priority=3,
        content_type="text/plain",
        correlation_id="c",
        headers={"a": 1, "x-stream-offset": 77},
    )
    channel.basic_publish("", queue, b"x" * 200_000, sent)
    channel.basic_publish("", queue, b"")
    settle(channel.connection)
    inbox = reader(connect, queue, x_stream_offset="first")
    inbox.wait(2)
    (_, first, body), (_, second, empty) = inbox.got
    assert first.headers == {"a": 1, "x-stream-offset": 0}
    assert (first.expiration, first.delivery_mode, first.priority) == ("1", 1, 3)
    assert (first.content_type, first.correlation_id) == ("text/plain", "c")
    assert body == b"x" * 200_000
    assert second.headers == {"x-stream-offset": 1}
    assert empty == b""


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda channel, queue: channel.basic_get(queue), 540, "basic.get not supported by"),
        (lambda channel, queue: channel.queue_purge(queue), 540, "queue.purge not supported by"),
    ],
)
def test_what_a_stream_cannot_do(
    channel: BlockingChannel,
    stream: str,
    call: Callable[[BlockingChannel, str], object],
    code: int,
    words: str,
) -> None:
    text = f"NOT_IMPLEMENTED - {words} stream queues queue '{stream}' in vhost '/'"
    with refused(code, text, connection=True):
        call(channel, stream)


@pytest.mark.parametrize("answer", ["nack", "reject", "nack and requeue"])
def test_a_delivery_can_be_acknowledged_and_nothing_else(
    connect: Connect, stream: str, answer: str
) -> None:
    inbox = reader(connect, stream, x_stream_offset="first")
    inbox.wait(10)
    text = (
        "NOT_IMPLEMENTED - basic.nack and basic.reject not supported by stream queues "
        f"queue '{stream}' in vhost '/'"
    )
    with refused(540, text, connection=True):
        if answer == "reject":
            inbox.channel.basic_reject(1, requeue=False)
        else:
            inbox.channel.basic_nack(1, requeue=answer != "nack")
        inbox.channel.connection.sleep(WITHIN_S)


def test_a_consumer_must_acknowledge_and_limit_itself(connect: Connect, stream: str) -> None:
    words = f"queue '{stream}' in vhost '/'"
    with refused(406, f"PRECONDITION_FAILED - consumer prefetch count is not set for '{words}'"):
        connect().channel().basic_consume(stream, print)
    only_global = connect().channel()
    only_global.basic_qos(prefetch_count=5, global_qos=True)
    with refused(406, f"PRECONDITION_FAILED - consumer prefetch count is not set for '{words}'"):
        only_global.basic_consume(stream, print)
    both = connect().channel()
    both.basic_qos(prefetch_count=5)
    both.basic_qos(prefetch_count=5, global_qos=True)
    with refused(540, f"NOT_IMPLEMENTED - {words} does not support global qos", connection=True):
        both.basic_consume(stream, print)
    automatic = connect().channel()
    automatic.basic_qos(prefetch_count=5)
    text = f"NOT_IMPLEMENTED - automatic acknowledgement not supported by stream queues {words}"
    with refused(540, text, connection=True):
        automatic.basic_consume(stream, print, auto_ack=True)


@pytest.mark.parametrize("start", ["0s", "5x", "7"])
def test_an_interval_that_is_none(connect: Connect, stream: str, start: str) -> None:
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for queue '{stream}' in vhost '/': "
        f'{{invalid_stream_offset_arg,{{longstr,<<"{start}">>}}}}'
    )
    with refused(406, text):
        reader(connect, stream, x_stream_offset=start)


@pytest.mark.parametrize("start", ["bogus", True, [1], {"a": 1}])
def test_a_start_of_which_nothing_can_be_made(connect: Connect, stream: str, start: object) -> None:
    with refused(541, "INTERNAL_ERROR", connection=True):
        reader(connect, stream, x_stream_offset=start)


@pytest.mark.parametrize(
    ("kind", "argument"),
    [
        ("classic", "x-stream-offset"),
        ("quorum", "x-stream-offset"),
        ("quorum", "x-cancel-on-ha-failover"),
        ("stream", "x-priority"),
        ("stream", "x-cancel-on-ha-failover"),
    ],
)
def test_consumer_arguments_of_another_queue_type(
    channel: BlockingChannel, name: Named, kind: str, argument: str
) -> None:
    queue = name(kind)
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    channel.basic_qos(prefetch_count=5)
    text = (
        f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/' "
        f"of queue type rabbit_{kind}_queue"
    )
    with refused(406, text):
        channel.basic_consume(queue, print, arguments={argument: 1})


@pytest.mark.parametrize(
    ("argument", "value", "fault"),
    [
        ("x-max-length", 3, None),
        ("x-expires", 1000, None),
        ("x-single-active-consumer", True, None),
        ("x-message-ttl", 5, None),
        ("x-dead-letter-exchange", "", None),
        ("x-max-priority", 1, None),
        ("x-overflow", "drop-head", None),
        ("x-delivery-limit", 3, None),
        ("x-max-age", "1x", "invalid_max_age"),
        ("x-stream-max-segment-size-bytes", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", -1, "{value_negative,-1}"),
    ],
)
def test_queue_arguments(
    channel: BlockingChannel, name: Named, argument: str, value: object, fault: str | None
) -> None:
    queue = name("stream")
    why = f": {fault}" if fault else " of queue type rabbit_stream_queue"
    text = f"PRECONDITION_FAILED - invalid arg '{argument}' for queue '{queue}' in vhost '/'{why}"
    with refused(406, text):
        channel.queue_declare(queue, durable=True, arguments={**STREAM, argument: value})


def test_a_segment_must_not_be_too_large(channel: BlockingChannel, name: Named) -> None:
    text = "PRECONDITION_FAILED - Exceeded max value for x-stream-max-segment-size-bytes"
    arguments = {**STREAM, "x-stream-max-segment-size-bytes": 10**10}
    with refused(406, text):
        channel.queue_declare(name("stream"), durable=True, arguments=arguments)


def test_counts_and_conditions(connect: Connect, channel: BlockingChannel, stream: str) -> None:
    """The consumer count is always zero, and ``if_empty`` and ``if_unused`` do not keep a stream
    from being deleted."""
    reader(connect, stream)
    end = time.monotonic() + WITHIN_S
    while True:  # RabbitMQ's own count lags behind its confirms
        declared = channel.queue_declare(stream, passive=True).method
        if declared.message_count == 10 or time.monotonic() > end:
            break
    assert (declared.message_count, declared.consumer_count) == (10, 0)
    deleted = channel.queue_delete(stream, if_empty=True, if_unused=True).method
    assert deleted.message_count == 0
    with refused(404, f"NOT_FOUND - no queue '{stream}' in vhost '/'"):
        channel.queue_declare(stream, passive=True)


def test_a_consumer_hears_that_its_stream_is_gone(
    connect: Connect, channel: BlockingChannel, stream: str
) -> None:
    inbox = reader(connect, stream)
    cancelled: list[object] = []
    inbox.channel.add_on_cancel_callback(cancelled.append)
    channel.queue_delete(stream)
    wait_until(inbox.channel.connection, lambda: cancelled)
    settle(inbox.channel.connection)
    assert len(cancelled) == 1


def test_exclusive_means_nothing(connect: Connect, stream: str) -> None:
    first, second = connect().channel(), connect().channel()
    for channel in (first, second):
        channel.basic_qos(prefetch_count=5)
        channel.basic_consume(stream, print, exclusive=True)


def test_a_tag_may_be_used_again_for_another_reading(connect: Connect, stream: str) -> None:
    inbox = reader(connect, stream, x_stream_offset=5)
    inbox.wait(5)
    inbox.channel.basic_cancel(inbox.tag)
    inbox.channel.basic_ack(0, multiple=True)
    again = Inbox(inbox.channel, stream, arguments={"x-stream-offset": 8})
    again.wait(2)
    assert offsets(again) == numbered(8, 10)
    assert again.tags == [6, 7]


def test_routes_lead_into_streams_as_into_queues(
    connect: Connect, channel: BlockingChannel, name: Named
) -> None:
    exchange, stream, queue = name("exchange"), name("stream"), name("queue")
    channel.exchange_declare(exchange, "fanout")
    channel.queue_declare(stream, durable=True, arguments=STREAM)
    channel.queue_declare(queue, durable=True)
    channel.queue_bind(stream, exchange)
    channel.queue_bind(queue, exchange)
    channel.confirm_delivery()
    for number in range(5):
        channel.basic_publish(exchange, "k", b"m%d" % number, PERSISTENT)
    inbox = reader(connect, stream, x_stream_offset="first")
    inbox.wait(5)
    assert offsets(inbox) == numbered(0, 5)
    assert {method.exchange for method, _, _ in inbox.got} == {exchange}
    assert channel.queue_declare(queue, passive=True).method.message_count == 5


def test_dead_letters_may_go_to_a_stream(
    connect: Connect, broker: Target, channel: BlockingChannel, stream: str, name: Named
) -> None:
    if broker.is_rabbitmq:
        pytest.skip("RabbitMQ 3.10 loses them")
    queue = name("queue")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": stream}
    channel.queue_declare(queue, durable=True, arguments=arguments)
    publish(channel, queue, b"m10")
    inbox = reader(connect, stream, x_stream_offset="next")
    method, _, _ = next(channel.consume(queue))
    channel.basic_reject(method.delivery_tag, requeue=False)
    inbox.wait(1)
    assert offsets(inbox) == numbered(10, 11)
    assert inbox.got[0][1].headers["x-first-death-queue"] == queue


def test_a_transaction_publishes_and_acknowledges(connect: Connect, stream: str) -> None:
    channel = connect().channel()
    channel.basic_qos(prefetch_count=2)
    inbox = Inbox(channel, stream, arguments={"x-stream-offset": 8})
    inbox.wait(2)
    channel.tx_select()
    channel.basic_publish("", stream, b"m10")
    channel.basic_ack(2, multiple=True)
    channel.tx_commit()
    inbox.wait(3)
    assert offsets(inbox) == numbered(8, 11)


def test_old_segments_go_when_it_is_too_long(
    connect: Connect, channel: BlockingChannel, name: Named
) -> None:
    """Offsets continue as if nothing had happened."""
    stream = name("stream")
    arguments = {
        **STREAM,
        "x-max-length-bytes": 100_000,
        "x-stream-max-segment-size-bytes": 50_000,
    }
    channel.queue_declare(stream, durable=True, arguments=arguments)
    publish(channel, stream, *(b"m%d" % number + bytes(10_000) for number in range(60)))
    end = time.monotonic() + WITHIN_S
    while channel.queue_declare(stream, passive=True).method.message_count > 30:
        assert time.monotonic() < end, "nothing was removed"
        channel.connection.sleep(0.1)
        publish(channel, stream, b"more" + bytes(10_000))
    inbox = reader(connect, stream, x_stream_offset="first")
    inbox.wait(1)
    settle(inbox.channel.connection, 0.3)
    seen = [offset for offset, _ in offsets(inbox)]
    assert seen[0] > 20 and seen == list(range(seen[0], seen[-1] + 1))
    before = reader(connect, stream, x_stream_offset=3)
    before.wait(1)
    assert offsets(before)[0][0] == seen[0]
    numbers = [body.rstrip(b"\0") for offset, body in offsets(inbox) if offset < 60]
    assert numbers == [b"m%d" % offset for offset in seen if offset < 60]


def wait_for_stream(connect: Callable[[], pika.BlockingConnection]) -> None:
    """Wait until the stream can be declared: RabbitMQ accepts connections before its streams are
    available."""
    end = time.monotonic() + 2 * WITHIN_S
    while True:
        try:
            connect().channel().queue_declare("s", passive=True)
            return
        except ChannelClosedByBroker:
            assert time.monotonic() < end, "the stream did not come back"
            time.sleep(0.1)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_restart_keeps_messages_and_offsets(own_broker: Broker, end: str) -> None:
    if end == "kill" and isinstance(own_broker, RabbitMQ):
        pytest.skip("RabbitMQ 3.10 has not brought its stream back 90 s after SIGKILL")
    opened: list[pika.BlockingConnection] = []

    def connect() -> pika.BlockingConnection:
        address = own_broker.address
        opened.append(
            pika.BlockingConnection(pika.ConnectionParameters(address.host, address.port))
        )
        return opened[-1]

    witness = connect()
    channel = witness.channel()
    channel.queue_declare("s", durable=True, arguments=STREAM)
    publish(channel, "s", *(b"m%d" % number for number in range(200)))
    (own_broker.stop if end == "stop" else own_broker.kill)()
    with pytest.raises(AMQPError):
        witness.sleep(WITHIN_S)
    own_broker.start()
    wait_for_stream(connect)
    publish(connect().channel(), "s", b"m200")
    for first in (0, 150):
        inbox = reader(connect, "s", prefetch=1000, x_stream_offset=first)
        inbox.wait(201 - first)
        assert offsets(inbox) == numbered(first, 201)
    for connection in opened[1:]:
        connection.close()


def test_filters(connect: Connect, broker: Target, channel: BlockingChannel, name: Named) -> None:
    """RabbitMQ's streams filter since version 3.13."""
    if broker.is_rabbitmq:
        pytest.skip("RabbitMQ 3.10 does not filter")
    stream = name("stream")
    channel.queue_declare(stream, durable=True, arguments=STREAM)
    channel.confirm_delivery()
    for number in range(30):
        headers = {} if number % 3 == 2 else {"x-stream-filter-value": "ab"[number % 3]}
        channel.basic_publish("", stream, b"m%d" % number, pika.BasicProperties(headers=headers))
    wanted = {
        "a": {"x_stream_filter": "a"},
        "ab": {"x_stream_filter": ["a", "b"]},
        "a-": {"x_stream_filter": "a", "x_stream_match_unfiltered": True},
        "": {"x_stream_filter": "c"},
    }
    for letters, arguments in wanted.items():
        # More messages are filtered out than the prefetch window holds; they must not use it up.
        inbox = reader(connect, stream, prefetch=2, x_stream_offset="first", **arguments)
        expected = [n for n in range(30) if "ab-"[n % 3] in letters]
        for count in range(1, len(expected) + 1):
            inbox.wait(count)
            inbox.channel.basic_ack(count)
        settle(inbox.channel.connection)
        assert offsets(inbox) == [(number, b"m%d" % number) for number in expected]
