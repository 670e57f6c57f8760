"""Everyday use through common clients: pika, aio-pika and amqp-tools."""

import asyncio
import shutil
import subprocess
from typing import Any

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    NackError,
    UnroutableError,
)
from tests.amqp_frontend.server.conftest import wait

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def take(channel: Any, queue: str, count: int, **options: Any) -> list[tuple[Any, Any, bytes]]:
    """The next messages of ``queue``, unacknowledged."""
    got: list[tuple[Any, Any, bytes]] = []
    for method, properties, body in channel.consume(queue, inactivity_timeout=20, **options):
        if method is None:
            break
        got.append((method, properties, body))
        if len(got) == count:
            break
    return got


def settle(channel: Any) -> None:
    """Wait until everything that is on its way has arrived."""
    for _ in range(3):
        channel.queue_declare("", exclusive=True)
        channel.connection.process_data_events(0.05)


def test_publish_consume_acknowledge(channel: Any) -> None:
    channel.queue_declare("e1", durable=True)
    channel.confirm_delivery()
    for number in range(200):
        channel.basic_publish("", "e1", b"%d" % number, PERSISTENT, mandatory=True)
    got = take(channel, "e1", 200)
    assert [body for _, _, body in got] == [b"%d" % number for number in range(200)]
    channel.basic_ack(got[-1][0].delivery_tag, multiple=True)
    channel.cancel()
    assert channel.queue_declare("e1", passive=True).method.message_count == 0


def test_properties_and_headers_are_delivered_unchanged(channel: Any) -> None:
    channel.queue_declare("e2")
    properties = pika.BasicProperties(
        content_type="text/plain",
        content_encoding="utf-8",
        headers={"text": "ü", "number": 5, "list": [1, "two"], "table": {"a": True}},
        delivery_mode=2,
        priority=3,
        correlation_id="c",
        reply_to="r",
        expiration="60000",
        message_id="m",
        timestamp=1_700_000_000,
        type="t",
        user_id="guest",
        app_id="a",
    )
    channel.basic_publish("", "e2", b"body", properties)
    method, got, body = channel.basic_get("e2", auto_ack=True)
    assert (method.exchange, method.routing_key, body) == ("", "e2", b"body")
    assert vars(got) == vars(properties)


@pytest.mark.parametrize("size", [0, 1, 4096, 131_072, 300_000])
def test_bodies_of_any_size(channel: Any, size: int) -> None:
    channel.queue_declare(f"e3-{size}")
    body = bytes(range(256)) * (size // 256 + 1)
    channel.basic_publish("", f"e3-{size}", body[:size])
    assert channel.basic_get(f"e3-{size}", auto_ack=True)[2] == body[:size]


def test_a_client_without_confirms_can_read_what_it_has_published(channel: Any) -> None:
    channel.queue_declare("e20", durable=True)
    for number in range(20):
        channel.basic_publish("", "e20", b"%d" % number, PERSISTENT)
        assert channel.queue_declare("e20", passive=True).method.message_count == 1
        assert channel.basic_get("e20", auto_ack=True)[2] == b"%d" % number
    channel.basic_publish("", "e20", b"x", PERSISTENT)
    assert channel.queue_purge("e20").method.message_count == 1


def test_exchanges_route_by_their_types(channel: Any) -> None:
    channel.exchange_declare("e4-direct", "direct")
    channel.exchange_declare("e4-fanout", "fanout", durable=True)
    channel.exchange_declare("e4-topic", "topic", auto_delete=True)
    channel.exchange_declare("e4-headers", "headers")
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "e4-direct", "k")
    channel.queue_bind(queue, "e4-fanout")
    channel.queue_bind(queue, "e4-topic", "a.*.#")
    channel.queue_bind(queue, "e4-headers", arguments={"x-match": "all", "h": 1})
    channel.exchange_bind("e4-fanout", "e4-direct", "through")
    sent = [
        ("e4-direct", "k", {}),
        ("e4-direct", "other", {}),
        ("e4-direct", "through", {}),
        ("e4-fanout", "any", {}),
        ("e4-topic", "a.b.c", {}),
        ("e4-topic", "b.a", {}),
        ("e4-headers", "", {"h": 1}),
        ("e4-headers", "", {"h": 2}),
    ]
    for exchange, key, headers in sent:
        body = f"{exchange} {key} {headers}".encode()
        channel.basic_publish(exchange, key, body, pika.BasicProperties(headers=headers))
    got = [body.decode() for _, _, body in take(channel, queue, 5)]
    assert got == [
        "e4-direct k {}",
        "e4-direct through {}",
        "e4-fanout any {}",
        "e4-topic a.b.c {}",
        "e4-headers  {'h': 1}",
    ]


def test_an_unroutable_mandatory_message_is_returned(channel: Any) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish("", "nowhere at all", b"x", mandatory=True)
    assert caught.value.messages[0].body == b"x"
    channel.basic_publish("", "nowhere at all", b"x")


def test_a_mandatory_message_whose_queue_is_deleted_before_the_commit_is_returned(
    channel: Any,
) -> None:
    channel.queue_declare("e4-brief")
    channel.tx_select()
    came: list[bytes] = []
    channel.add_on_return_callback(lambda *each: came.append(each[-1]))
    channel.basic_publish("", "e4-brief", b"x", mandatory=True)
    channel.queue_delete("e4-brief")
    channel.tx_commit()
    settle(channel)
    assert came == [b"x"]


def test_prefetch_and_rejection(channel: Any) -> None:
    channel.queue_declare("e5")
    for number in range(5):
        channel.basic_publish("", "e5", b"%d" % number)
    channel.basic_qos(prefetch_count=2)
    got = take(channel, "e5", 2)
    settle(channel)
    assert channel.get_waiting_message_count() == 0
    channel.basic_nack(got[0][0].delivery_tag, requeue=True)
    channel.basic_reject(got[1][0].delivery_tag, requeue=False)
    again = take(channel, "e5", 2)
    assert [(body, method.redelivered) for method, _, body in again] == [
        (b"0", True),
        (b"2", False),
    ]


def test_global_prefetch_counts_for_the_channel(channel: Any) -> None:
    channel.queue_declare("e6")
    for number in range(10):
        channel.basic_publish("", "e6", b"%d" % number)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    got: list[int] = []
    for _ in range(2):
        channel.basic_consume("e6", lambda _c, method, _p, _b: got.append(method.delivery_tag))
    wait(channel, lambda: len(got) == 3)
    settle(channel)
    assert len(got) == 3
    channel.basic_ack(got[0])
    wait(channel, lambda: len(got) == 4)
    settle(channel)
    assert len(got) == 4


def test_messages_of_a_lost_connection_return_to_their_places(broker: Any, channel: Any) -> None:
    channel.queue_declare("e7")
    for number in range(4):
        channel.basic_publish("", "e7", b"%d" % number)
    other = broker.connect()
    held = take(other.channel(), "e7", 3)
    assert len(held) == 3
    other.close()
    got = take(channel, "e7", 4)
    assert [(body, method.redelivered) for method, _, body in got] == [
        (b"0", True),
        (b"1", True),
        (b"2", True),
        (b"3", got[3][0].redelivered),
    ]


def test_recover_redelivers(channel: Any) -> None:
    channel.queue_declare("e8")
    channel.basic_publish("", "e8", b"x")
    assert not take(channel, "e8", 1)[0][0].redelivered
    channel.basic_recover(requeue=True)
    assert take(channel, "e8", 1)[0][0].redelivered


def test_transactions(broker: Any, channel: Any) -> None:
    channel.queue_declare("e9")
    channel.tx_select()
    channel.basic_publish("", "e9", b"gone")
    channel.tx_rollback()
    channel.basic_publish("", "e9", b"kept")
    other = broker.connect()
    assert other.channel().queue_declare("e9", passive=True).method.message_count == 0
    channel.tx_commit()
    assert other.channel().queue_declare("e9", passive=True).method.message_count == 1
    method, _, body = channel.basic_get("e9")
    assert body == b"kept"
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    other.close()


def test_a_transaction_that_cannot_be_committed_leaves_nothing(broker: Any, channel: Any) -> None:
    for queue in ("e22-in", "e22-a", "e22-b"):
        channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "e22-in", b"job", PERSISTENT)
    worker = broker.connect().channel()
    worker.tx_select()
    method, _, body = worker.basic_get("e22-in")
    worker.basic_publish("", "e22-a", body, PERSISTENT)
    worker.basic_publish("", "e22-b", body, PERSISTENT)
    worker.basic_ack(method.delivery_tag)
    broker.faults.fail_until_healed()
    try:
        with pytest.raises(ConnectionClosedByBroker) as caught:
            worker.tx_commit()
        assert caught.value.reply_code == 541
    finally:
        broker.faults.heal()
    counts = [
        channel.queue_declare(queue, passive=True).method.message_count
        for queue in ("e22-in", "e22-a", "e22-b")
    ]
    assert counts == [1, 0, 0]
    assert channel.basic_get("e22-in")[0].redelivered


def test_a_fanout_is_confirmed_when_all_queues_have_it(channel: Any) -> None:
    channel.exchange_declare("e23", "fanout", durable=True)
    queues = [f"e23-{number}" for number in range(4)]
    for number, queue in enumerate(queues):
        channel.queue_declare(queue, durable=number % 2 == 0)
        channel.queue_bind(queue, "e23")
    channel.confirm_delivery()
    for number in range(10):
        channel.basic_publish("e23", "", b"%d" % number, PERSISTENT, mandatory=True)
    for queue in queues:
        got = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(10)]
        assert got == [b"%d" % number for number in range(10)]


def test_purge_and_delete(channel: Any) -> None:
    channel.queue_declare("e10")
    for _ in range(3):
        channel.basic_publish("", "e10", b"x")
    assert channel.queue_purge("e10").method.message_count == 3
    channel.basic_publish("", "e10", b"x")
    assert channel.queue_delete("e10").method.message_count == 1
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("e10", passive=True)
    assert caught.value.reply_code == 404


def test_a_deleted_queue_cancels_its_consumers(broker: Any, channel: Any) -> None:
    channel.queue_declare("e11")
    cancelled: list[Any] = []
    channel.add_on_cancel_callback(cancelled.append)
    channel.basic_consume("e11", lambda *_: None, consumer_tag="watcher")
    other = broker.connect()
    other.channel().queue_delete("e11")
    wait(channel, lambda: bool(cancelled))
    assert [frame.method.consumer_tag for frame in cancelled] == ["watcher"]
    other.close()


def test_exclusive_queues_are_deleted_with_their_connection(broker: Any, channel: Any) -> None:
    other = broker.connect()
    name = other.channel().queue_declare("", exclusive=True).method.queue
    other.close()
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare(name, passive=True)
    assert caught.value.reply_code == 404


def test_auto_delete_queues_are_deleted_with_their_last_consumer(channel: Any) -> None:
    channel.queue_declare("e12", auto_delete=True)
    tag = channel.basic_consume("e12", lambda *_: None)
    channel.basic_cancel(tag)
    with pytest.raises(ChannelClosedByBroker) as caught:
        channel.queue_declare("e12", passive=True)
    assert caught.value.reply_code == 404


@pytest.mark.parametrize("is_over", [False, True])
def test_a_direct_reply_to_name_cannot_be_used_by_anybody_else(
    broker: Any, channel: Any, is_over: bool
) -> None:
    tag = channel.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
    channel.queue_declare("e13")
    asking = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to")
    channel.basic_publish("", "e13", b"question", asking)
    name = channel.basic_get("e13", auto_ack=True)[1].reply_to
    if is_over:
        channel.basic_cancel(tag)
    other = broker.connect()
    with pytest.raises(ChannelClosedByBroker) as caught:
        other.channel().basic_consume(name, lambda *_: None, auto_ack=True)
    assert caught.value.reply_text == f"NOT_FOUND - no queue '{name}' in vhost '/'"
    with pytest.raises(ChannelClosedByBroker) as caught:
        other.channel().queue_bind(name, "amq.fanout")
    assert caught.value.reply_text == f"NOT_FOUND - no queue '{name}' in vhost '/'"
    other.close()


def test_two_consumers_share_a_queue(broker: Any, channel: Any) -> None:
    channel.queue_declare("e13")
    got: dict[str, list[bytes]] = {"a": [], "b": []}
    for tag, bodies in got.items():
        channel.basic_qos(prefetch_count=1)
        channel.basic_consume(
            "e13",
            lambda ch, method, _p, body, bodies=bodies: (
                bodies.append(body),
                ch.basic_ack(method.delivery_tag),
            ),
            consumer_tag=tag,
        )
    other = broker.connect()
    publisher = other.channel()
    for number in range(40):
        publisher.basic_publish("", "e13", b"%d" % number)
    wait(channel, lambda: sum(map(len, got.values())) == 40)
    assert sorted(map(int, got["a"] + got["b"])) == list(range(40))
    assert min(map(len, got.values())) > 0
    other.close()


def test_messages_go_to_the_consumers_in_turn(channel: Any) -> None:
    channel.queue_declare("e21")
    got: list[str] = []
    for tag in ("a", "b"):
        channel.basic_consume(
            "e21", lambda _c, method, _p, _b: got.append(method.consumer_tag), consumer_tag=tag
        )
    for _ in range(10):
        channel.basic_publish("", "e21", b"x")
    wait(channel, lambda: len(got) == 10)
    assert (got.count("a"), got.count("b")) == (5, 5)


def test_higher_priority_goes_first(broker: Any, channel: Any) -> None:
    channel.queue_declare("e14")
    got: list[str] = []
    for tag, priority in (("low", -1), ("high", 5)):
        channel.basic_consume(
            "e14",
            lambda _c, method, _p, _b: got.append(method.consumer_tag),
            consumer_tag=tag,
            arguments={"x-priority": priority},
        )
    for _ in range(5):
        channel.basic_publish("", "e14", b"x")
    wait(channel, lambda: len(got) == 5)
    assert got == ["high"] * 5


def test_many_channels_on_one_connection(channel: Any) -> None:
    connection = channel.connection
    channels = [connection.channel() for _ in range(50)]
    for number, each in enumerate(channels):
        each.queue_declare(f"e15-{number}", exclusive=True)
        each.confirm_delivery()
        each.basic_publish("", f"e15-{number}", b"%d" % number, mandatory=True)
    for number, each in enumerate(channels):
        assert each.basic_get(f"e15-{number}", auto_ack=True)[2] == b"%d" % number
        each.close()


def test_a_channel_error_leaves_the_connection_alone(channel: Any) -> None:
    connection = channel.connection
    with pytest.raises(ChannelClosedByBroker):
        channel.basic_get("does not exist")
    again = connection.channel()
    again.queue_declare("e16")
    assert again.basic_get("e16") == (None, None, None)


def test_what_the_store_refuses_is_nacked_and_the_rest_is_stored(broker: Any, channel: Any) -> None:
    channel.queue_declare("e17", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "e17", b"kept", PERSISTENT)
    broker.faults.fail_until_healed()
    try:
        with pytest.raises(NackError):
            channel.basic_publish("", "e17", b"lost", PERSISTENT)
        assert channel.basic_get("e17")[2] == b"kept"
    finally:
        broker.faults.heal()
    channel.basic_publish("", "e17", b"kept again", PERSISTENT)
    assert channel.basic_get("e17")[2] == b"kept again"


def test_without_confirms_a_store_failure_closes_the_channel(broker: Any, channel: Any) -> None:
    channel.queue_declare("e18", durable=True)
    broker.faults.fail_until_healed()
    try:
        with pytest.raises(ConnectionClosedByBroker) as caught:
            channel.basic_publish("", "e18", b"lost", PERSISTENT)
            wait(channel, lambda: False)
        assert caught.value.reply_code == 541
    finally:
        broker.faults.heal()


def test_a_seek_through_pulsar_redelivers_to_the_same_consumer(broker: Any, channel: Any) -> None:
    channel.queue_declare("e19", durable=True)
    got: list[bytes] = []
    channel.basic_consume("e19", lambda _c, _m, _p, body: got.append(body), auto_ack=True)
    for number in range(3):
        channel.basic_publish("", "e19", b"%d" % number)
    wait(channel, lambda: len(got) == 3)
    assert got == [b"0", b"1", b"2"]

    async def seek() -> None:
        topic = broker.engine.topic("persistent://public/default/e19")
        await topic.subscriptions["amqp"].seek(topic.first)

    broker.call(seek)
    wait(channel, lambda: len(got) == 6)
    assert got[3:] == [b"0", b"1", b"2"]


async def aio_pika_round_trip(port: int) -> list[bytes]:
    import aio_pika

    connection = await aio_pika.connect_robust(f"amqp://guest:guest@127.0.0.1:{port}/")
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=10)
        exchange = await channel.declare_exchange("aio", aio_pika.ExchangeType.TOPIC, durable=True)
        queue = await channel.declare_queue("aio", durable=True)
        await queue.bind(exchange, "a.#")
        for number in range(50):
            message = aio_pika.Message(b"%d" % number, delivery_mode=2, headers={"n": number})
            await exchange.publish(message, f"a.{number}")
        got: list[bytes] = []
        async with queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    got.append(message.body)
                if len(got) == 50:
                    break
        await queue.delete(if_unused=False, if_empty=False)
        return got


def test_aio_pika(broker: Any) -> None:
    got = asyncio.run(aio_pika_round_trip(broker.port))
    assert got == [b"%d" % number for number in range(50)]


@pytest.mark.skipif(not shutil.which("amqp-publish"), reason="amqp-tools are not installed")
def test_amqp_tools(broker: Any) -> None:
    def tool(name: str, *arguments: str) -> str:
        command = [name, "--server=127.0.0.1", f"--port={broker.port}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    tool("amqp-declare-queue", "-d", "-q", "tools")
    tool("amqp-publish", "-p", "-r", "tools", "-b", "hello")
    tool("amqp-publish", "-p", "-r", "tools", "-b", "world")
    assert tool("amqp-get", "-q", "tools") == "hello"
    assert tool("amqp-consume", "-q", "tools", "-c", "1", "cat") == "world"
    assert tool("amqp-delete-queue", "-q", "tools").strip() == "0"
