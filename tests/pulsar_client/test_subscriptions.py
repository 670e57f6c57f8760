"""Subscriptions: types, acknowledgements, redelivery, seeking, readers."""

import anyio
import pytest
from tests.pulsar_client.conftest import Broker

from arneb_pulsar.client import (
    EARLIEST,
    LATEST,
    ConsumerOptions,
    DeadLetterPolicy,
    InitialPosition,
    KeyShared,
    Message,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.errors import ConfigurationError, ConsumerBusy, TimedOut
from arneb_pulsar.client.producer.producing import Producing

EARLY = InitialPosition.EARLIEST
SINGLE = ProducerOptions(batching=None)


def options(kind: SubscriptionType = SubscriptionType.SHARED, **more: object) -> ConsumerOptions:
    return ConsumerOptions(type=kind, initial_position=EARLY, **more)  # type: ignore[arg-type]


async def sent(producer: Producing[bytes], count: int) -> None:
    for number in range(count):
        await producer.send(b"%d" % number, key=f"key-{number % 7}")


async def got(consumer: Consuming[bytes], count: int) -> list[Message[bytes]]:
    return [await consumer.receive(10) for _ in range(count)]


def numbers(messages: list[Message[bytes]]) -> list[int]:
    return [int(each.data) for each in messages]


@pytest.mark.in_peace("whoever is back first has it")
async def test_an_exclusive_subscription_has_one_consumer(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        await client.subscribe(topic, "s")
        with pytest.raises(ConsumerBusy, match=topic):
            await client.subscribe(topic, "s")


@pytest.mark.in_peace("whoever is back first is the active one")
async def test_shared_consumers_share_and_failover_hands_over(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        first = await client.subscribe(topic, "s", options(queue_size=1))
        second = await client.subscribe(topic, "s", options(queue_size=1))
        producer = await client.create_producer(topic, SINGLE)
        await sent(producer, 10)
        seen = []
        for _ in range(5):
            for consumer in (first, second):
                message = await consumer.receive(10)
                consumer.acknowledge(message)
                seen += numbers([message])
        assert sorted(seen) == list(range(10))
        calls: list[tuple[str, bool]] = []

        # Among equals the hash of the topic's name decides.
        def noted(name: str, level: int) -> ConsumerOptions:
            return options(
                SubscriptionType.FAILOVER,
                name=name,
                priority_level=level,
                on_active=lambda _consumer, active: calls.append((name, active)),
            )

        one = await client.subscribe(topic, "f", noted("a", 0))
        other = await client.subscribe(topic, "f", noted("b", 1))
        assert numbers(await got(one, 10)) == list(range(10))
        await one.close()
        assert numbers(await got(other, 10)) == list(range(10))
        assert ("a", True) in calls
        assert calls[-1] == ("b", True)


@pytest.mark.in_peace("counts what comes")
async def test_keys_stay_with_their_consumer(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        low = KeyShared(sticky_ranges=[(0, 32_767)])
        high = KeyShared(sticky_ranges=[(32_768, 65_535)])
        kind = SubscriptionType.KEY_SHARED
        one = await client.subscribe(topic, "s", options(kind, key_shared=low))
        other = await client.subscribe(topic, "s", options(kind, key_shared=high))
        producer = await client.create_producer(topic, SINGLE)
        await sent(producer, 21)
        keys: list[set[str | None]] = [set(), set()]
        total = 0
        while total < 21:
            for seen, consumer in zip(keys, (one, other), strict=True):
                found = await consumer.receive_batch(21, timeout_s=0.2)
                seen |= {each.key for each in found}
                total += len(found)
        assert total == 21
        assert not keys[0] & keys[1]
        assert keys[0] | keys[1] == {f"key-{number}" for number in range(7)}


async def test_cumulative_acks_are_refused_where_messages_are_shared(
    broker: Broker, topic: str
) -> None:
    async with connect(broker.pulsar_url) as client:
        for kind in (SubscriptionType.SHARED, SubscriptionType.KEY_SHARED):
            consumer = await client.subscribe(topic, kind.name, options(kind))
            producer = await client.create_producer(topic, SINGLE)
            await producer.send(b"x", key="k")
            message = await consumer.receive(10)
            with pytest.raises(ConfigurationError, match=kind.name):
                consumer.acknowledge_cumulative(message)


@pytest.mark.in_peace("counts redeliveries")
async def test_what_is_negatively_acknowledged_comes_again(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options(negative_ack_delay_s=0.3))
        producer = await client.create_producer(topic, SINGLE)
        await sent(producer, 3)
        first = await got(consumer, 3)
        assert [each.redelivery_count for each in first] == [0, 0, 0]
        consumer.acknowledge(first[0])
        consumer.negative_acknowledge(first[2])
        consumer.acknowledge(first[1])
        again = await consumer.receive(10)
        assert (again.data, again.redelivery_count) == (b"2", 1)


@pytest.mark.in_peace("counts redeliveries")
async def test_what_is_not_acknowledged_in_time_comes_again(broker: Broker, topic: str) -> None:
    """The time begins when the application gets a message: prefetched ones have none."""
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(
            topic, "s", options(ack_timeout_s=1.0, ack_timeout_tick_s=0.2)
        )
        producer = await client.create_producer(topic, SINGLE)
        await sent(producer, 2)
        first = await consumer.receive(10)
        await anyio.sleep(1.6)
        found = [await consumer.receive(10), await consumer.receive(10)]
        counts = {each.data: each.redelivery_count for each in found}
        assert counts == {b"1": 0, first.data: 1}


@pytest.mark.in_peace("counts redeliveries")
async def test_dead_letters_stand_in_their_topic(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        dead = await client.subscribe(f"{topic}-s-DLQ", "all", options())
        consumer = await client.subscribe(
            topic,
            "s",
            options(negative_ack_delay_s=0.1, dead_letters=DeadLetterPolicy(redeliveries_max=2)),
        )
        producer = await client.create_producer(topic, SINGLE)
        sent_id = await producer.send(b"bad", key="k", properties={"a": "b"})
        for count in range(3):
            message = await consumer.receive(10)
            assert message.redelivery_count == count
            consumer.negative_acknowledge(message)
        letter = await dead.receive(10)
        assert (letter.data, letter.key) == (b"bad", "k")
        assert letter.properties["REAL_TOPIC"] == topic
        assert letter.properties["ORIGIN_MESSAGE_ID"] == str(sent_id)
        assert letter.properties["a"] == "b"
        with pytest.raises(TimedOut):
            await consumer.receive(0.5)


@pytest.mark.in_peace("counts redeliveries")
async def test_what_is_reconsumed_later_comes_later(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        dead = await client.subscribe(f"{topic}-s-DLQ", "all", options())
        consumer = await client.subscribe(
            topic, "s", options(retry=True, dead_letters=DeadLetterPolicy(redeliveries_max=2))
        )
        producer = await client.create_producer(topic, SINGLE)
        await producer.send(b"x")
        for times in range(3):
            message = await consumer.receive(20)
            assert message.properties.get("RECONSUMETIMES", "0") == str(times)
            await consumer.reconsume_later(message, 0.2)
        assert (await dead.receive(10)).data == b"x"


@pytest.mark.in_peace("acknowledgements under way are lost with their broker")
@pytest.mark.parametrize("kind", list(SubscriptionType))
async def test_a_subscription_goes_on_where_it_was(
    broker: Broker, topic: str, kind: SubscriptionType
) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options(kind))
        producer = await client.create_producer(topic, SINGLE)
        await sent(producer, 10)
        for message in await got(consumer, 4):
            consumer.acknowledge(message)
        await consumer.close()  # which tells what is acknowledged
        consumer = await client.subscribe(topic, "s", options(kind))
        assert sorted(numbers(await got(consumer, 6))) == list(range(4, 10))


@pytest.mark.parametrize("batched", [False, True], ids=["single", "batch"])
@pytest.mark.in_peace("what was received before a seek comes again rightly")
async def test_seeking(broker: Broker, topic: str, batched: bool) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options(SubscriptionType.EXCLUSIVE))
        producer = await client.create_producer(topic, SINGLE)
        if batched:
            ids = await producer.send_batch([b"%d" % number for number in range(10)])
        else:
            ids = [await producer.send(b"%d" % number) for number in range(10)]
        assert numbers(await got(consumer, 10)) == list(range(10))
        await consumer.seek(ids[5])
        assert numbers(await got(consumer, 4)) == [6, 7, 8, 9]
        await consumer.seek(EARLIEST)
        assert numbers(await got(consumer, 10)) == list(range(10))
        await consumer.seek(LATEST)
        await producer.send(b"10")
        assert numbers(await got(consumer, 1)) == [10]
        await consumer.seek(lambda _topic: ids[8])
        assert numbers(await got(consumer, 2)) == [9, 10]


@pytest.mark.in_peace("unloads by itself")
async def test_a_seek_that_meets_an_unload_is_done(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        consumer = await client.subscribe(topic, "s", options(SubscriptionType.EXCLUSIVE))
        producer = await client.create_producer(topic, SINGLE)
        ids = [await producer.send(b"%d" % number) for number in range(6)]
        for number in (3, 1):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.seek, ids[number])
                tasks.start_soon(admin.unload, topic)
            assert numbers(await got(consumer, 1)) == [number + 1]


@pytest.mark.in_peace("what was received before a seek comes again rightly")
async def test_seeking_to_a_time(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options(SubscriptionType.EXCLUSIVE))
        producer = await client.create_producer(topic, SINGLE)
        await sent(producer, 3)
        await anyio.sleep(0.05)
        first = await producer.send(b"3")
        messages = await got(consumer, 4)
        assert messages[3].id == first
        await consumer.seek(messages[3].publish_time_ms)
        assert numbers(await got(consumer, 1)) == [3]


@pytest.mark.in_peace("what was received before a seek comes again rightly")
async def test_a_reader_begins_where_it_should(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic, SINGLE)
        ids = [await producer.send(b"%d" % number) for number in range(6)]
        async with await client.create_reader(topic, EARLIEST) as reader:
            found = []
            while await reader.has_message_available():
                found.append(await reader.read(10))
            assert numbers(found) == list(range(6))
            await reader.seek(ids[3])
            assert (await reader.read(10)).data == b"4"
        async with await client.create_reader(topic, ids[3]) as reader:
            assert (await reader.read(10)).data == b"4"
        inclusive = ConsumerOptions(start_inclusive=True)
        async with await client.create_reader(topic, ids[3], inclusive) as reader:
            assert (await reader.read(10)).data == b"3"
        async with await client.create_reader(topic, LATEST) as reader:
            assert not await reader.has_message_available()
            await producer.send(b"new")
            assert await reader.has_message_available()
            assert (await reader.read(10)).data == b"new"


@pytest.mark.in_peace("acknowledgements under way are lost with their broker")
async def test_a_queue_of_nothing_fetches_one_a_receive(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        empty = await client.subscribe(topic, "s", options(queue_size=0))
        producer = await client.create_producer(topic, SINGLE)
        await sent(producer, 4)
        assert (await empty.receive(10)).data == b"0"
        other = await client.subscribe(topic, "s", options())
        rest = numbers(await got(other, 3))
        assert rest == [1, 2, 3]


@pytest.mark.in_peace("what was fetched before it was paused is lost on the way")
async def test_a_paused_consumer_fetches_nothing(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options(queue_size=2))
        producer = await client.create_producer(topic, SINGLE)
        consumer.pause()
        await sent(producer, 10)
        before = await got(consumer, 2)
        with pytest.raises(TimedOut):
            await consumer.receive(0.3)
        consumer.resume()
        assert numbers(before + await got(consumer, 8)) == list(range(10))


@pytest.mark.in_peace("a broker that let go of a topic knows none of its consumers")
async def test_unsubscribing_removes_the_subscription(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options())
        producer = await client.create_producer(topic, SINGLE)
        await sent(producer, 2)
        await consumer.unsubscribe()
        fresh = await client.subscribe(topic, "s", options(SubscriptionType.EXCLUSIVE))
        assert numbers(await got(fresh, 2)) == [0, 1]
