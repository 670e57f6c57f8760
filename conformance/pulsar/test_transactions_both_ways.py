"""Transactions of both protocols on the same topic: AMQP's ``tx`` and Pulsar's, side by side.

The rule: neither sees what the other has not committed, and neither is delayed by it.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import anyio
import pika
import pytest
from conformance.pulsar.conftest import BrokerUrls, Named
from pika.adapters.blocking_connection import BlockingChannel

from arneb_pulsar.client import (
    Client,
    ConsumerOptions,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.errors import TimedOut, TransactionConflict

TRANSACTING: Final = ProducerOptions(transactions=True, send_timeout_s=0)
SHARED: Final = ConsumerOptions(
    type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST
)
RECEIVED_WITHIN_S: Final = 30.0
SILENCE_S: Final = 0.5


@pytest.fixture
def queue(channel: BlockingChannel, name: Named) -> str:
    """An empty durable queue, which is also a topic."""
    made = name("queue")
    channel.queue_declare(made, durable=True)
    return made


@pytest.fixture
def transacting(channel: BlockingChannel) -> BlockingChannel:
    """Another channel, in transaction mode."""
    opened = channel.connection.channel()
    opened.tx_select()
    return opened


def played(url: str, play: Callable[[Client], Awaitable[None]]) -> None:
    """Run ``play`` with a Pulsar client."""

    async def connected() -> None:
        async with connect(url) as client:
            await play(client)

    anyio.run(connected)


def publish(channel: BlockingChannel, queue: str, body: bytes) -> None:
    channel.basic_publish("", queue, body, pika.BasicProperties(delivery_mode=2))


def ready(channel: BlockingChannel, queue: str) -> int:
    """The number of ready messages according to AMQP."""
    found: int = channel.queue_declare(queue, passive=True).method.message_count
    return found


async def received(consumer: Any, count: int) -> list[bytes]:
    """Receive exactly ``count`` messages; the result is their payloads."""
    found = [(await consumer.receive(RECEIVED_WITHIN_S)).data for _ in range(count)]
    with suppress(TimedOut):
        raise AssertionError(f"expected no more, got {(await consumer.receive(SILENCE_S)).data!r}")
    return found


@pytest.mark.parametrize("amqp_first", [True, False])
def test_each_shows_what_it_sends_with_its_own_commit(
    broker_urls: BrokerUrls,
    channel: BlockingChannel,
    transacting: BlockingChannel,
    queue: str,
    amqp_first: bool,
) -> None:
    async def play(client: Client) -> None:
        consumer = await client.subscribe(queue, "reader", SHARED)
        producer = await client.create_producer(queue, TRANSACTING)
        transaction = await client.begin_transaction(60)
        await transaction.send(producer, b"pulsar")
        publish(transacting, queue, b"amqp")
        publish(channel, queue, b"plain")
        assert await received(consumer, 1) == [b"plain"]
        assert ready(channel, queue) == 1
        if amqp_first:
            transacting.tx_commit()
            assert await received(consumer, 1) == [b"amqp"]
            await transaction.commit()
            assert await received(consumer, 1) == [b"pulsar"]
        else:
            await transaction.commit()
            assert await received(consumer, 1) == [b"pulsar"]
            transacting.tx_commit()
            assert await received(consumer, 1) == [b"amqp"]
        bodies = [channel.basic_get(queue, auto_ack=True)[2] for _ in range(3)]
        others = [b"amqp", b"pulsar"] if amqp_first else [b"pulsar", b"amqp"]
        assert bodies == [b"plain", *others]

    played(broker_urls.pulsar, play)


def test_what_one_takes_back_the_other_never_saw(
    broker_urls: BrokerUrls, channel: BlockingChannel, transacting: BlockingChannel, queue: str
) -> None:
    async def play(client: Client) -> None:
        consumer = await client.subscribe(queue, "reader", SHARED)
        producer = await client.create_producer(queue, TRANSACTING)
        transaction = await client.begin_transaction(60)
        await transaction.send(producer, b"pulsar")
        publish(transacting, queue, b"amqp")
        await transaction.abort()
        transacting.tx_rollback()
        assert await received(consumer, 0) == []
        assert ready(channel, queue) == 0

    played(broker_urls.pulsar, play)


@pytest.mark.parametrize("commit", [True, False])
def test_what_a_transaction_has_acknowledged_is_not_delivered_before_it_is_aborted(
    broker_urls: BrokerUrls,
    channel: BlockingChannel,
    transacting: BlockingChannel,
    queue: str,
    commit: bool,
) -> None:
    """Both protocols share the subscription that is the queue."""

    async def play(client: Client) -> None:
        for body in (b"0", b"1"):
            publish(channel, queue, body)
        consumer = await client.subscribe(queue, "amqp", SHARED)
        messages = [await consumer.receive(RECEIVED_WITHIN_S) for _ in range(2)]
        first = await client.begin_transaction(60)
        await first.acknowledge(consumer, messages[0])
        await consumer.close()
        method, _, body = transacting.basic_get(queue)
        assert body == b"1", "0 is withheld"
        assert transacting.basic_get(queue)[0] is None
        transacting.basic_ack(method.delivery_tag)
        other = await client.subscribe(queue, "amqp", SHARED)
        second = await client.begin_transaction(60)
        with pytest.raises(TransactionConflict):
            await second.acknowledge(other, messages[0])
        await second.abort()
        await other.close()
        if commit:
            await first.commit()
            transacting.tx_commit()
            assert ready(channel, queue) == 0
            return
        await first.abort()
        transacting.tx_rollback()
        transacting.basic_nack(method.delivery_tag, requeue=True)
        transacting.tx_commit()
        found = [channel.basic_get(queue, auto_ack=True) for _ in range(2)]
        assert [each[2] for each in found] == [b"0", b"1"]
        assert all(each[0].redelivered for each in found)

    played(broker_urls.pulsar, play)
