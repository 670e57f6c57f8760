"""The wheel's asyncio clients: the same operations without threads that wait."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pulsar
import pulsar.asyncio
import pytest
from conformance.pulsar.admin import Admin, local
from conformance.pulsar.conftest import Named
from conformance.pulsar.helpers import SILENCE_MS, WITHIN_MS, numbers
from pulsar.schema import StringSchema

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared

Scenario = Callable[[pulsar.asyncio.Client], Awaitable[None]]


@pytest.fixture
def play(pulsar_url: str) -> Callable[[Scenario], None]:
    """Runs a scenario in an event loop of its own."""

    @asynccontextmanager
    async def connected() -> AsyncIterator[pulsar.asyncio.Client]:
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.asyncio.Client(pulsar_url, operation_timeout_seconds=30, logger=quiet)
        try:
            yield client
        finally:
            await client.close()

    async def run(scenario: Scenario) -> None:
        async with connected() as client:
            await scenario(client)

    return lambda scenario: asyncio.run(run(scenario))


async def receive(consumer: pulsar.asyncio.Consumer) -> pulsar.Message:
    return await asyncio.wait_for(consumer.receive(), WITHIN_MS / 1000)


async def take(consumer: pulsar.asyncio.Consumer, count: int) -> list[pulsar.Message]:
    return [await receive(consumer) for _ in range(count)]


async def send(producer: pulsar.asyncio.Producer, bodies: list[bytes]) -> list[pulsar.MessageId]:
    """Send all at once; the result is the ids in the order of sending."""
    return list(await asyncio.gather(*(producer.send(each) for each in bodies)))


def payloads(messages: list[pulsar.Message]) -> list[bytes]:
    return [each.data() for each in messages]


@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_messages_go_there_and_back(
    play: Callable[[Scenario], None], topic: str, batching: bool
) -> None:
    async def scenario(client: pulsar.asyncio.Client) -> None:
        consumer = await client.subscribe(topic, "s", consumer_name="me")
        producer = await client.create_producer(
            topic, producer_name="p", batching_enabled=batching, properties={"a": "1"}
        )
        assert (producer.topic(), producer.producer_name()) == (topic, "p")
        assert (consumer.topic(), consumer.subscription_name()) == (topic, "s")
        assert consumer.consumer_name() == "me"
        assert producer.is_connected()
        ids = await send(producer, numbers(100))
        await producer.flush()
        found = await take(consumer, 100)
        assert payloads(found) == numbers(100)
        assert [pulsar.MessageId.wrap(each.message_id()) for each in found] == ids
        assert producer.last_sequence_id() == 99
        last = await consumer.get_last_message_id()
        assert (last.ledger_id(), last.entry_id()) == (ids[-1].ledger_id(), ids[-1].entry_id())
        for message in found:
            await consumer.acknowledge(message)
        await consumer.close()
        await producer.close()
        assert not producer.is_connected()

    play(scenario)


def test_a_message_keeps_its_fields(play: Callable[[Scenario], None], topic: str) -> None:
    async def scenario(client: pulsar.asyncio.Client) -> None:
        consumer = await client.subscribe(topic, "s", schema=StringSchema())
        producer = await client.create_producer(topic, schema=StringSchema())
        await producer.send(
            "hello",
            properties={"a": "1"},
            partition_key="key",
            ordering_key="order",
            sequence_id=7,
            event_timestamp=1_700_000_000_123,
        )
        message = await receive(consumer)
        assert (message.value(), message.properties()) == ("hello", {"a": "1"})
        assert (message.partition_key(), message.ordering_key()) == ("key", "order")
        assert message.event_timestamp() == 1_700_000_000_123

    play(scenario)


def test_what_was_acknowledged_does_not_come_again(
    play: Callable[[Scenario], None], topic: str
) -> None:
    async def scenario(client: pulsar.asyncio.Client) -> None:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, batching_enabled=False)
        await send(producer, numbers(10))
        found = await take(consumer, 10)
        await consumer.acknowledge_cumulative(found[4])
        await consumer.acknowledge(found[7].message_id())
        await consumer.close()
        consumer = await client.subscribe(topic, "s")
        left = [body for body in numbers(10)[5:] if body != b"7"]
        assert payloads(await take(consumer, 4)) == left
        await consumer.unsubscribe()
        consumer = await client.subscribe(topic, "s")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(consumer.receive(), SILENCE_MS / 1000)
        # If it were garbage-collected while receiving, the wheel's consumer would crash the
        # process.
        await consumer.close()

    play(scenario)


def test_what_was_sent_back_comes_again(play: Callable[[Scenario], None], topic: str) -> None:
    async def scenario(client: pulsar.asyncio.Client) -> None:
        consumer = await client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=100)
        producer = await client.create_producer(topic)
        await send(producer, numbers(1))
        for count in range(3):
            message = await receive(consumer)
            assert message.redelivery_count() == count
            await consumer.negative_acknowledge(message)
        message = await receive(consumer)
        consumer.redeliver_unacknowledged_messages()
        assert (await receive(consumer)).message_id() == message.message_id()

    play(scenario)


def test_seeking(play: Callable[[Scenario], None], topic: str) -> None:
    async def scenario(client: pulsar.asyncio.Client) -> None:
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic, batching_enabled=False)
        ids = await send(producer, numbers(5))
        await take(consumer, 5)
        await asyncio.sleep(0.05)
        between = int(time.time() * 1000)
        await asyncio.sleep(0.05)
        await send(producer, numbers(5, first=5))
        await take(consumer, 5)
        await consumer.seek(ids[2])
        assert payloads(await take(consumer, 7)) == numbers(7, first=3)
        await consumer.seek(between)
        assert payloads(await take(consumer, 5)) == numbers(5, first=5)

    play(scenario)


def test_reading(play: Callable[[Scenario], None], topic: str) -> None:
    async def scenario(client: pulsar.asyncio.Client) -> None:
        producer = await client.create_producer(topic, batching_enabled=False)
        ids = await send(producer, numbers(10))
        reader = await client.create_reader(topic, ids[3], reader_name="me")
        assert reader.topic() == topic
        assert reader.is_connected()
        found = []
        while await reader.has_message_available():
            found.append((await reader.read_next()).data())
        assert found == numbers(6, first=4)
        await reader.seek(pulsar.MessageId(-1, ids[7].ledger_id(), ids[7].entry_id(), -1))
        assert (await reader.read_next()).data() == b"8"
        await reader.close()
        at = await client.create_reader(topic, ids[3], start_message_id_inclusive=True)
        assert (await at.read_next()).data() == b"3"

    play(scenario)


def test_several_topics_patterns_and_partitions(
    play: Callable[[Scenario], None], admin: Admin, name: Named
) -> None:
    prefix = f"persistent://public/default/{name('several')}"
    topics = [f"{prefix}-{suffix}" for suffix in "ab"]
    parted = f"{prefix}-c"
    admin.put(f"{local(parted)}/partitions", 2)

    async def scenario(client: pulsar.asyncio.Client) -> None:
        partitions = [f"{parted}-partition-{index}" for index in range(2)]
        assert await client.get_topic_partitions(parted) == partitions
        assert await client.get_topic_partitions(topics[0]) == topics[:1]
        one = await client.subscribe([*topics, parted], "one", initial_position=EARLIEST)
        producers = [
            await client.create_producer(each, batching_enabled=False) for each in [*topics, parted]
        ]
        for producer in producers:
            await send(producer, numbers(4))
        pattern = await client.subscribe(
            f"{prefix}-.*", "two", initial_position=EARLIEST, is_pattern_topic=True
        )
        for consumer in (one, pattern):
            found = await take(consumer, 12)
            assert {each.topic_name() for each in found} == {*topics, *partitions}
            assert sorted(payloads(found)) == sorted(3 * numbers(4))

    play(scenario)


def test_refusals_say_why(play: Callable[[Scenario], None], topic: str) -> None:
    async def refused(asked: Awaitable[object]) -> pulsar.Result:
        with pytest.raises(pulsar.asyncio.PulsarException) as caught:
            await asked
        found: pulsar.Result = caught.value.error()
        return found

    async def scenario(client: pulsar.asyncio.Client) -> None:
        consumer = await client.subscribe(topic, "s")
        busy = pulsar.Result.ConsumerBusy
        assert await refused(client.subscribe(topic, "s")) == busy
        producer = await client.create_producer(topic, producer_name="p")
        busy = pulsar.Result.ProducerBusy
        assert await refused(client.create_producer(topic, producer_name="p")) == busy
        nowhere = "persistent://public/no-such-namespace/t"
        assert await refused(client.create_producer(nowhere)) == pulsar.Result.TopicNotFound
        assert await refused(producer.send(bytes(6 << 20))) == pulsar.Result.MessageTooBig
        await producer.close()
        assert await refused(producer.send(b"x")) == pulsar.Result.AlreadyClosed
        await consumer.close()
        assert await refused(consumer.receive()) == pulsar.Result.AlreadyClosed

    play(scenario)


def test_a_hundred_things_at_once(play: Callable[[Scenario], None], name: Named) -> None:
    prefix = name("many")

    async def one(client: pulsar.asyncio.Client, number: int) -> None:
        topic = f"{prefix}-{number}"
        consumer = await client.subscribe(topic, "s")
        producer = await client.create_producer(topic)
        await send(producer, numbers(10))
        assert payloads(await take(consumer, 10)) == numbers(10)
        await asyncio.gather(producer.close(), consumer.close())

    async def scenario(client: pulsar.asyncio.Client) -> None:
        await asyncio.gather(*(one(client, number) for number in range(50)))

    play(scenario)
