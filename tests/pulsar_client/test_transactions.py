"""Transactions: all of it or nothing."""

import anyio
import pytest
from tests.pulsar_client.conftest import Broker

from arneb_pulsar.client import (
    Client,
    ConsumerOptions,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.errors import (
    InvalidTransactionStatus,
    TimedOut,
    TransactionConflict,
    TransactionEnded,
    TransactionNotFound,
)

OPTIONS = ConsumerOptions(type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST)
PRODUCER = ProducerOptions(transactions=True, send_timeout_s=0)


@pytest.mark.in_peace("a transaction whose topics are away is aborted")
async def test_all_of_a_transaction_counts_or_nothing(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        await commit_and_abort(client, topic)


async def commit_and_abort(client: Client, topic: str) -> None:
    work = await client.create_producer(f"{topic}-work")
    workers = await client.subscribe(f"{topic}-work", "s", OPTIONS)
    results = await client.create_producer(f"{topic}-results", PRODUCER)
    readers = await client.subscribe(f"{topic}-results", "s", OPTIONS)
    await work.send(b"do it")
    task = await workers.receive(20)
    with pytest.raises(ZeroDivisionError):
        async with await client.begin_transaction() as aborted:
            await aborted.send(results, b"half done")
            await aborted.acknowledge(workers, task)
            raise ZeroDivisionError
    with pytest.raises(TransactionEnded):
        await aborted.send(results, b"too late")
    workers.redeliver_unacknowledged()
    again = await workers.receive(20)
    assert again.id == task.id
    async with await client.begin_transaction() as transaction:
        for number in range(3):
            await transaction.send(results, b"%d" % number)
        await transaction.acknowledge(workers, again)
        with pytest.raises(TimedOut):
            await readers.receive(0.5)
    assert [(await readers.receive(20)).data for _ in range(3)] == [b"0", b"1", b"2"]
    await workers.close()
    workers = await client.subscribe(f"{topic}-work", "s", OPTIONS)
    with pytest.raises(TimedOut):
        await workers.receive(0.5)


@pytest.mark.in_peace("a transaction whose topics are away is aborted")
async def test_a_transaction_that_lasts_too_long_never_was(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic, PRODUCER)
        await producer.send(b"before")
        consumer = await client.subscribe(topic, "s", OPTIONS)
        message = await consumer.receive(20)
        late = await client.begin_transaction(timeout_s=2.0)
        await late.send(producer, b"never")
        await late.acknowledge(consumer, message)
        await anyio.sleep(4.0)
        with pytest.raises((TransactionNotFound, InvalidTransactionStatus)):
            await late.commit()
        await producer.send(b"after")
        consumer.redeliver_unacknowledged()
        found = {(await consumer.receive(20)).data for _ in range(2)}
        assert found == {b"before", b"after"}


@pytest.mark.in_peace("a transaction whose topics are away is aborted")
async def test_a_message_is_acknowledged_by_one_transaction(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic, ProducerOptions(batching=None))
        for number in range(3):
            await producer.send(b"%d" % number)
        consumer = await client.subscribe(topic, "s", OPTIONS)
        messages = [await consumer.receive(20) for _ in range(3)]
        async with await client.begin_transaction() as first:
            await first.acknowledge(consumer, messages[0])
            with pytest.raises(TransactionConflict):
                async with await client.begin_transaction() as second:
                    await second.acknowledge(consumer, messages[0])
            await first.acknowledge(consumer, messages[2])
        await consumer.close()
        consumer = await client.subscribe(topic, "s", OPTIONS)
        assert (await consumer.receive(20)).data == b"1"
        with pytest.raises(TimedOut):
            await consumer.receive(0.5)
