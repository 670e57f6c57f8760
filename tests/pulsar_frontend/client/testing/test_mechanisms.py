"""Each mechanism of the client once, from the application's call to what goes over the wire.

On a broker in memory and a clock that jumps, so that seconds and commands can be counted exactly.
"""

import logging

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import billing, client_of, early, produce, sent_count

from arneb_pulsar.client import Batching, ProducerOptions, SubscriptionType
from arneb_pulsar.client.errors import ConfigurationError
from arneb_pulsar.client.testing import FakeBroker

SHARED = SubscriptionType.SHARED
REDELIVER = "redeliverUnacknowledgedMessages"


async def test_grouping_one_command_acknowledges_what_came_within_a_tenth_of_a_second() -> None:
    async with billing(500) as (broker, consumer):
        for _ in range(500):
            consumer.acknowledge(await consumer.receive())
        assert sent_count(broker, "ack") == 0
        await anyio.sleep(0.11)
        assert sent_count(broker, "ack") == 1
        assert broker.backlog("orders", "billing") == []


async def test_grouping_a_thousand_acknowledgements_do_not_wait() -> None:
    async with billing(1_000) as (broker, consumer):
        before = anyio.current_time()
        for _ in range(1_000):
            consumer.acknowledge(await consumer.receive())
        await anyio.sleep(0.001)
        assert anyio.current_time() < before + 0.1
        assert (sent_count(broker, "ack"), broker.backlog("orders", "billing")) == (1, [])


async def test_grouping_with_no_time_each_acknowledgement_is_a_command() -> None:
    async with billing(5, early(ack_group_s=0.0)) as (broker, consumer):
        for _ in range(5):
            consumer.acknowledge(await consumer.receive())
        await anyio.sleep(0.001)
        assert sent_count(broker, "ack") == 5


@pytest.mark.parametrize("later", [{"ack_timeout_s": 30.0}, {"negative_ack_delay_s": 30.0}])
async def test_grouping_takes_no_longer_where_something_else_is_due_later(
    later: dict[str, float],
) -> None:
    async with billing(3, early(**later)) as (broker, consumer):  # type: ignore[arg-type]
        messages = [await consumer.receive() for _ in range(3)]
        consumer.negative_acknowledge(messages[0])
        await anyio.sleep(1)
        consumer.acknowledge(messages[1])
        await anyio.sleep(0.11)
        assert sent_count(broker, "ack") == 1
        before = anyio.current_time()
        await consumer.acknowledge_stored(messages[2])
        assert anyio.current_time() < before + 0.11


async def test_grouping_acknowledgements_leave_when_the_consumer_closes() -> None:
    async with billing(3, early(ack_group_s=3_600.0)) as (broker, consumer):
        for _ in range(3):
            consumer.acknowledge(await consumer.receive())
        await consumer.close()
    assert broker.backlog("orders", "billing") == []


async def test_cumulative_only_the_last_place_is_said() -> None:
    async with billing(20, early(SubscriptionType.EXCLUSIVE)) as (broker, consumer):
        for _ in range(20):
            consumer.acknowledge_cumulative(await consumer.receive())
        await anyio.sleep(0.11)
        assert (sent_count(broker, "ack"), broker.backlog("orders", "billing")) == (1, [])


@pytest.mark.parametrize("kind", [SHARED, SubscriptionType.KEY_SHARED])
async def test_cumulative_acknowledgements_are_refused_where_others_have_messages(
    kind: SubscriptionType,
) -> None:
    async with billing(1, early(kind)) as (_, consumer):
        with pytest.raises(ConfigurationError):
            consumer.acknowledge_cumulative(await consumer.receive())


async def test_batch_indexes_off_a_batch_comes_again_whole_until_its_last_acknowledgement() -> None:
    async with billing(3, batching=Batching(delay_s=1.0)) as (broker, consumer):
        messages = [await consumer.receive() for _ in range(3)]
        for message in messages[:2]:
            consumer.acknowledge(message)
        await anyio.sleep(1)
        assert sent_count(broker, "ack") == 0
        broker.cut()
        again = [await consumer.receive() for _ in range(3)]
        assert [each.data for each in again] == [b"0", b"1", b"2"]
        for message in again:
            consumer.acknowledge(message)
        await anyio.sleep(1)
        assert broker.backlog("orders", "billing") == []


async def test_batch_indexes_on_the_broker_sends_only_what_is_left() -> None:
    async with billing(3, early(batch_index_acks=True), Batching(delay_s=1.0)) as (
        broker,
        consumer,
    ):
        messages = [await consumer.receive() for _ in range(3)]
        consumer.acknowledge(messages[0])
        consumer.acknowledge(messages[2])
        await anyio.sleep(1)
        broker.cut()
        assert (await consumer.receive()).data == b"1"
        assert consumer.receive_nowait() is None


async def test_receipts_are_waited_for_where_they_are_asked_for() -> None:
    async with billing(2) as (broker, consumer):
        await consumer.acknowledge_stored(await consumer.receive())
        assert broker.backlog("orders", "billing") == [(1, 1)]
        consumer.acknowledge(await consumer.receive())
        assert broker.backlog("orders", "billing") == [(1, 1)]


async def test_negative_acks_are_merged_and_wait_for_a_minute() -> None:
    async with billing(100) as (broker, consumer):
        for _ in range(100):
            consumer.negative_acknowledge(await consumer.receive())
        await anyio.sleep(59)
        assert sent_count(broker, REDELIVER) == 0
        await anyio.sleep(2)
        assert sent_count(broker, REDELIVER) == 1
        again = [await consumer.receive() for _ in range(100)]
        assert [int(each.data) for each in again] == list(range(100))
        assert {each.redelivery_count for each in again} == {1}


async def test_negative_acks_of_a_message_outlast_what_is_done_with_the_rest_of_its_batch() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce(client, 5, Batching())
        consumer = await client.subscribe("orders", "billing", early())
        messages = [await consumer.receive() for _ in range(5)]
        assert len({each.entry.id for each in messages}) == 1
        consumer.acknowledge(messages[0])
        consumer.negative_acknowledge(messages[2])
        for index in (1, 3, 4):
            consumer.acknowledge(messages[index])
        await anyio.sleep(61)
        assert sent_count(broker, REDELIVER) == 1
        again = [await consumer.receive() for _ in range(5)]
        assert [each.data for each in again] == [b"0", b"1", b"2", b"3", b"4"]
        assert {each.redelivery_count for each in again} == {1}


@pytest.mark.parametrize("batching", [None, Batching()])
async def test_negative_acks_are_taken_back_by_an_acknowledgement(
    batching: Batching | None,
) -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce(client, 3, batching)
        consumer = await client.subscribe("orders", "billing", early())
        messages = [await consumer.receive() for _ in range(3)]
        consumer.acknowledge(messages[0])
        consumer.negative_acknowledge(messages[1])
        consumer.acknowledge(messages[1])
        consumer.acknowledge(messages[2])
        await anyio.sleep(120)
        assert (sent_count(broker, REDELIVER), broker.backlog("orders", "billing")) == (0, [])


async def test_ack_timeout_ends_with_the_last_message_of_a_batch() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce(client, 3, Batching())
        consumer = await client.subscribe("orders", "billing", early(ack_timeout_s=10.0))
        messages = [await consumer.receive() for _ in range(3)]
        for each in messages:
            consumer.acknowledge(each)
        await anyio.sleep(60)
        assert (sent_count(broker, REDELIVER), broker.backlog("orders", "billing")) == (0, [])


async def test_ack_timeout_begins_when_the_application_gets_a_message() -> None:
    async with billing(3, early(ack_timeout_s=10.0)) as (broker, consumer):
        await anyio.sleep(600)
        assert sent_count(broker, REDELIVER) == 0
        message = await consumer.receive()
        await anyio.sleep(9)
        assert sent_count(broker, REDELIVER) == 0
        await anyio.sleep(3)
        assert sent_count(broker, REDELIVER) == 1
        following = [await consumer.receive() for _ in range(3)]
        assert [each.data for each in following] == [b"1", b"2", message.data]


async def test_ack_timeout_has_all_redelivered_where_single_entries_cannot_be() -> None:
    async with billing(3, early(SubscriptionType.EXCLUSIVE, ack_timeout_s=10.0)) as (_, consumer):
        await consumer.receive()
        await anyio.sleep(12)
        again = [(await consumer.receive()).data for _ in range(3)]
        assert again == [b"0", b"1", b"2"]


async def test_prefetched_messages_go_to_others_when_their_consumer_closes() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce(client, 10)
        first = await client.subscribe("orders", "billing", early())
        await anyio.sleep(1)
        second = await client.subscribe("orders", "billing", early())
        await anyio.sleep(600)
        assert second.receive_nowait() is None
        await first.close()
        assert [int((await second.receive()).data) for _ in range(10)] == list(range(10))


async def test_permits_are_given_half_a_queue_at_a_time() -> None:
    async with billing(100, early(queue_size=10)) as (broker, consumer):
        await anyio.sleep(1)
        assert (sent_count(broker, "flow"), consumer.waiting) == (1, 10)
        for _ in range(4):
            await consumer.receive()
        await anyio.sleep(1)
        assert sent_count(broker, "flow") == 1
        await consumer.receive()
        await anyio.sleep(1)
        assert (sent_count(broker, "flow"), consumer.waiting) == (2, 10)


async def test_zero_queue_a_message_is_asked_for_when_the_application_waits() -> None:
    async with billing(3, early(queue_size=0)) as (broker, consumer):
        await anyio.sleep(1)
        assert sent_count(broker, "flow") == 0
        for number in range(3):
            assert (await consumer.receive()).data == b"%d" % number
            await anyio.sleep(1)
            assert (sent_count(broker, "flow"), consumer.waiting) == (number + 1, 0)


async def test_statistics_say_what_waits_in_the_local_queue() -> None:
    async with billing(10) as (_, consumer):
        consumer.acknowledge(await consumer.receive())
        await anyio.sleep(1)
        found = consumer.statistics()
    assert (found.messages_received, found.messages_queued, found.messages_acknowledged) == (
        1,
        9,
        1,
    )


async def test_statistics_of_active_producers_and_consumers_are_logged_each_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broker = FakeBroker()
    with caplog.at_level(logging.INFO, "arneb_pulsar.client.statistics"):
        async with client_of(broker) as client:
            producer = await client.create_producer("orders", ProducerOptions(batching=None))
            consumer = await client.subscribe("orders", "billing", early())
            for _ in range(120):
                await producer.send(b"x")
            consumer.acknowledge(await consumer.receive())
            await anyio.sleep(59)
            assert not caplog.records
            await anyio.sleep(2)
            lines = sorted(each.getMessage() for each in caplog.records)
            assert len(lines) == 2
            assert "119 in the local queue; received 0.0 messages/s" in lines[0]
            assert "sent 2.0 messages/s" in lines[1]
            await anyio.sleep(600)
            assert len(caplog.records) == 2
