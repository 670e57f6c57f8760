"""Every wait of an application can be cancelled, with the documented effect."""

from collections.abc import Awaitable, Callable

import anyio
from tests.pulsar_frontend.client.in_memory import billing, client_of, early, produce

from arneb_pulsar.client import AccessMode, Batching, MessageId, ProducerOptions, SubscriptionType
from arneb_pulsar.client.errors import ClientClosed, Withdrawn
from arneb_pulsar.client.testing import FakeBroker, Faults

SLOW_S = 1.0
EXCLUSIVE = ProducerOptions(access=AccessMode.EXCLUSIVE)
Outcomes = list[MessageId | Exception | None]


def noting(outcomes: Outcomes) -> Callable[[MessageId | None, Exception | None], None]:
    return lambda found, error: outcomes.append(found or error)


async def cancelled_after(seconds: float, wait: Callable[[], Awaitable[object]]) -> None:
    """Begin to wait, and be cancelled meanwhile."""
    with anyio.move_on_after(seconds) as scope:
        await wait()
    assert scope.cancelled_caught


def stored(broker: FakeBroker) -> int:
    return sum(each.messages for each in broker.topic("orders").entries)


async def test_a_withdrawn_send_is_never_sent_and_its_callback_gets_that() -> None:
    broker, outcomes = FakeBroker(), Outcomes()
    async with client_of(broker) as client:
        producer = await client.create_producer("orders")
        with anyio.CancelScope() as scope:
            scope.cancel()
            await producer.send(b"x", callback=noting(outcomes))
        assert [type(each) for each in outcomes] == [Withdrawn]
        await producer.send(b"y")
    assert stored(broker) == 1


async def test_a_send_that_waits_for_room_is_withdrawn_and_takes_none() -> None:
    broker, outcomes = FakeBroker(), Outcomes()
    async with client_of(broker) as client:
        options = ProducerOptions(pending_max=1, batching=None)
        producer = await client.create_producer("orders", options)
        broker.faults.delay_s_max = SLOW_S
        producer.send_nowait(b"first")
        await cancelled_after(0.001, lambda: producer.send(b"x", callback=noting(outcomes)))
        await cancelled_after(0.001, lambda: producer.send_batch([b"x"]))
        await cancelled_after(0.001, producer.wait_for_room)
        assert [type(each) for each in outcomes] == [Withdrawn]
        await producer.flush()
        producer.send_nowait(b"there is room")
    assert stored(broker) == 2


async def test_a_cancelled_send_that_was_sent_gets_its_outcome() -> None:
    broker, outcomes = FakeBroker(), Outcomes()
    async with client_of(broker) as client:
        producer = await client.create_producer("orders", ProducerOptions(batching=None))
        broker.faults.delay_s_max = SLOW_S
        await cancelled_after(0.001, lambda: producer.send(b"x", callback=noting(outcomes)))
        assert outcomes == []
        await cancelled_after(0.001, lambda: producer.send_batch([b"y", b"z"]))
        await cancelled_after(0.001, producer.flush)
        await producer.flush()
    assert [type(each) for each in outcomes] == [MessageId]
    assert stored(broker) == 3


async def test_a_close_that_is_cancelled_closes_and_what_is_pending_fails() -> None:
    broker, outcomes = FakeBroker(), Outcomes()
    async with client_of(broker) as client:
        producer = await client.create_producer("orders", ProducerOptions(batching=None))
        broker.faults.delay_s_max = SLOW_S
        producer.send_nowait(b"x", callback=noting(outcomes))
        await cancelled_after(0.001, producer.close)
        assert producer.is_closed
        assert [type(each) for each in outcomes] == [ClientClosed]


async def test_a_producer_that_was_not_waited_for_is_not_there() -> None:
    for mode in (AccessMode.EXCLUSIVE, AccessMode.WAIT_FOR_EXCLUSIVE):
        broker = FakeBroker(Faults(delay_s_max=SLOW_S))
        wanted = ProducerOptions(access=mode)
        async with client_of(broker) as client:
            for seconds in (0.001, 0.5, 1.5, 2.5):
                with anyio.move_on_after(seconds):
                    producer = await client.create_producer("orders", wanted)
                    await producer.close()
            await client.create_producer("orders", EXCLUSIVE)


async def test_a_producer_that_stops_waiting_for_exclusive_access_lets_the_next_one_in() -> None:
    broker = FakeBroker()
    waiting = ProducerOptions(access=AccessMode.WAIT_FOR_EXCLUSIVE)
    async with client_of(broker) as client:
        first = await client.create_producer("orders", EXCLUSIVE)
        await cancelled_after(100, lambda: client.create_producer("orders", waiting))
        await first.close()
        await client.create_producer("orders", EXCLUSIVE)


async def test_a_subscription_that_was_not_waited_for_has_no_consumer() -> None:
    broker = FakeBroker(Faults(delay_s_max=SLOW_S))
    async with client_of(broker) as client:
        for seconds in (0.001, 0.5, 1.5, 2.5):
            with anyio.move_on_after(seconds):
                consumer = await client.subscribe("orders", "billing")
                await consumer.close()
        await client.subscribe("orders", "billing")


async def test_a_receive_loses_no_message() -> None:
    async with billing(0) as (broker, consumer), client_of(broker) as client:
        await cancelled_after(1, consumer.receive)
        await cancelled_after(0.01, lambda: consumer.receive_batch(5, timeout_s=1.0))
        await produce(client, 5)
        await anyio.sleep(1)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await consumer.receive_batch(10, timeout_s=1.0)
        assert [int((await consumer.receive()).data) for _ in range(5)] == list(range(5))


async def test_an_acknowledgement_goes_its_way() -> None:
    async with billing(1) as (broker, consumer):
        message = await consumer.receive()
        broker.faults.delay_s_max = SLOW_S
        await cancelled_after(0.001, lambda: consumer.acknowledge_stored(message))
        await anyio.sleep(SLOW_S)
        assert broker.backlog("orders", "billing") == []


async def test_a_seek_leaves_the_consumer_here_or_there() -> None:
    async with billing(4, early(SubscriptionType.EXCLUSIVE)) as (broker, consumer):
        messages = [await consumer.receive() for _ in range(4)]
        for message in messages:
            consumer.acknowledge(message)
        await anyio.sleep(1)
        broker.faults.delay_s_max = SLOW_S
        await cancelled_after(0.001, lambda: consumer.seek(messages[1].id))
        assert (await consumer.receive()).data in (b"1", b"2")


async def test_a_close_of_a_consumer_closes_it_all_the_same() -> None:
    async with billing(1) as (broker, consumer), client_of(broker) as client:
        consumer.acknowledge(await consumer.receive())
        broker.faults.delay_s_max = SLOW_S
        await cancelled_after(0.001, consumer.close)
        assert consumer.is_closed
        await anyio.sleep(SLOW_S)
        assert broker.backlog("orders", "billing") == []
        await client.subscribe("orders", "billing", early(SubscriptionType.EXCLUSIVE))


async def test_reconsuming_later_leaves_the_message_here_or_there() -> None:
    async with billing(1, early(retry=True, queue_size=1)) as (broker, consumer):
        message = await consumer.receive()
        broker.faults.delay_s_max = SLOW_S
        await cancelled_after(0.001, lambda: consumer.reconsume_later(message, 1.0))
        assert broker.backlog("orders", "billing") == [(1, 0)]
        await consumer.reconsume_later(message, 1.0)
        await anyio.sleep(2 * SLOW_S)
        assert broker.backlog("orders", "billing") == []


async def test_an_application_that_is_cancelled_waits_for_nothing() -> None:
    """The client is inside what is cancelled; nobody is waited for, and nothing is left."""
    broker = FakeBroker()
    began = anyio.current_time()
    with anyio.move_on_after(5):
        async with client_of(broker) as client:
            options = ProducerOptions(batching=Batching(delay_s=3_600.0))
            producer = await client.create_producer("orders", options)
            producer.send_nowait(b"held")
            broker.faults.delay_s_max = 3_600.0
            await anyio.sleep_forever()
    assert anyio.current_time() == began + 5
    assert broker.open_streams == []
