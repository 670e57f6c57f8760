"""Transactions: all of it or nothing."""

from functools import partial

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
from arneb_pulsar.client.admin import administer
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


async def left(client: Client, topic: str, options: ConsumerOptions) -> list[bytes]:
    """What comes to a consumer that is new."""
    found = []
    async with await client.subscribe(topic, "s", options) as consumer:
        try:
            while True:
                found.append((await consumer.receive(2.0 if found else 20.0)).data)
        except TimedOut:
            return found


@pytest.mark.thorough("takes seconds")
@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
@pytest.mark.in_peace("a transaction whose topics are away is aborted")
async def test_everything_up_to_a_message_is_acknowledged_in_a_transaction(
    broker: Broker, topic: str, commits: bool
) -> None:
    options = ConsumerOptions(initial_position=InitialPosition.EARLIEST)
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic, ProducerOptions(batching=None))
        for number in range(5):
            await producer.send(b"%d" % number)
        consumer = await client.subscribe(topic, "s", options)
        messages = [await consumer.receive(20) for _ in range(5)]
        transaction = await client.begin_transaction()
        await transaction.acknowledge(consumer, messages[2], cumulative=True)
        await (transaction.commit() if commits else transaction.abort())
        await consumer.close()
        numbers = range(3 if commits else 0, 5)
        assert await left(client, topic, options) == [b"%d" % number for number in numbers]


@pytest.mark.thorough("takes seconds")
@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
@pytest.mark.in_peace("a transaction whose topics are away is aborted")
async def test_messages_of_a_batch_are_acknowledged_in_a_transaction(
    broker: Broker, topic: str, commits: bool
) -> None:
    options = ConsumerOptions(
        type=SubscriptionType.SHARED,
        initial_position=InitialPosition.EARLIEST,
        batch_index_acks=True,
    )
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic)
        await producer.send_batch([b"%d" % number for number in range(6)])
        consumer = await client.subscribe(topic, "s", options)
        messages = [await consumer.receive(20) for _ in range(6)]
        transaction = await client.begin_transaction()
        for message in (messages[1], messages[4]):
            await transaction.acknowledge(consumer, message)
        await (transaction.commit() if commits else transaction.abort())
        await consumer.close()
        numbers = (0, 2, 3, 5) if commits else range(6)
        assert await left(client, topic, options) == [b"%d" % number for number in numbers]


@pytest.mark.thorough("takes seconds")
@pytest.mark.in_peace("a transaction whose topics are away is aborted")
async def test_a_transaction_spans_partitions_and_many_messages(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        await admin.create_topic(topic, 3)
        producer = await client.create_producer(topic, PRODUCER)
        consumer = await client.subscribe(topic, "s", OPTIONS)
        for commits in (False, True):
            transaction = await client.begin_transaction()
            async with anyio.create_task_group() as tasks:
                for number in range(60):
                    text = b"%s %d" % (b"counts" if commits else b"never", number)
                    key = f"key-{number % 12}"
                    tasks.start_soon(partial(transaction.send, producer, text, key=key))
            with pytest.raises(TimedOut):
                await consumer.receive(0.5)
            await (transaction.commit() if commits else transaction.abort())
        found = [await consumer.receive(20) for _ in range(60)]
        assert len({each.topic for each in found}) == 3
        assert {each.data for each in found} == {b"counts %d" % number for number in range(60)}
        with pytest.raises(TimedOut):
            await consumer.receive(0.5)


@pytest.mark.thorough("takes seconds")
@pytest.mark.in_peace("a transaction whose topics are away is aborted")
async def test_what_a_transaction_in_hand_has_acknowledged_does_not_come_again(
    broker: Broker, topic: str
) -> None:
    """Not while it is open, whoever else asks; all of it if its client is gone and its time up."""
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic, ProducerOptions(batching=None))
        for number in range(3):
            await producer.send(b"%d" % number)
        async with connect(broker.pulsar_url) as other:
            consumer = await other.subscribe(topic, "s", OPTIONS)
            messages = [await consumer.receive(20) for _ in range(3)]
            transaction = await other.begin_transaction(timeout_s=4.0)
            await transaction.acknowledge(consumer, messages[1])
            await consumer.close()
            assert await left(client, topic, OPTIONS) == [b"0", b"2"]
        await anyio.sleep(5.0)
        found = await left(client, topic, OPTIONS)
        assert sorted(found) == [b"0", b"1", b"2"]
