"""Consumers: queues, listeners, patterns that are watched, who gets what of a subscription."""

from collections.abc import Sequence

import anyio
import pytest
from tests.pulsar_client.conftest import Broker, until

from arneb_pulsar.client import (
    EARLIEST,
    Batching,
    ConsumerOptions,
    InitialPosition,
    KeyShared,
    Message,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.consumer.multi_topic import MultiTopicConsumer
from arneb_pulsar.client.errors import ConfigurationError, ServerRefused, TimedOut
from arneb_pulsar.client.trackers.redelivery import RedeliveryBackoff
from arneb_pulsar.names import parse_topic

pytestmark = pytest.mark.in_peace("counts what waits, and who has it")

SINGLE = ProducerOptions(batching=None)
SHARED, FAILOVER = SubscriptionType.SHARED, SubscriptionType.FAILOVER
KEY_SHARED = SubscriptionType.KEY_SHARED


def options(kind: SubscriptionType = SHARED, **more: object) -> ConsumerOptions:
    return ConsumerOptions(type=kind, initial_position=InitialPosition.EARLIEST, **more)  # type: ignore[arg-type]


def numbers(messages: Sequence[Message[bytes]]) -> list[int]:
    return [int(each.data) for each in messages]


async def got(consumer: Consuming[bytes], count: int) -> list[Message[bytes]]:
    return [await consumer.receive(10) for _ in range(count)]


async def test_an_automatic_queue_grows_with_the_application(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(
            topic, "s", options(queue_size=100, auto_scaled_queue=True)
        )
        producer = await client.create_producer(topic, SINGLE)
        for number in range(400):
            producer.send_nowait(b"%d" % number)
        await producer.flush()
        await until(lambda: consumer.waiting > 0)
        await anyio.sleep(0.2)
        assert consumer.waiting == 1
        most, found = 0, []
        for _ in range(400):
            found += await got(consumer, 1)
            most = max(most, consumer.waiting)
        assert numbers(found) == list(range(400))
        assert 1 < most <= 100


async def test_a_batch_is_received_by_count_by_bytes_or_by_time(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options())
        producer = await client.create_producer(topic, SINGLE)
        for number in range(10):
            await producer.send(b"%04d" % number)
        await until(lambda: consumer.waiting == 10)
        by_count = await consumer.receive_batch(4, timeout_s=10)
        by_bytes = await consumer.receive_batch(100, bytes_max=12, timeout_s=0.1)
        by_time = await consumer.receive_batch(100, timeout_s=0.1)
        assert [len(by_count), len(by_bytes), len(by_time)] == [4, 3, 3]
        assert numbers([*by_count, *by_bytes, *by_time]) == list(range(10))
        assert await consumer.receive_batch(100, timeout_s=0.05) == []


async def test_batch_indexes_off_a_batch_comes_again_whole(broker: Broker, topic: str) -> None:
    """The default of clients and brokers: an entry is done with its last message."""
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic)
        await producer.send_batch([b"0", b"1", b"2"])
        await producer.send_batch([b"3", b"4"])
        consumer = await client.subscribe(topic, "s", options())
        messages = await got(consumer, 5)
        for message in messages[:2] + messages[3:]:
            await consumer.acknowledge_stored(message) if message is messages[
                4
            ] else consumer.acknowledge(message)
        await consumer.close()
        consumer = await client.subscribe(topic, "s", options())
        assert numbers(await got(consumer, 3)) == [0, 1, 2]
        with pytest.raises(TimedOut):
            await consumer.receive(0.2)
        exclusive = await client.subscribe(topic, "e", options(SubscriptionType.EXCLUSIVE))
        inside = (await got(exclusive, 5))[3]
        await exclusive.acknowledge_stored(inside, cumulative=True)  # means the entry before
        await exclusive.close()
        exclusive = await client.subscribe(topic, "e", options(SubscriptionType.EXCLUSIVE))
        assert numbers(await got(exclusive, 2)) == [3, 4]


async def test_a_listener_is_given_each_message(broker: Broker, topic: str) -> None:
    seen: list[int] = []

    async def listener(consumer: Consuming[bytes], message: Message[bytes]) -> None:
        seen.append(int(message.data))
        if len(seen) == 2:
            raise LookupError("the application's own")
        await consumer.acknowledge_stored(message)

    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.listen, listener)
            producer = await client.create_producer(topic, SINGLE)
            for number in range(5):
                await producer.send(b"%d" % number)
            await until(lambda: len(seen) == 5)
            await consumer.close()
        assert seen == list(range(5))
        again = await client.subscribe(topic, "s", options())
        assert numbers(await got(again, 1)) == [1]


async def test_a_pattern_is_watched_by_the_broker(broker: Broker, topic: str) -> None:
    """Nobody asks for the list again within the hour: the broker tells of what comes and goes."""
    local = parse_topic(topic).local
    watching = options(partition_poll_s=3_600.0)
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        consumer = await client.subscribe_pattern(f"public/default/{local}-.*", "s", watching)
        assert isinstance(consumer, MultiTopicConsumer)
        for name in ("one", "two"):
            producer = await client.create_producer(f"{topic}-{name}")
            await producer.send(name.encode())
            assert (await consumer.receive(20)).data == name.encode()
            await producer.close()
        await admin.delete_topic(f"{topic}-one", force=True)
        await until(lambda: list(consumer.topics) == [f"{topic}-two"])


async def test_properties_of_a_subscription_stand_in_its_statistics(
    broker: Broker, topic: str
) -> None:
    given = {"team": "billing", "a": "b"}
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        await client.subscribe(
            topic, "s", options(subscription_properties=given, properties={"host": "h"}, name="n")
        )
        found = (await admin.statistics(topic)).all["subscriptions"]["s"]
        assert found["subscriptionProperties"] == given
        (consumer,) = found["consumers"]
        assert (consumer["consumerName"], consumer["metadata"]) == ("n", {"host": "h"})


async def test_consumers_with_priority_are_served_first(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        second = await client.subscribe(topic, "s", options(priority_level=1, queue_size=100))
        first = await client.subscribe(topic, "s", options(priority_level=0, queue_size=4))
        producer = await client.create_producer(topic, SINGLE)
        for number in range(10):
            await producer.send(b"%d" % number)
        await until(lambda: first.waiting + second.waiting == 10)
        assert (first.waiting, second.waiting) == (4, 6)  # when its queue was full
        active: list[str] = []

        def noted(name: str, level: int) -> ConsumerOptions:
            return options(
                FAILOVER,
                name=name,
                priority_level=level,
                on_active=lambda _consumer, is_active: is_active and active.append(name),
            )

        await client.subscribe(topic, "f", noted("a", 1))
        await client.subscribe(topic, "f", noted("b", 0))
        await until(lambda: bool(active) and active[-1] == "b")


async def test_sticky_ranges_may_not_overlap(broker: Broker, topic: str) -> None:
    def sticky(*ranges: tuple[int, int]) -> ConsumerOptions:
        return options(KEY_SHARED, key_shared=KeyShared(sticky_ranges=ranges))

    async with connect(broker.pulsar_url) as client:
        await client.subscribe(topic, "s", sticky((0, 1_000), (2_000, 3_000)))
        with pytest.raises(ServerRefused, match="(?i)range|overlap|conflict"):
            await client.subscribe(topic, "s", sticky((3_000, 65_535)))
        await client.subscribe(topic, "s", sticky((1_001, 1_999), (3_001, 65_535)))
    with pytest.raises(ConfigurationError, match="got 5 to 4"):
        KeyShared(sticky_ranges=[(5, 4)])


@pytest.mark.parametrize("out_of_order", [False, True])
async def test_keys_that_move_wait_unless_order_does_not_matter(
    broker: Broker, topic: str, out_of_order: bool
) -> None:
    """A hash that moves to a consumer which joined is drained at the one before, unless both said
    ``allow_out_of_order``."""
    wanted = options(KEY_SHARED, key_shared=KeyShared(allow_out_of_order=out_of_order))
    async with connect(broker.pulsar_url) as client:
        first = await client.subscribe(topic, "s", wanted)
        producer = await client.create_producer(topic, SINGLE)
        keys = [f"key-{number}" for number in range(30)]
        for key in keys:
            await producer.send(b"0", key=key)
        held = await got(first, 30)
        second = await client.subscribe(topic, "s", wanted)
        for key in keys:
            await producer.send(b"1", key=key)
        if out_of_order:
            await until(lambda: first.waiting + second.waiting == 30)
            assert second.waiting > 0
            return
        await anyio.sleep(0.3)
        assert second.waiting == 0
        for message in held:
            first.acknowledge(message)
        await until(lambda: first.waiting + second.waiting == 30)
        assert second.waiting > 0


async def test_redelivery_backs_off_by_the_count(broker: Broker, topic: str) -> None:
    backoff = RedeliveryBackoff(0.1, 10.0, 4.0)
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options(negative_ack_backoff=backoff))
        producer = await client.create_producer(topic, SINGLE)
        await producer.send(b"x")
        took = []
        for count in range(3):
            message = await consumer.receive(10)
            assert message.redelivery_count == count
            began = anyio.current_time()
            consumer.negative_acknowledge(message)
            if count < 2:
                await until(lambda: consumer.waiting > 0)
                took.append(anyio.current_time() - began)
        assert took[0] >= 0.1
        assert took[1] >= 0.4


async def test_the_end_of_a_topic_is_reported(broker: Broker, topic: str) -> None:
    ended: list[object] = []
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        producer = await client.create_producer(topic, SINGLE)
        consumer = await client.subscribe(topic, "s", options(on_end_of_topic=ended.append))
        assert isinstance(consumer, Consumer)
        await producer.send(b"last")
        await admin.terminate(topic)
        assert not consumer.has_reached_end
        await consumer.acknowledge_stored(await consumer.receive(10))
        await until(lambda: consumer.has_reached_end)
        assert ended == [consumer]


async def test_a_reader_reads_what_is_here_without_waiting(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic)
        await producer.send_batch([b"0", b"1", b"2"])
        async with await client.create_reader(topic, EARLIEST) as reader:
            await until(lambda: reader.waiting == 3)
            found = [reader.read_nowait() for _ in range(4)]
            assert numbers([each for each in found if each is not None]) == [0, 1, 2]
            assert found[3] is None
            assert not await reader.has_message_available()
            assert reader.statistics().messages_received == 3


async def test_the_last_messages_of_all_partitions_are_known(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        await admin.create_topic(topic, 2)
        producer = await client.create_producer(topic, ProducerOptions(batching=Batching()))
        consumer = await client.subscribe(topic, "s", options())
        assert isinstance(consumer, MultiTopicConsumer)
        sent = [await producer.send(b"x", key=key) for key in ("a", "b", "c", "d")]
        last = await consumer.last_message_ids()
        for name, found in last.items():
            of_it = [each for each in sent if each.topic == name]
            assert found.entry == (max(of_it).entry if of_it else (found.ledger_id, -1))
        assert set(last) == {f"{topic}-partition-{index}" for index in range(2)}
