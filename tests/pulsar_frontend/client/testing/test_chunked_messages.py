"""Messages in chunks at the fake broker: they come and go as one, and what is never whole goes."""

from dataclasses import replace

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import (
    client_of,
    early,
    produce,
    produce_in_chunks,
    sent_count,
)

from arneb_pulsar.client import (
    EARLIEST,
    Batching,
    Client,
    ConsumerOptions,
    Message,
    MessageId,
    SubscriptionType,
)
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.testing import FakeBroker

REDELIVER = "redeliverUnacknowledgedMessages"


def put_in_order(broker: FakeBroker, order: list[int]) -> None:
    """As if several producers had sent at once: entries stand as ``order`` has them."""
    entries = broker.topic("orders").entries
    ids = [each.id for each in entries]
    found = [replace(entries[each], id=to) for each, to in zip(order, ids, strict=True)]
    entries[:] = found


async def consume_braided(
    client: Client, broker: FakeBroker, **more: object
) -> tuple[Consuming[bytes], Message[bytes], Message[bytes]]:
    """Message 1 stands among the chunks of message 0, which ends behind it: 0 1 0 1 1 0."""
    await produce_in_chunks(client, 2)
    put_in_order(broker, [0, 3, 1, 4, 5, 2])
    kind = SubscriptionType.FAILOVER
    consumer = await client.subscribe("orders", "billing", early(kind, **more))
    one, two = [await consumer.receive() for _ in range(2)]
    assert (one.data.strip(), two.data.strip()) == (b"1", b"0")
    return consumer, one, two


async def acknowledge_all_up_to(
    client: Client, consumer: Consuming[bytes], message: Message[bytes], how: str
) -> None:
    if how == "stored":
        await consumer.acknowledge_stored(message, cumulative=True)
    elif how == "grouped":
        consumer.acknowledge_cumulative(message)
        await anyio.sleep(1)
    else:
        transaction = await client.begin_transaction(60.0)
        await transaction.acknowledge(consumer, message, cumulative=True)
        await transaction.commit()


@pytest.mark.parametrize("how", ["stored", "grouped", "in a transaction"])
async def test_everything_up_to_a_message_leaves_the_chunks_of_the_next(how: str) -> None:
    broker = FakeBroker(coordinators=1)
    async with client_of(broker) as client:
        consumer, one, two = await consume_braided(client, broker)
        await acknowledge_all_up_to(client, consumer, one, how)
        entries = [each.id for each in broker.topic("orders").entries]
        assert broker.backlog("orders", "billing") == [entries[each] for each in (0, 2, 5)]
        broker.cut()
        again = await consumer.receive(timeout_s=5.0)
        assert (again.id, again.data) == (two.id, two.data)
        await acknowledge_all_up_to(client, consumer, again, how)
        assert broker.backlog("orders", "billing") == []


async def test_a_message_of_before_a_cut_is_acknowledged_without_the_chunks_of_the_next() -> None:
    """Though nothing has come again yet."""
    broker = FakeBroker()
    async with client_of(broker) as client:
        consumer, one, two = await consume_braided(client, broker)
        broker.is_down = True
        broker.cut()
        await anyio.sleep(1)
        consumer.acknowledge_cumulative(one)
        broker.is_down = False
        again = await consumer.receive(timeout_s=5.0)
        assert (again.id, again.data) == (two.id, two.data)
        await consumer.acknowledge_stored(again, cumulative=True)
        assert broker.backlog("orders", "billing") == []


@pytest.mark.parametrize("indexes", [True, False])
async def test_everything_up_to_the_middle_of_a_batch_leaves_the_chunks_of_the_next(
    indexes: bool,
) -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce_in_chunks(client, 1)
        await produce(client, 2, Batching(messages_max=2))
        put_in_order(broker, [0, 1, 3, 2])
        options = early(SubscriptionType.EXCLUSIVE, batch_index_acks=indexes)
        consumer = await client.subscribe("orders", "billing", options)
        first = await consumer.receive()
        assert first.batch_index == 0
        await consumer.acknowledge_stored(first, cumulative=True)
        await consumer.close()
        consumer = await client.subscribe("orders", "billing", options)
        found = [(await consumer.receive(timeout_s=5.0)).data.strip() for _ in range(3 - indexes)]
        assert found == [b"1", b"0"] if indexes else [b"0", b"1", b"0"]


@pytest.mark.parametrize("kind", SubscriptionType)
@pytest.mark.parametrize("options", [{"negative_ack_delay_s": 5.0}, {"ack_timeout_s": 5.0}])
async def test_what_comes_again_comes_with_all_its_chunks(
    kind: SubscriptionType, options: dict[str, float]
) -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce_in_chunks(client, 2)
        consumer = await client.subscribe("orders", "billing", early(kind, **options))
        first = await consumer.receive()
        if "negative_ack_delay_s" in options:
            consumer.negative_acknowledge(first)
        consumer.acknowledge(await consumer.receive())
        again = await consumer.receive(timeout_s=10.0)
        assert (again.id, again.data) == (first.id, first.data)
        consumer.acknowledge(again)
        await anyio.sleep(60)
        assert sent_count(broker, REDELIVER) == 1
        assert broker.backlog("orders", "billing") == []


async def test_an_id_acknowledges_all_chunks_of_its_message() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce_in_chunks(client, 1)
        consumer = await client.subscribe("orders", "billing", early())
        message = await consumer.receive()
        await consumer.acknowledge_stored(MessageId.from_wire(message.id.to_wire()))
        assert broker.backlog("orders", "billing") == []


@pytest.mark.parametrize("commit", [True, False])
async def test_a_transaction_acknowledges_all_chunks_of_a_message(commit: bool) -> None:
    broker = FakeBroker(coordinators=1)
    async with client_of(broker) as client:
        await produce_in_chunks(client, 1)
        consumer = await client.subscribe("orders", "billing", early())
        message = await consumer.receive()
        transaction = await client.begin_transaction(60.0)
        await transaction.acknowledge(consumer, message)
        if commit:
            await transaction.commit()
            assert broker.backlog("orders", "billing") == []
        else:
            await transaction.abort()
            assert (await consumer.receive(timeout_s=1.0)).data == message.data


@pytest.mark.parametrize("kind", SubscriptionType)
async def test_after_a_message_in_chunks_comes_the_next(kind: SubscriptionType) -> None:
    """Though brokers begin with its last chunk."""
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce_in_chunks(client, 2)
        consumer = await client.subscribe("orders", "billing", early(kind))
        first, second = [await consumer.receive() for _ in range(2)]
        await consumer.seek(first.id)
        again = await consumer.receive(timeout_s=5.0)
        assert again.id == second.id
        consumer.acknowledge(again)
        await anyio.sleep(200)
        assert sent_count(broker, REDELIVER) == 0
        assert broker.backlog("orders", "billing") == []


@pytest.mark.parametrize("inclusive", [False, True])
async def test_a_reader_begins_at_a_message_in_chunks_or_after_it(inclusive: bool) -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce_in_chunks(client, 3)
        async with await client.create_reader("orders", EARLIEST) as reader:
            ids = [(await reader.read()).id for _ in range(3)]
            broker.cut()
            assert await reader.has_message_available() is False
        wanted = ids[1:] if inclusive else ids[2:]
        options = ConsumerOptions(start_inclusive=inclusive)
        async with await client.create_reader("orders", ids[1], options) as reader:
            for _ in range(2):
                found = [(await reader.read(timeout_s=5.0)).id for _ in wanted]
                assert found == wanted
                await reader.seek(ids[1])
        assert sent_count(broker, REDELIVER) == 0


@pytest.mark.parametrize("kind", SubscriptionType)
@pytest.mark.parametrize("missing", [0, 1])
async def test_chunks_without_the_others_come_again_a_few_times_and_are_given_up(
    kind: SubscriptionType, missing: int
) -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce_in_chunks(client, 2)
        del broker.topic("orders").entries[missing]
        options = early(kind, chunk_expire_s=60.0, negative_ack_delay_s=20.0)
        consumer = await client.subscribe("orders", "billing", options)
        whole = await consumer.receive(timeout_s=1.0)
        assert whole.id.entry == (1, 5)
        consumer.acknowledge(whole)
        await anyio.sleep(50)
        assert sent_count(broker, REDELIVER) == 2
        assert len(broker.backlog("orders", "billing")) == 2
        await anyio.sleep(15)
        assert sent_count(broker, REDELIVER) == 3
        assert broker.backlog("orders", "billing") == []
        await anyio.sleep(1_000)
        assert sent_count(broker, REDELIVER) == 3


async def test_messages_that_make_way_for_each_other_end() -> None:
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce_in_chunks(client, 2)
        # Their last chunks were never sent.
        del broker.topic("orders").entries[5], broker.topic("orders").entries[2]
        options = early(chunked_pending_max=1, chunk_expire_s=60.0, negative_ack_delay_s=20.0)
        await client.subscribe("orders", "billing", options)
        await anyio.sleep(130)
        assert broker.backlog("orders", "billing") == []
        assert sent_count(broker, REDELIVER) <= 12
