"""Transactions: all of it or nothing; and what a service says that has none."""

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
from arneb_pulsar.client.errors import ServerRefused, TimedOut, TransactionEnded

OPTIONS = ConsumerOptions(type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST)
PRODUCER = ProducerOptions(transactions=True, send_timeout_s=0)


@pytest.mark.in_peace("a transaction whose topics are away is aborted")
async def test_all_of_a_transaction_counts_or_nothing(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        if broker.name == "arneb":
            with pytest.raises(ServerRefused):
                await client.begin_transaction()
        else:
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
