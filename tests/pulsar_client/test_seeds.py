"""What two articles about Pulsar's client say of its mechanisms, each played at a real broker:
grouping, receipts, batches, negative acknowledgements, the ack timeout, permits and the empty
queue. What the client knows by itself counts for nothing here: it is what comes again that shows
what a broker was told.
"""

import logging
import time
from collections.abc import Sequence

import anyio
import pytest
from tests.pulsar_client.conftest import Broker, until

from arneb_pulsar.client import (
    Client,
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    Message,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.errors import TimedOut

SILENCE_S = 0.25
APACHE = ("pulsar", "cluster")


class GoneWithoutAWord(Exception):
    """Ends a client that tells its broker nothing more."""


def early(kind: SubscriptionType = SubscriptionType.SHARED, **more: object) -> ConsumerOptions:
    position = InitialPosition.EARLIEST
    return ConsumerOptions(type=kind, initial_position=position, **more)  # type: ignore[arg-type]


async def produce(url: str, topic: str, count: int, *, batched: bool = False) -> None:
    async with connect(url) as client:
        producer = await client.create_producer(topic, ProducerOptions())
        values = [b"%d" % number for number in range(count)]
        if batched:
            await producer.send_batch(values)
        else:
            for each in values:
                await producer.send(each)


async def left(
    client: Client, topic: str, kind: SubscriptionType, *, at_least: int = 0
) -> list[bytes]:
    """What comes to a consumer that is new; so many messages may take their time."""
    found = []
    consumer = await client.subscribe(topic, "s", early(kind))
    try:
        while True:
            quiet_s = SILENCE_S if found else 2 * SILENCE_S
            within_s = 10.0 if len(found) < at_least else quiet_s
            found.append((await consumer.receive(within_s)).data)
    except TimedOut:
        return found


async def acknowledged(
    url: str,
    topic: str,
    which: Sequence[int],
    count: int,
    wait_s: float,
    at_least: int = 0,
    **options: object,
) -> list[bytes]:
    """What comes again when some of ``count`` messages were acknowledged, and their client was gone
    without a word ``wait_s`` later; as :func:`left`."""
    with pytest.raises(GoneWithoutAWord):
        async with connect(url) as client:
            consumer = await client.subscribe(topic, "s", early(**options))  # type: ignore[arg-type]
            messages = [await consumer.receive(10) for _ in range(count)]
            for index in which:
                consumer.acknowledge(messages[index])
            await anyio.sleep(wait_s)
            raise GoneWithoutAWord
    async with connect(url) as client:
        return await left(client, topic, SubscriptionType.SHARED, at_least=at_least)


@pytest.mark.in_peace("an acknowledgement that nobody confirms may be lost with its connection")
async def test_grouping_tells_the_broker_within_a_tenth_of_a_second(
    broker: Broker, topic: str
) -> None:
    await produce(broker.pulsar_url, topic, 4)
    again = await acknowledged(broker.pulsar_url, topic, [0, 2], 4, SILENCE_S)
    assert sorted(again) == [b"1", b"3"]


@pytest.mark.in_peace("what waits to be told is told whoever comes back meanwhile")
async def test_grouping_tells_the_broker_nothing_before_its_time(
    broker: Broker, topic: str
) -> None:
    await produce(broker.pulsar_url, topic, 3)
    again = await acknowledged(
        broker.pulsar_url, topic, [0, 1, 2], 3, SILENCE_S, at_least=3, ack_group_s=3_600.0
    )
    assert sorted(again) == [b"0", b"1", b"2"]


@pytest.mark.in_peace("what one consumer has in hand comes to others when it loses its broker")
async def test_of_two_consumers_that_went_offline_all_comes_again_but_what_one_acknowledged(
    broker: Broker, topic: str
) -> None:
    await produce(broker.pulsar_url, topic, 6)
    with pytest.raises(GoneWithoutAWord):
        async with connect(broker.pulsar_url) as client:
            slow = await client.subscribe(topic, "s", early(queue_size=3))
            await until(lambda: slow.waiting == 3)
            quick = await client.subscribe(topic, "s", early(queue_size=3))
            assert [(await quick.receive(10)).data for _ in range(2)] == [b"3", b"4"]
            await quick.acknowledge_stored(await quick.receive(10))
            raise GoneWithoutAWord
    async with connect(broker.pulsar_url) as client:
        again = await left(client, topic, SubscriptionType.SHARED, at_least=5)
    assert sorted(again) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.in_peace("what was acknowledged is kept in memory for a while", at=APACHE)
async def test_receipts_mean_that_it_does_not_come_again(broker: Broker, topic: str) -> None:
    await produce(broker.pulsar_url, topic, 2)
    with pytest.raises(GoneWithoutAWord):
        async with connect(broker.pulsar_url) as client:
            consumer = await client.subscribe(topic, "s", early())
            await consumer.acknowledge_stored(await consumer.receive(10))
            raise GoneWithoutAWord
    async with connect(broker.pulsar_url) as client:
        assert await left(client, topic, SubscriptionType.SHARED, at_least=1) == [b"1"]


@pytest.mark.in_peace("an acknowledgement that nobody confirms may be lost with its connection")
async def test_batch_indexes_off_a_batch_is_acknowledged_with_its_last_message(
    broker: Broker, topic: str
) -> None:
    await produce(broker.pulsar_url, topic, 5, batched=True)
    all_of_it = [b"%d" % number for number in range(5)]
    url = broker.pulsar_url
    assert await acknowledged(url, topic, [0, 1, 2, 4], 5, SILENCE_S) == all_of_it
    assert await acknowledged(url, topic, [4, 0, 3, 1, 2], 5, SILENCE_S) == []


@pytest.mark.in_peace("an acknowledgement that nobody confirms may be lost with its connection")
async def test_batch_indexes_off_a_cumulative_one_inside_a_batch_means_the_entry_before(
    broker: Broker, topic: str
) -> None:
    await produce(broker.pulsar_url, topic, 1)
    await produce(broker.pulsar_url, topic, 3, batched=True)
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", early(SubscriptionType.EXCLUSIVE))
        messages = [await consumer.receive(10) for _ in range(4)]
        consumer.acknowledge_cumulative(messages[2])
        await consumer.close()
        again = await left(client, topic, SubscriptionType.EXCLUSIVE)
        assert again == [b"0", b"1", b"2"]


@pytest.mark.in_peace("an acknowledgement that nobody confirms may be lost with its connection")
async def test_batch_indexes_on_only_what_is_left_of_a_batch_comes_again(
    broker: Broker, topic: str
) -> None:
    await produce(broker.pulsar_url, topic, 6, batched=True)
    url = broker.pulsar_url
    again = await acknowledged(url, topic, [1, 4], 6, SILENCE_S, batch_index_acks=True)
    assert again == [b"0", b"2", b"3", b"5"]
    again = await acknowledged(url, topic, [0, 3], 4, SILENCE_S, batch_index_acks=True)
    assert again == [b"2", b"3"]


@pytest.mark.in_peace("what was acknowledged is kept in memory for a while", at=APACHE)
async def test_batch_indexes_on_a_cumulative_one_inside_a_batch_counts(
    broker: Broker, topic: str
) -> None:
    await produce(broker.pulsar_url, topic, 5, batched=True)
    options = early(SubscriptionType.EXCLUSIVE, batch_index_acks=True)
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options)
        messages = [await consumer.receive(10) for _ in range(5)]
        await consumer.acknowledge_stored(messages[2], cumulative=True)
        await consumer.close()
        assert await left(client, topic, SubscriptionType.EXCLUSIVE, at_least=2) == [b"3", b"4"]


@pytest.mark.in_peace("waits for what comes again for its own reason")
async def test_negative_acks_of_one_message_bring_its_batch_again(
    broker: Broker, topic: str
) -> None:
    await produce(broker.pulsar_url, topic, 3, batched=True)
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", early(negative_ack_delay_s=0.5))
        messages = [await consumer.receive(10) for _ in range(3)]
        consumer.acknowledge(messages[0])
        consumer.negative_acknowledge(messages[1])
        began = time.monotonic()
        consumer.acknowledge(messages[2])
        again: list[Message[bytes]] = [await consumer.receive(10) for _ in range(3)]
        assert time.monotonic() - began >= 0.45
        assert [each.data for each in again] == [b"0", b"1", b"2"]
        assert {each.redelivery_count for each in again} == {1}


@pytest.mark.in_peace("waits for what comes again for its own reason")
async def test_negative_acks_wait_for_a_tick_of_their_precision(broker: Broker, topic: str) -> None:
    tick_s = 2**11 / 1_000
    await produce(broker.pulsar_url, topic, 2)
    async with connect(broker.pulsar_url) as client:
        options = early(negative_ack_delay_s=0.2, negative_ack_precision_bits=11)
        consumer = await client.subscribe(topic, "s", options)
        messages = [await consumer.receive(10) for _ in range(2)]
        into_tick_s = (anyio.current_time() + 0.2) % tick_s
        await anyio.sleep(tick_s - into_tick_s + 0.05)  # both fall due early in the same tick
        due = anyio.current_time() + 0.2
        consumer.negative_acknowledge(messages[1])
        await anyio.sleep(0.1)
        consumer.negative_acknowledge(messages[0])
        again = [await consumer.receive(10) for _ in range(2)]
        assert anyio.current_time() >= (due // tick_s + 1) * tick_s - 0.05
        assert [each.data for each in again] == [b"0", b"1"], "one request, in the order of the log"
        assert {each.redelivery_count for each in again} == {1}


@pytest.mark.in_peace("waits for what comes again for its own reason")
async def test_negative_acks_beyond_their_bound_bring_messages_again_at_once_with_a_warning(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await produce(broker.pulsar_url, topic, 30)
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", early(negative_ack_delay_s=3_600.0))
        assert isinstance(consumer, Consumer)
        consumer._machine.acks._nacks._entries_max = 20
        for message in [await consumer.receive(10) for _ in range(30)]:
            consumer.negative_acknowledge(message)
        again = [await consumer.receive(10) for _ in range(10)]
        assert {each.redelivery_count for each in again} == {1}
        assert sorted(int(each.data) for each in again) == list(range(20, 30))
        with pytest.raises(TimedOut):
            await consumer.receive(SILENCE_S)
        (warned,) = [each for each in caplog.records if each.levelno == logging.WARNING]
        assert "20" in warned.getMessage()


@pytest.mark.in_peace("counts what was done")
async def test_a_stats_recorder_says_at_a_fixed_interval_what_was_done(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = ClientOptions(statistics_interval_s=0.3)
    with caplog.at_level(logging.INFO, "arneb_pulsar.client.statistics"):
        async with connect(broker.pulsar_url, options) as client:
            producer = await client.create_producer(topic)
            consumer = await client.subscribe(topic, "s", early())
            for _ in range(3):
                await producer.send(b"x")
            consumer.acknowledge(await consumer.receive(10))
            await until(lambda: len(caplog.records) >= 2)
            lines = [each.getMessage() for each in caplog.records]
            assert any(topic in each and "in the local queue" in each for each in lines)
            assert any(topic in each and " sent " in each for each in lines)
            await anyio.sleep(0.7)
            quiet = len(caplog.records)
            await anyio.sleep(0.7)
            assert len(caplog.records) == quiet, "nothing was done"


@pytest.mark.in_peace("waits for what comes again for its own reason")
async def test_ack_timeout_is_not_for_what_waits_in_the_queue(broker: Broker, topic: str) -> None:
    await produce(broker.pulsar_url, topic, 2)
    async with connect(broker.pulsar_url) as client:
        options = early(ack_timeout_s=1.0, ack_timeout_tick_s=0.1)
        consumer = await client.subscribe(topic, "s", options)
        await until(lambda: consumer.waiting == 2)
        await anyio.sleep(1.3)
        first, second = await consumer.receive(10), await consumer.receive(10)
        assert (first.redelivery_count, second.redelivery_count) == (0, 0)
        consumer.acknowledge(second)
        again = await consumer.receive(10)
        assert (again.data, again.redelivery_count) == (first.data, 1)


@pytest.mark.in_peace("what one consumer has in hand comes to others when it loses its broker")
async def test_permits_leave_to_others_what_a_short_queue_has_no_room_for(
    broker: Broker, topic: str
) -> None:
    await produce(broker.pulsar_url, topic, 10)
    async with connect(broker.pulsar_url) as client:
        short = await client.subscribe(topic, "s", early(queue_size=2))
        await until(lambda: short.waiting == 2)
        others = await left(client, topic, SubscriptionType.SHARED)
        assert len(others) == 8
        assert short.waiting == 2


@pytest.mark.in_peace("what one consumer has in hand comes to others when it loses its broker")
async def test_zero_queue_nothing_is_fetched_before_it_is_asked_for(
    broker: Broker, topic: str
) -> None:
    await produce(broker.pulsar_url, topic, 3)
    async with connect(broker.pulsar_url) as client:
        empty = await client.subscribe(topic, "s", early(queue_size=0))
        assert (await empty.receive(10)).data == b"0"
        others = await left(client, topic, SubscriptionType.SHARED)
        assert (others, empty.waiting) == ([b"1", b"2"], 0)
