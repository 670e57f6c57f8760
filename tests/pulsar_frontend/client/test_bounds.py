"""What a client may hold: pending messages of a producer, and bytes of all its producers."""

import anyio
import pytest
from tests.pulsar_frontend.client.in_memory import client_of

from arneb_pulsar.client import ProducerOptions
from arneb_pulsar.client.errors import QueueFull, TimedOut
from arneb_pulsar.client.producer.machine import MESSAGE_OVERHEAD_BYTES
from arneb_pulsar.client.room import Room
from arneb_pulsar.client.testing import FakeBroker

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


async def test_nobody_overtakes_who_waits_for_room() -> None:
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
