"""Where a subscription or a reader stands, at the broker in memory: seeks one after the other, and
readers that begin some time ago."""

from typing import Any

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import client_of, early, produce, sent_count
from tests.pulsar_frontend.client.test_cancelling import cancelled_after

from arneb_pulsar.client import (
    EARLIEST,
    LATEST,
    Batching,
    ConsumerOptions,
    MessageId,
    ProducerOptions,
    SubscriptionType,
)
from arneb_pulsar.client.errors import ClientClosed, ConfigurationError
from arneb_pulsar.client.testing import FakeBroker, Faults

FAILOVER = SubscriptionType.FAILOVER


@pytest.mark.parametrize("seed", range(10))
async def test_of_several_seeks_at_once_the_last_counts(seed: int) -> None:
    broker = FakeBroker(Faults(seed=seed, delay_s_max=1.0))
    async with client_of(broker) as client:
        await produce(client, 6)
        consumer = await client.subscribe("orders", "billing", early(FAILOVER))
        ids = [(await consumer.receive()).id for _ in range(6)]
        async with anyio.create_task_group() as tasks:
            for each in (ids[4], ids[0], ids[2]):
                tasks.start_soon(consumer.seek, each)
                await anyio.sleep(0.001)
        assert sent_count(broker, "seek") == 3
        assert [int((await consumer.receive()).data) for _ in range(3)] == [3, 4, 5]


@pytest.mark.parametrize("after_s", [0.0005, 0.3, 1.5])
async def test_a_seek_after_one_that_was_cancelled_counts(after_s: float) -> None:
    broker = FakeBroker(Faults(delay_s_max=1.0))
    async with client_of(broker) as client:
        await produce(client, 6)
        consumer = await client.subscribe("orders", "billing", early(FAILOVER))
        ids = [(await consumer.receive()).id for _ in range(6)]
        with anyio.move_on_after(after_s):
            await consumer.seek(ids[4])
        await consumer.seek(ids[1])
        assert [int((await consumer.receive()).data) for _ in range(3)] == [2, 3, 4]


async def test_a_seek_that_waits_for_another_ends_with_the_consumer() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce(client, 2)
        consumer = await client.subscribe("orders", "billing", early(FAILOVER))
        ends: list[type[Exception]] = []

        async def seek() -> None:
            try:
                await consumer.seek(EARLIEST)
            except ClientClosed as error:
                ends.append(type(error))

        broker.faults.delay_s_max = 5.0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(seek)
            tasks.start_soon(seek)
            await anyio.sleep(0.01)
            await cancelled_after(0.001, consumer.close)
        assert ends == [ClientClosed, ClientClosed]
        assert sent_count(broker, "seek") <= 1


@pytest.mark.parametrize(
    "wrong",
    [None, "beginning", -1, lambda _topic: None],
    ids=["none", "text", "negative", "function"],
)
async def test_a_place_that_is_none_is_refused_and_the_consumer_goes_on(wrong: Any) -> None:
    async with client_of(FakeBroker()) as client:
        await produce(client, 1)
        consumer = await client.subscribe("orders", "billing", early())
        with pytest.raises(ConfigurationError, match="a time in ms"):
            await consumer.seek(wrong)
        assert (await consumer.receive()).data == b"0"


@pytest.mark.parametrize("start", [EARLIEST, LATEST], ids=["earliest", "latest"])
@pytest.mark.parametrize("ago_s", [15, 1_000])
async def test_a_reader_begins_some_time_ago_and_again_where_it_was(
    start: MessageId, ago_s: int
) -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        producer = await client.create_producer("orders", ProducerOptions(batching=None))
        for number in range(4):
            await producer.send(b"%d" % number)
            await anyio.sleep(10)
        options = ConsumerOptions(start_rollback_s=ago_s)
        first = 3 if ago_s == 15 else 0
        async with await client.create_reader("orders", start, options) as reader:
            # Nothing of it was read yet, and time has gone by.
            await anyio.sleep(100)
            broker.cut()
            await producer.send(b"4")
            found = [int((await reader.read(timeout_s=5.0)).data) for _ in range(first, 5)]
            assert found == list(range(first, 5))
            broker.cut()
            await producer.send(b"5")
            assert (await reader.read(timeout_s=5.0)).data == b"5"


async def test_one_begins_at_a_place_or_some_time_ago() -> None:
    async with client_of(FakeBroker()) as client:
        ago = ConsumerOptions(start_rollback_s=5)
        with pytest.raises(ConfigurationError, match="one place to begin"):
            await client.create_reader("orders", MessageId(1, 1), ago)
        with pytest.raises(ConfigurationError, match="expected a reader"):
            await client.subscribe("orders", "billing", ago)
        with pytest.raises(ConfigurationError, match="0 s ago"):
            ConsumerOptions(start_rollback_s=-1)


async def test_a_subscription_asks_for_its_state_to_be_replicated() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await client.subscribe("orders", "here")
        await client.subscribe("orders", "there", early(replicate_subscription_state=True))
    found = broker.topic("orders").subscriptions
    assert {name: each.is_replicated for name, each in found.items()} == {
        "here": False,
        "there": True,
    }


@pytest.mark.parametrize("batching", [None, Batching()], ids=["single", "batch"])
async def test_after_the_end_there_is_nothing_even_for_an_inclusive_seek(
    batching: Batching | None,
) -> None:
    broker = FakeBroker()
    inclusive = ConsumerOptions(start_inclusive=True)
    async with client_of(broker) as client:
        await produce(client, 3, batching)
        reader = await client.create_reader("orders", LATEST, inclusive)
        consumer = await client.subscribe("orders", "billing", early(start_inclusive=True))
        await consumer.seek(LATEST)
        assert not await reader.has_message_available()
        assert not await consumer.has_message_available()
        # Coming back is coming back to the end, and not to the message before it.
        broker.cut()
        await produce(client, 1, batching)
        assert (await reader.read(timeout_s=5.0)).data == b"0"
        assert (await consumer.receive(timeout_s=5.0)).data == b"0"
        assert not await reader.has_message_available()
        assert not await consumer.has_message_available()


@pytest.mark.parametrize("kind", SubscriptionType)
@pytest.mark.parametrize("batching", [None, Batching()], ids=["single", "batch"])
async def test_a_consumer_that_acknowledges_nothing_sees_the_end_as_well(
    kind: SubscriptionType, batching: Batching | None
) -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce(client, 3, batching)
        consumer = await client.subscribe("orders", "billing", early(kind, queue_size=1))
        for _ in range(2):
            for number in range(3):
                assert await consumer.has_message_available()
                assert (await consumer.receive(timeout_s=5.0)).data == b"%d" % number
            assert not await consumer.has_message_available()
            broker.cut()
            await anyio.sleep(1)
