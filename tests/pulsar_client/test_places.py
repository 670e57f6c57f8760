"""Where consumers, readers and producers begin, and how far a table view is."""

import anyio
import pytest
from tests.pulsar_client.conftest import Broker, until

from arneb_pulsar.client import (
    EARLIEST,
    LATEST,
    ConsumerOptions,
    InitialPosition,
    MessageId,
    ProducerOptions,
    connect,
)

EARLY = InitialPosition.EARLIEST


@pytest.mark.in_peace("what was received before a seek comes again rightly")
async def test_of_several_seeks_at_once_the_last_counts(broker: Broker, topic: str) -> None:
    options = ConsumerOptions(initial_position=EARLY, replicate_subscription_state=True)
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic, ProducerOptions(batching=None))
        ids = [await producer.send(b"%d" % number) for number in range(6)]
        consumer = await client.subscribe(topic, "s", options)
        for _ in ids:
            await consumer.receive(20)
        async with anyio.create_task_group() as tasks:
            for number in (4, 0, 2):
                tasks.start_soon(consumer.seek, ids[number])
                await anyio.lowlevel.checkpoint()
        assert [(await consumer.receive(20)).data for _ in range(3)] == [b"3", b"4", b"5"]


@pytest.mark.parametrize("start", [EARLIEST, LATEST], ids=["earliest", "latest"])
@pytest.mark.in_peace("times of day are counted")
async def test_a_reader_begins_some_time_ago(broker: Broker, topic: str, start: MessageId) -> None:
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic)
        await producer.send(b"0")
        await anyio.sleep(2.1)
        await producer.send(b"1")
        for ago_s, first in ((1, b"1"), (1_000, b"0")):
            options = ConsumerOptions(start_rollback_s=ago_s)
            async with await client.create_reader(topic, start, options) as reader:
                assert (await reader.read(20)).data == first


async def test_a_producer_begins_with_the_number_it_is_given(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", ConsumerOptions(initial_position=EARLY))
        options = ProducerOptions(initial_sequence_id=7)
        producer = await client.create_producer(topic, options)
        for _ in range(2):
            await producer.send(b"x")
        assert [(await consumer.receive(20)).sequence_id for _ in range(2)] == [7, 8]
        assert producer.last_sequence_id == 8


async def test_a_table_view_says_how_far_it_is(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic)
        await producer.send(b"1", key="a")
        last = await producer.send(b"2", key="b")
        view = await client.create_table_view(topic)
        assert dict(view) == {"a": b"1", "b": b"2"}
        assert view.positions == {topic: last}
        assert view.position_of("b") == last
        without_key = await producer.send(b"3")
        await until(lambda: view.positions == {topic: without_key})
        assert dict(view) == {"a": b"1", "b": b"2"}
