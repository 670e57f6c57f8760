"""What programs on the broker in memory begin with: a client, some messages, a consumer of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from arneb_pulsar.client import (
    Batching,
    Client,
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.consumer.consuming import Consuming
from arneb_pulsar.client.testing import FakeBroker


@asynccontextmanager
async def client_of(broker: FakeBroker, **more: object) -> AsyncIterator[Client]:
    options = ClientOptions(dial=broker.dial, seed=7, **more)  # type: ignore[arg-type]
    async with connect(broker.url, options) as client:
        yield client


async def produce(client: Client, count: int, batching: Batching | None = None) -> None:
    """Send so many numbers to ``orders``."""
    producer = await client.create_producer("orders", ProducerOptions(batching=batching))
    for number in range(count):
        producer.send_nowait(b"%d" % number)
    await producer.close()


def early(kind: SubscriptionType = SubscriptionType.SHARED, **more: object) -> ConsumerOptions:
    """Options of a consumer that begins at the first message."""
    position = InitialPosition.EARLIEST
    return ConsumerOptions(type=kind, initial_position=position, **more)  # type: ignore[arg-type]


@asynccontextmanager
async def billing(
    count: int, options: ConsumerOptions | None = None, batching: Batching | None = None
) -> AsyncIterator[tuple[FakeBroker, Consuming[bytes]]]:
    """A broker with so many messages in ``orders``, and a consumer that subscribed as
    ``billing``."""
    broker = FakeBroker()
    async with client_of(broker) as client:
        await produce(client, count, batching)
        yield broker, await client.subscribe("orders", "billing", options or early())


async def produce_in_chunks(client: Client, count: int) -> None:
    """Messages to ``orders``, each in three chunks."""
    options = ProducerOptions(name="p", chunking=True, chunk_bytes_max=50, batching=None)
    producer = await client.create_producer("orders", options)
    for number in range(count):
        await producer.send((b"%d" % number).ljust(120))


def sent_count(broker: FakeBroker, command: str) -> int:
    """How often any client said it."""
    return sum(session.commands.count(command) for session in broker.sessions)
