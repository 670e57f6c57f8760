"""What a client may hold: pending messages of a producer, and bytes of all its producers and of
queues that scale themselves."""

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import client_of, early

from arneb_pulsar.client import EARLIEST, Batching, Client, ConsumerOptions, ProducerOptions
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.errors import QueueFull, TimedOut
from arneb_pulsar.client.messages import MESSAGE_OVERHEAD_BYTES
from arneb_pulsar.client.tasks.room import Room
from arneb_pulsar.client.testing import FakeBroker
from arneb_pulsar.client.trackers.receiver_queue import ReceiverQueue

SINGLE = ProducerOptions(batching=None)
MESSAGE = bytes(1_000 - MESSAGE_OVERHEAD_BYTES)
"""Counts a thousand bytes."""


async def test_all_producers_of_a_client_share_its_memory() -> None:
    broker = FakeBroker()
    async with client_of(broker, memory_bytes_max=3_000) as client:
        one = await client.create_producer("one", SINGLE)
        other = await client.create_producer("other", SINGLE)
        broker.faults.delay_s_max = 10.0
        one.send_nowait(MESSAGE)
        one.send_nowait(MESSAGE)
        other.send_nowait(MESSAGE)
        for producer in (one, other):
            with pytest.raises(QueueFull, match="1000 bytes of the client's memory, got 3000"):
                producer.send_nowait(MESSAGE)
        began = anyio.current_time()
        await other.send(MESSAGE)  # waits for receipts of whoever has them first
        assert anyio.current_time() > began
        await one.flush()
        for _ in range(3):
            one.send_nowait(MESSAGE)
    assert len(broker.topic("one").entries) == 5
    assert len(broker.topic("other").entries) == 2


async def test_memory_of_what_failed_is_given_back() -> None:
    broker = FakeBroker()
    options = ProducerOptions(batching=None, send_timeout_s=1.0)
    async with client_of(broker, memory_bytes_max=2_000) as client:
        producer = await client.create_producer("orders", options)
        broker.is_down = True
        broker.cut()
        for _ in range(3):
            with pytest.raises(TimedOut):
                await producer.send(MESSAGE)
        broker.is_down = False
        await anyio.sleep(2)
        producer.send_nowait(MESSAGE)
        producer.send_nowait(MESSAGE)
        with pytest.raises(QueueFull):
            producer.send_nowait(MESSAGE)


async def test_what_is_larger_than_the_bound_has_it_for_itself() -> None:
    broker = FakeBroker()
    async with client_of(broker, memory_bytes_max=1_000) as client:
        producer = await client.create_producer("orders", SINGLE)
        await producer.send(bytes(10_000))
        broker.faults.delay_s_max = 10.0
        producer.send_nowait(bytes(10_000))
        with pytest.raises(QueueFull):
            producer.send_nowait(b"")


async def test_no_sender_overtakes_one_that_waits_for_room() -> None:
    room = Room(10, "things")
    served: list[int] = []

    async def take(size: int) -> None:
        await room.take(size)
        served.append(size)

    await room.take(8)
    async with anyio.create_task_group() as tasks:
        for size in (5, 1, 4):
            tasks.start_soon(take, size)
            await anyio.sleep(1)
        await anyio.sleep(1)
        assert served == []  # 1 would fit, and 5 came before it
        with pytest.raises(QueueFull):
            room.take_nowait(1)
        for given_back, next_served in ((3, 5), (1, 1), (4, 4)):
            room.give_back(given_back)
            await anyio.sleep(1)
            assert served[-1] == next_served
    assert room.used == 10


def automatic(size: int) -> ConsumerOptions:
    return early(queue_size=size, auto_scaled_queue=True)


def queue_of(consumer: Consuming[bytes]) -> "ReceiverQueue[object]":
    assert isinstance(consumer, Consumer)
    queue: ReceiverQueue[object] = consumer._machine._queue
    return queue


async def received(consumer: Consuming[bytes], count: int) -> None:
    """By an application that is quick, and then does something else for a while."""
    for _ in range(count):
        was_empty = not consumer.waiting
        consumer.acknowledge(await consumer.receive(10))
        if was_empty:
            await anyio.sleep(1)


async def filled(client: Client, count: int) -> None:
    producer = await client.create_producer("orders", SINGLE)
    for _ in range(count):
        await producer.send(MESSAGE)
    await producer.close()


async def test_a_queue_that_scales_itself_grows_while_memory_is_roomy() -> None:
    for limit, largest in ((0, 64), (100_000, 64), (8_000, 8)):
        broker = FakeBroker()
        async with client_of(broker, memory_bytes_max=limit) as client:
            await filled(client, 1_000)
            consumer = await client.subscribe("orders", "billing", automatic(64))
            await received(consumer, 800)
            await anyio.sleep(1)
            assert queue_of(consumer).size == largest
            memory = client._context.memory
            assert memory.held == 1_000 * consumer.waiting > 0
            await received(consumer, 200)
            assert memory.held == 0
            await consumer.close()
            assert not memory.on_short


async def test_a_queue_does_not_grow_while_producers_have_most_of_the_memory() -> None:
    broker = FakeBroker()
    held = ProducerOptions(batching=Batching(delay_s=3_600, bytes_max=1 << 20))
    async with client_of(broker, memory_bytes_max=100_000) as client:
        await filled(client, 300)
        producer = await client.create_producer("elsewhere", held)
        for _ in range(80):
            producer.send_nowait(MESSAGE)
        consumer = await client.subscribe("orders", "billing", automatic(64))
        await received(consumer, 50)
        assert queue_of(consumer).size == 1
        await producer.flush()
        await received(consumer, 150)
        assert queue_of(consumer).size > 16


async def test_queues_that_scale_themselves_are_halved_when_memory_gets_short() -> None:
    broker = FakeBroker()
    async with client_of(broker, memory_bytes_max=20_000) as client:
        await filled(client, 200)
        consumer = await client.subscribe("orders", "billing", automatic(8))
        plain = await client.subscribe("orders", "shipping", early(queue_size=8))
        await received(consumer, 100)
        await anyio.sleep(1)
        assert queue_of(consumer).size == 8
        producer = await client.create_producer("elsewhere", SINGLE)
        broker.faults.delay_s_max = 10.0
        for _ in range(20_000 // 1_000 - consumer.waiting):
            producer.send_nowait(MESSAGE)
        assert queue_of(consumer).size == 4
        assert queue_of(plain).size == 8
        with pytest.raises(QueueFull, match="got 20000 of 20000 taken"):
            producer.send_nowait(MESSAGE)
        broker.faults.delay_s_max = 0.0
        await producer.flush()


async def test_producers_stand_never_still_for_what_consumers_have_not_taken() -> None:
    """An application that sends one for each that it receives waits for nobody but brokers."""
    broker = FakeBroker()
    async with client_of(broker, memory_bytes_max=4_000) as client:
        whole = await client.create_producer("orders")
        for _ in range(5):
            await whole.send_batch([MESSAGE] * 20)  # come for one permit
        consumer = await client.subscribe("orders", "billing", automatic(64))
        producer = await client.create_producer("elsewhere", SINGLE)
        await anyio.sleep(1)
        assert client._context.memory.held == 20_000
        with anyio.fail_after(60):
            for _ in range(100):
                message = await consumer.receive(10)
                await producer.send(message.data)
                consumer.acknowledge(message)
    assert len(broker.topic("elsewhere").entries) == 100


@pytest.mark.parametrize("how", ["cut", "redeliver", "seek", "close"])
async def test_memory_of_what_is_not_for_the_application_is_given_back(how: str) -> None:
    broker = FakeBroker()
    async with client_of(broker, memory_bytes_max=100_000) as client:
        await filled(client, 100)
        consumer = await client.subscribe("orders", "billing", automatic(16))
        await received(consumer, 30)
        await anyio.sleep(1)
        memory = client._context.memory
        assert memory.held == 1_000 * consumer.waiting > 0
        match how:
            case "cut":
                broker.is_down = True
                broker.cut()
            case "redeliver":
                consumer.pause()
                consumer.redeliver_unacknowledged()
            case "seek":
                consumer.pause()
                await consumer.seek(EARLIEST)
            case "close":
                await consumer.close()
        await anyio.sleep(0.01)
        assert memory.held == 0
        broker.is_down = False
        if how != "close":
            consumer.resume()
            await received(consumer, 20)
            await anyio.sleep(1)
            assert memory.held == 1_000 * consumer.waiting
    assert memory.held == 0
