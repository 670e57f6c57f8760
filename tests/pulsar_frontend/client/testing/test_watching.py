"""Topics of a pattern that a broker tells of, on a clock that jumps."""

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import client_of, early, sent_count

from arneb_pulsar.client.consumer.multi_topic import MultiTopicConsumer
from arneb_pulsar.client.testing import FakeBroker

ASKED = "getTopicsOfNamespace"


@pytest.mark.parametrize("name", ["short", "a-name-that-is-long-" * 4])
async def test_a_topic_is_consumed_as_soon_as_a_broker_tells_of_it(name: str) -> None:
    """Also where it refuses the pattern for its length."""
    broker = FakeBroker()
    options = early(partition_poll_s=3_600.0)
    async with client_of(broker) as client:
        consumer = await client.subscribe_pattern(f"public/default/{name}-.*", "s", options)
        assert isinstance(consumer, MultiTopicConsumer)
        await anyio.sleep(1)
        for number in range(3):
            producer = await client.create_producer(f"{name}-{number}")
            await producer.send(b"%d" % number)
            assert (await consumer.receive(1.0)).data == b"%d" % number
        asked = sent_count(broker, ASKED)
        for number in range(5):
            broker.create_topic(f"another-{number}")
        await anyio.sleep(60)
        assert sent_count(broker, ASKED) == asked
        assert len(consumer.topics) == 3


async def test_a_watch_starts_again_with_a_new_connection() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        options = early(partition_poll_s=3_600.0)
        consumer = await client.subscribe_pattern("public/default/few-.*", "s", options)
        assert isinstance(consumer, MultiTopicConsumer)
        await anyio.sleep(1)
        broker.cut()
        broker.create_topic("few-1")
        await anyio.sleep(5)
        broker.create_topic("few-2")
        await anyio.sleep(5)
        assert len(consumer.topics) == 2
        assert len(broker.watchers) == 1
    assert not broker.watchers


async def test_a_broker_that_watches_nothing_is_asked_now_and_then() -> None:
    broker = FakeBroker()
    broker.pattern_characters_max = 0
    async with client_of(broker) as client:
        options = early(partition_poll_s=60.0)
        consumer = await client.subscribe_pattern("public/default/few-.*", "s", options)
        assert isinstance(consumer, MultiTopicConsumer)
        broker.create_topic("few-1")
        await anyio.sleep(150)
        assert len(consumer.topics) == 1
        assert not broker.watchers
