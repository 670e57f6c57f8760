"""Publishing: confirms, returns, bodies and properties."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pika
import pytest
from conformance.amqp.conftest import Connect, Named
from conformance.amqp.helpers import PERSISTENT, bodies_in, publish, take, wait_until
from conformance.conftest import Target
from conformance.wire.amqp import AmqpClient, Delivery
from conformance.wire.running import run
from pamqp import commands
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import NackError, UnroutableError


def test_a_confirmed_publish_can_be_got(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, b"hello")
    assert bodies_in(channel, queue) == [b"hello"]


def test_unconfirmed_publishes_arrive_in_order(connect: Connect, queue: str) -> None:
    channel = connect().channel()
    wanted = [b"%d" % number for number in range(1000)]
    for body in wanted:
        channel.basic_publish("", queue, body)
    channel.close()
    got = [body for _, _, body in take(connect().channel(), queue, 1000)]
    assert got == wanted


def test_a_get_after_an_unconfirmed_publish_finds_it(channel: BlockingChannel, queue: str) -> None:
    """Methods on one channel take effect in order, whether or not publishes are confirmed."""
    for number in range(50):
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
        assert channel.basic_get(queue, auto_ack=True)[2] == b"%d" % number


def test_a_declare_after_unconfirmed_publishes_counts_them(
    channel: BlockingChannel, queue: str
) -> None:
    for number in range(50):
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT)

    def counted() -> bool:
        return bool(channel.queue_declare(queue, passive=True).method.message_count == 50)

    wait_until(channel.connection, counted)  # RabbitMQ's count may be one message behind


def test_a_purge_after_unconfirmed_publishes_removes_them(
    channel: BlockingChannel, queue: str
) -> None:
    for number in range(50):
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
    assert channel.queue_purge(queue).method.message_count == 50


@pytest.mark.parametrize("closing", ["channel", "connection"])
def test_when_close_is_answered_all_publishes_are_in_their_queues(
    connect: Connect, queue: str, closing: str
) -> None:
    for _ in range(10):
        connection = connect()
        channel = connection.channel()
        for number in range(20):
            channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
        (channel if closing == "channel" else connection).close()
        assert len(bodies_in(connect().channel(), queue)) == 20


def test_an_unroutable_mandatory_message_is_returned_before_its_confirm(
    channel: BlockingChannel,
) -> None:
    channel.confirm_delivery()
    with pytest.raises(UnroutableError) as caught:
        channel.basic_publish(
            "", "nobody-home", b"x", pika.BasicProperties(message_id="7"), mandatory=True
        )
    (returned,) = caught.value.messages
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.method.exchange, returned.method.routing_key) == ("", "nobody-home")
    assert (returned.body, returned.properties.message_id) == (b"x", "7")


def test_on_the_wire_a_return_stands_before_its_confirm(broker: Target) -> None:
    """Checked on the wire, because a library that waits for the confirm cannot tell the order if
    both arrive together."""

    async def scenario() -> None:
        client = await AmqpClient.open(broker.address)
        seen: list[str] = []
        client.handlers.returned = lambda method: seen.append("return")
        client.handlers.confirmed = lambda tags, acked: seen.append("confirm")
        await client.confirm_select()
        for count in (1, 2, 3):
            client.publish("", "nobody-home", b"x", mandatory=True)
            while len(seen) < 2 * count:
                await client.round_trip()
        assert seen == ["return", "confirm"] * 3

    run(scenario())


def test_an_unroutable_message_is_confirmed_when_it_is_not_mandatory(
    channel: BlockingChannel,
) -> None:
    channel.confirm_delivery()
    try:
        channel.basic_publish("", "nobody-home", b"x")
    except (NackError, UnroutableError) as error:
        pytest.fail(f"expected a confirm, got {error!r}")


def test_a_returned_message_comes_without_confirms_too(connect: Connect) -> None:
    connection = connect()
    channel = connection.channel()
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda *parts: returned.append(parts[3]))
    channel.basic_publish("", "nobody-home", b"back", mandatory=True)
    wait_until(connection, lambda: returned)
    assert returned == [b"back"]


def test_confirms_count_from_one_and_cover_every_publish(broker: Target, queue: str) -> None:
    """Confirms may be cumulative, but each tag is confirmed exactly once."""

    async def scenario() -> None:
        client = await AmqpClient.open(broker.address)
        confirmed: list[int] = []

        def on_confirm(tags: list[int], acked: bool) -> None:
            assert acked
            confirmed.extend(tags)

        client.handlers.confirmed = on_confirm
        await client.confirm_select()
        for number in range(500):
            client.publish("", queue if number % 3 else "nobody-home", b"%d" % number)
        while len(confirmed) < 500:
            await client.round_trip()
        assert sorted(confirmed) == list(range(1, 501))

    run(scenario())


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 131_064, 131_065, 300_000, 3_000_000])
def test_bodies_of_any_size_come_back_whole(
    channel: BlockingChannel, queue: str, size: int
) -> None:
    """Bodies larger than the frame size travel in several frames."""
    body = bytes(number % 251 for number in range(size))
    publish(channel, queue, body)
    assert bodies_in(channel, queue) == [body]


def test_every_property_comes_back_as_it_was(channel: BlockingChannel, queue: str) -> None:
    properties = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        delivery_mode=2,
        priority=3,
        correlation_id="c-1",
        reply_to="answers",
        message_id="m-1",
        timestamp=1_700_000_000,
        type="order",
        user_id="guest",
        app_id="shop",
        cluster_id="x",
        headers={"a": 1},
    )
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x", properties)
    assert channel.basic_get(queue, auto_ack=True)[1] == properties


HEADERS: dict[str, Any] = {
    "bool": True,
    "int": -5,
    "big": 2**40,
    "text": "ünï",
    "bytes": b"\x00\xff",
    "decimal": Decimal("12.34"),
    "time": datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC),
    "table": {"inner": {"deep": [1, "two", None]}},
    "list": [1, [2, {"three": 3}], False],
    "void": None,
}


def test_every_header_type_comes_back_as_it_was(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x", pika.BasicProperties(headers=HEADERS))
    got = channel.basic_get(queue, auto_ack=True)[1].headers
    for key, value in HEADERS.items():
        assert _comparable(got[key]) == _comparable(value), key


def test_header_types_that_pika_lacks_come_back_too(broker: Target, queue: str) -> None:
    headers = {"double": 1.5, "array": bytearray(b"\x00\x01"), "negative": -(2**50)}

    async def scenario() -> None:
        client = await AmqpClient.open(broker.address)
        got: list[Delivery] = []
        client.handlers.delivered = got.append
        client.publish("", queue, b"x", commands.Basic.Properties(headers=headers))
        await client.consume(queue)
        while not got:
            await client.round_trip()
        assert got[0].properties.headers == headers

    run(scenario())


def _comparable(value: Any) -> Any:
    """Properties in a comparable form: pika returns times without a zone, and some bytes as
    text."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value


def test_a_message_to_many_queues_is_in_each(channel: BlockingChannel, name: Named) -> None:
    queues = [name("each") for _ in range(20)]
    channel.confirm_delivery()
    for queue in queues:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "amq.direct", queues[0])
    channel.basic_publish("amq.direct", queues[0], b"all")
    assert [bodies_in(channel, queue) for queue in queues] == [[b"all"]] * 20


def test_confirm_select_can_be_repeated(broker: Target) -> None:
    async def scenario() -> None:
        client = await AmqpClient.open(broker.address)
        await client.confirm_select()
        await client.call(commands.Confirm.Select(), commands.Confirm.SelectOk)

    run(scenario())
