"""Messages there and back, and what they carry."""

import pytest
from tests.pulsar_client.conftest import Broker

from arneb_pulsar.client import (
    Batching,
    ConsumerOptions,
    InitialPosition,
    Message,
    MessageId,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.errors import QueueFull, TimedOut, Withdrawn

SHARED = ConsumerOptions(type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST)
EXCLUSIVE = ConsumerOptions(initial_position=InitialPosition.EARLIEST)
SINGLE = ProducerOptions(batching=None)
NO_ENTRY = (-1, -1)


@pytest.mark.parametrize("options", [ProducerOptions(), SINGLE], ids=["batch", "single"])
async def test_a_message_brings_all_that_was_said_of_it(
    broker: Broker, topic: str, options: ProducerOptions
) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", SHARED)
        producer = await client.create_producer(topic, options)
        sent = await producer.send(
            b"value",
            key="k",
            ordering_key=b"o",
            properties={"a": "b", "c": ""},
            event_time_ms=12_345,
            sequence_id=7,
        )
        got = await consumer.receive(10)
        # A broker that was killed may get it twice, and one that deduplicates names no id then.
        assert got.id == sent or sent.entry == NO_ENTRY
        assert (got.data, got.value) == (b"value", b"value")
        assert (got.key, got.key_bytes, got.ordering_key) == ("k", b"k", b"o")
        assert got.properties == {"a": "b", "c": ""}
        assert (got.event_time_ms, got.sequence_id) == (12_345, 7)
        assert (got.topic, got.producer_name) == (topic, producer.name)
        assert not got.is_null
        await producer.send(None, key=b"\xff\x00")
        got = await consumer.receive(10)
        assert (got.value, got.is_null, got.key_bytes) == (None, True, b"\xff\x00")
        assert got.sequence_id == 8


@pytest.mark.in_peace("the receipt of what is there already names no place")
async def test_many_come_in_order_and_once(broker: Broker, topic: str) -> None:
    calls: list[MessageId] = []

    def stored(found: MessageId | None, error: Exception | None) -> None:
        assert error is None
        assert found is not None
        calls.append(found)

    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", EXCLUSIVE)
        options = ProducerOptions(batching=Batching(messages_max=37))
        async with await client.create_producer(topic, options) as producer:
            for number in range(2_000):
                while True:
                    try:
                        producer.send_nowait(b"%d" % number, callback=stored)
                        break
                    except QueueFull:
                        await producer.wait_for_room()
        assert len(calls) == 2_000
        assert calls == sorted(calls)
        got = [await consumer.receive(10) for _ in range(2_000)]
        assert [int(each.data) for each in got] == list(range(2_000))
        assert [each.id for each in got] == calls
        await consumer.acknowledge_stored(got[-1], cumulative=True)
        await consumer.close()
        again = await client.subscribe(topic, "s", EXCLUSIVE)
        with pytest.raises(TimedOut):
            await again.receive(0.3)


@pytest.mark.in_peace("counts what comes")
async def test_a_run_is_exactly_one_entry(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", SHARED)
        producer = await client.create_producer(topic)
        ids = await producer.send_batch([b"%d" % number for number in range(250)])
        assert len({each.entry for each in ids}) == 1
        assert [each.batch_index for each in ids] == list(range(250))
        got: list[Message[bytes]] = []
        while len(got) < 250:
            got += await consumer.receive_batch(250, timeout_s=1)
        assert [each.id for each in got] == ids


async def test_the_ids_of_others_are_read_and_written(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic)
        found = await producer.send(b"x")
        assert MessageId.deserialize(found.serialize(), topic) == found


async def test_a_cancelled_send_says_whether_it_was_sent(broker: Broker, topic: str) -> None:
    import anyio

    calls: list[Exception | None] = []

    def callback(_found: MessageId | None, error: Exception | None) -> None:
        calls.append(error)

    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", SHARED)
        producer = await client.create_producer(topic)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await producer.send(b"never", callback=callback)
        assert isinstance(calls[0], Withdrawn)
        await producer.send(b"after")
        assert (await consumer.receive(10)).data == b"after"


async def test_what_a_full_queue_refuses_was_not_sent(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", SHARED)
        options = ProducerOptions(pending_max=3, batching=Batching(delay_s=5))
        producer = await client.create_producer(topic, options)
        for number in range(3):
            producer.send_nowait(b"%d" % number)
        with pytest.raises(QueueFull):
            producer.send_nowait(b"too much")
        await producer.flush()
        assert [(await consumer.receive(10)).data for _ in range(3)] == [b"0", b"1", b"2"]
        with pytest.raises(TimedOut):
            await consumer.receive(0.2)
