"""Producers: access modes, batches, delays, numbers and names."""

import time

import anyio
import pytest
from tests.pulsar_client.conftest import Broker, until

from arneb_pulsar.client import (
    AccessMode,
    Batching,
    ConsumerOptions,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.errors import ProducerBusy, ProducerFenced
from arneb_pulsar.client.producer.producer import Producer
from arneb_pulsar.client.producer.producing import Producing

pytestmark = pytest.mark.in_peace("counts what was sent, and what waits")

EARLY = ConsumerOptions(type=SubscriptionType.SHARED, initial_position=InitialPosition.EARLIEST)
EXCLUSIVE = ProducerOptions(access=AccessMode.EXCLUSIVE)
WAITING = ProducerOptions(access=AccessMode.WAIT_FOR_EXCLUSIVE)
FENCING = ProducerOptions(access=AccessMode.EXCLUSIVE_WITH_FENCING)


def epoch_of(producer: Producing[bytes]) -> int:
    assert isinstance(producer, Producer)
    assert producer.topic_epoch is not None
    return producer.topic_epoch


async def test_an_exclusive_producer_has_the_topic_to_itself(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        first = await client.create_producer(topic, EXCLUSIVE)
        with pytest.raises(ProducerBusy, match=topic):
            await client.create_producer(topic)
        with pytest.raises(ProducerFenced, match=topic):
            await client.create_producer(topic, EXCLUSIVE)
        await first.send(b"x")
        await first.close()
        second = await client.create_producer(topic, EXCLUSIVE)
        assert epoch_of(second) == epoch_of(first) + 1
        await second.close()
        shared = await client.create_producer(topic)
        with pytest.raises(ProducerFenced):
            await client.create_producer(topic, EXCLUSIVE)
        await shared.send(b"y")


async def test_a_fencing_producer_shuts_the_others_out_for_good(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", EARLY)
        first = await client.create_producer(topic, FENCING)
        await first.send(b"first")
        second = await client.create_producer(topic, FENCING)
        assert epoch_of(second) == epoch_of(first) + 1
        for _ in range(2):
            with pytest.raises(ProducerFenced):
                await first.send(b"never")
        assert first.is_closed
        await second.send(b"second")
        found = [(await consumer.receive(10)).data for _ in range(2)]
        assert found == [b"first", b"second"]
        # The others of its client were on other connections, and go on.
        assert consumer.is_connected


async def test_a_waiting_producer_gets_the_topic_when_the_others_are_gone(
    broker: Broker, topic: str
) -> None:
    made: list[Producing[bytes]] = []
    async with connect(broker.pulsar_url) as client:
        holder = await client.create_producer(topic, EXCLUSIVE)

        async def wait() -> None:
            made.append(await client.create_producer(topic, WAITING))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.sleep(0.2)
            assert not made
            await holder.close()
        assert epoch_of(made[0]) == epoch_of(holder) + 1
        await made[0].send(b"x")


async def test_an_exclusive_producer_comes_back_with_its_epoch(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        producer = await client.create_producer(topic, EXCLUSIVE)
        before = epoch_of(producer)
        await admin.unload(topic)
        await producer.send(b"x")
        assert epoch_of(producer) == before


async def test_by_key_each_key_has_an_entry_and_the_keyless_one_of_their_own(
    broker: Broker, topic: str
) -> None:
    async with connect(broker.pulsar_url) as client:
        kind = SubscriptionType.KEY_SHARED
        consumer = await client.subscribe(
            topic, "s", ConsumerOptions(type=kind, initial_position=InitialPosition.EARLIEST)
        )
        options = ProducerOptions(batching=Batching(by_key=True, delay_s=3_600))
        producer = await client.create_producer(topic, options)
        for number in range(12):
            key = (None, "a", "b")[number % 3]
            producer.send_nowait(b"%d" % number, key=key)
        await producer.flush()
        got = [await consumer.receive(10) for _ in range(12)]
        entries = {each.id.entry: each.key for each in got}
        assert sorted(map(str, entries.values())) == ["None", "a", "b"]
        assert all(each.id.batch_size == 4 for each in got)
        for key in (None, "a", "b"):
            of_key = [int(each.data) for each in got if each.key == key]
            assert of_key == sorted(of_key)


async def test_a_message_may_be_due_later(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", EARLY)
        producer = await client.create_producer(topic)
        due_ms = int(time.time() * 1000) + 600
        await producer.send(b"after", deliver_after_s=0.6)
        await producer.send(b"at", deliver_at_ms=due_ms)
        await producer.send(b"now")
        assert (await consumer.receive(10)).data == b"now"
        assert time.time() * 1000 < due_ms
        later = {(await consumer.receive(10)).data for _ in range(2)}
        assert later == {b"after", b"at"}
        assert time.time() * 1000 >= due_ms


async def test_a_named_producer_continues_after_what_is_stored(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client, administer(broker.http_url) as admin:
        options = ProducerOptions(name="writer", send_timeout_s=0, batching=None)
        first = await client.create_producer(topic, options)
        with pytest.raises(ProducerBusy, match="writer"):
            await client.create_producer(topic, options)
        await first.close()
        name = topic.partition("://")[2]
        await admin.set_policy("public/default", "deduplication", True)
        try:
            await admin.unload(topic)
            first = await client.create_producer(topic, options)
            for number in (3, 4, 7):
                await first.send(b"%d" % number, sequence_id=number)
            await first.close()
            second = await client.create_producer(topic, options)
            assert isinstance(second, Producer)
            assert (second.name, second.last_sequence_id) == ("writer", 7)
            again = await second.send(b"again", sequence_id=4)
            assert again.entry == (-1, -1)  # it is stored already
            await second.send(b"8")
            assert second.last_sequence_id == 8
            consumer = await client.subscribe(topic, "s", EARLY)
            got = [(await consumer.receive(10)) for _ in range(4)]
            assert [each.sequence_id for each in got] == [3, 4, 7, 8], name
        finally:
            await admin.set_policy("public/default", "deduplication", False)


async def test_statistics_count_what_was_sent(broker: Broker, topic: str) -> None:
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic)
        for _ in range(10):
            await producer.send(bytes(100))
        found = producer.statistics()
        assert (found.messages_sent, found.messages_stored, found.bytes_sent) == (10, 10, 1_000)
        assert (found.messages_failed, found.messages_pending, found.entries_resent) == (0, 0, 0)
        assert 0 < found.latency_s_p50 <= found.latency_s_p95 <= found.latency_s_p999
        assert found.messages_per_s > 0
        assert found.bytes_per_s > found.messages_per_s
        await until(lambda: producer.is_connected)
