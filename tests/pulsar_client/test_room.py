"""What a client uses: memory, connections, and attempts to reconnect."""

from collections.abc import Sequence
from itertools import pairwise

import anyio
import pytest
from anyio.abc import ByteStream
from tests.pulsar_client.conftest import Broker, until

from arneb_pulsar.client import (
    AccessMode,
    Batching,
    Client,
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    TlsOptions,
    connect,
)
from arneb_pulsar.client.admin import Admin, administer
from arneb_pulsar.client.connection.backoff import JITTER
from arneb_pulsar.client.connection.dialling import Address, dialler
from arneb_pulsar.client.errors import ConnectError, QueueFull

pytestmark = [
    pytest.mark.in_peace("counts what waits, and where"),
    pytest.mark.lean("asks brokers for much"),
]

HELD = ProducerOptions(batching=Batching(delay_s=3_600))
BODY = bytes(1_000 - 64)
"""Counts a thousand bytes in a client's memory."""


def shared(**more: object) -> ConsumerOptions:
    position = InitialPosition.EARLIEST
    return ConsumerOptions(type=SubscriptionType.SHARED, initial_position=position, **more)  # type: ignore[arg-type]


async def test_all_producers_of_a_client_share_its_memory(broker: Broker, topic: str) -> None:
    options = ClientOptions(memory_bytes_max=10_000)
    async with connect(broker.pulsar_url, options) as client:
        consumer = await client.subscribe([topic, f"{topic}-2"], "s", shared())
        one = await client.create_producer(topic, HELD)
        other = await client.create_producer(f"{topic}-2", HELD)
        for producer in (one, other) * 5:
            producer.send_nowait(BODY)
        for producer in (one, other):
            with pytest.raises(QueueFull, match="1000 bytes of the client's memory, got 10000"):
                producer.send_nowait(BODY)
        sent: list[object] = []

        async def send() -> None:
            sent.append(await other.send(BODY))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            await anyio.sleep(0.2)
            assert not sent
            await one.flush()  # its receipts make room for the other
        await other.flush()
        found = [(await consumer.receive(10)).topic for _ in range(11)]
        assert (found.count(topic), found.count(f"{topic}-2")) == (5, 6)


async def filled(client: Client, topic: str, count: int) -> None:
    producer = await client.create_producer(topic, ProducerOptions(batching=None))
    for _ in range(count):
        producer.send_nowait(BODY)
    await producer.close()


@pytest.mark.thorough("takes seconds")
@pytest.mark.parametrize(("memory", "most"), [(8_000, 16), (0, 256)])
async def test_a_queue_that_scales_itself_grows_as_far_as_memory_goes(
    broker: Broker, topic: str, memory: int, most: int
) -> None:
    """By doubling while less than three quarters of the memory are used, and back again."""
    options = ClientOptions(memory_bytes_max=memory)
    async with connect(broker.pulsar_url) as other:
        await filled(other, topic, 1_000)
    async with connect(broker.pulsar_url, options) as client:
        wanted = shared(queue_size=256, auto_scaled_queue=True)
        consumer = await client.subscribe(topic, "s", wanted)
        seen = 0
        for _ in range(1_000):
            was_empty = not consumer.waiting
            consumer.acknowledge(await consumer.receive(20))
            seen = max(seen, consumer.waiting)
            if was_empty:
                await anyio.sleep(0.05)
        assert 4 <= seen <= most
        if not memory:
            assert seen > 16


async def addresses(admin: Admin, topic: str) -> tuple[set[str], set[str]]:
    """Of the connections that its producers, and the consumers of ``s``, have with the broker."""
    found = (await admin.statistics(topic)).all
    consumers: Sequence[dict[str, str]] = found["subscriptions"]["s"]["consumers"]
    return {each["address"] for each in found["publishers"]}, {
        each["address"] for each in consumers
    }


@pytest.mark.thorough("takes seconds")
@pytest.mark.parametrize("connections", [1, 3])
async def test_producers_and_consumers_share_as_many_connections_as_were_asked_for(
    broker: Broker, topic: str, connections: int
) -> None:
    options = ClientOptions(connections_per_broker=connections, seed=5)
    async with (
        administer(broker.http_url) as admin,
        connect(broker.pulsar_url, options) as client,
    ):
        consumers = [await client.subscribe(topic, "s", shared(queue_size=1)) for _ in range(12)]
        producers = [await client.create_producer(topic) for _ in range(12)]
        of_producers, of_consumers = await addresses(admin, topic)
        assert len(of_producers | of_consumers) == connections
        for producer in producers:
            await producer.send(b"x")
        await until(lambda: sum(each.waiting for each in consumers) == 12)
        for producer in producers:
            await producer.close()
        fencing = ProducerOptions(access=AccessMode.EXCLUSIVE_WITH_FENCING)
        await client.create_producer(topic, fencing)
        (own,), of_consumers = await addresses(admin, topic)
        assert own not in of_consumers


class Line:
    """The way to brokers, which can be cut."""

    def __init__(self) -> None:
        self.is_cut = False
        self.attempts: list[float] = []
        """When somebody tried while it was: the same broker, of several that are asked in turn."""
        self._first: Address | None = None
        self._dial = dialler(TlsOptions().context, 10.0)
        self._streams: list[ByteStream] = []

    async def dial(self, address: Address) -> ByteStream:
        if self.is_cut:
            self._first = self._first or address
            if address == self._first:
                self.attempts.append(anyio.current_time())
            raise ConnectError(f"expected a line to {address}, it is cut")
        self._streams.append(await self._dial(address))
        return self._streams[-1]

    async def cut(self) -> None:
        self.is_cut = True
        for each in self._streams:
            await anyio.aclose_forcefully(each)


@pytest.mark.thorough("takes seconds")
@pytest.mark.parametrize(("initial", "cap"), [(0.1, 0.2), (0.2, 0.8)])
async def test_pauses_between_attempts_double_up_to_the_cap(
    broker: Broker, topic: str, initial: float, cap: float
) -> None:
    line = Line()
    options = ClientOptions(dial=line.dial, backoff_initial_s=initial, backoff_cap_s=cap)
    async with connect(broker.pulsar_url, options) as client:
        consumer = await client.subscribe(topic, "s", shared())
        producer = await client.create_producer(topic, ProducerOptions(send_timeout_s=0))
        await consumer.close()
        await anyio.sleep(1.2)  # attached for less, it would pause before the first attempt
        await line.cut()
        producer.send_nowait(b"kept")
        await until(lambda: len(line.attempts) >= 7)
        line.is_cut = False
        began = anyio.current_time()
        await producer.flush()
        assert anyio.current_time() - began < cap + 5
        tried = line.attempts
        pauses = [after - before for before, after in pairwise(tried)]
        expected = [min(initial * 2**number, cap) for number in range(len(pauses))]
        # A busy machine makes them longer, never shorter.
        assert all(
            pause >= (1 - JITTER) * least for pause, least in zip(pauses, expected, strict=True)
        )
        assert min(pauses[2:]) < 2 * cap
        again = await client.subscribe(topic, "s", shared())
        assert (await again.receive(10)).data == b"kept"
