"""Every wait of an application, cancelled at a real broker at all kinds of moments: what it was
about goes on, and no task is left of it."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import anyio
import pytest
from tests.pulsar_client.conftest import Broker, until
from tests.pulsar_client.test_ending import tasks_of

from arneb_pulsar.client import (
    EARLIEST,
    AccessMode,
    Client,
    ConsumerOptions,
    InitialPosition,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.consumer.consumer import Consumer
from arneb_pulsar.client.errors import TransactionEnded

pytestmark = pytest.mark.in_peace("counts tasks, and what is left")

MOMENTS_S = (0.0, 0.0002, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.05)
"""From before anything is asked until after most answers."""

TASKS_A_CONNECTION = 3
"""One that has the two who read and write."""

NUMBERS = count(1)
Wait = Callable[[], Awaitable[object]]


def early(**more: Any) -> ConsumerOptions:
    kind = SubscriptionType.SHARED
    return ConsumerOptions(type=kind, initial_position=InitialPosition.EARLIEST, **more)


async def cancelled(wait: Wait) -> None:
    """At each of the moments."""
    for seconds in MOMENTS_S:
        with anyio.move_on_after(seconds):
            made = await wait()
            close = getattr(made, "close", None)
            if close is not None:
                await close()


async def used(client: Client, topic: str) -> None:
    """Cancel each wait in turn; each leaves the next what it needs."""
    producer = await client.create_producer(topic, ProducerOptions(transactions=True))
    consumer = await client.subscribe(topic, "s", early(retry=True))
    plain = await client.subscribe(topic, "plain", early())
    assert isinstance(plain, Consumer)
    reader = await client.create_reader(topic, EARLIEST)
    view = await client.create_table_view(topic)
    first = await producer.send(b"0", key="k")
    message = await consumer.receive(10)
    waits: list[Wait] = [
        lambda: producer.send(b"x", key="k"),
        lambda: producer.send_batch([b"x", b"y"]),
        producer.flush,
        producer.wait_for_room,
        lambda: plain.receive(10),
        lambda: plain.receive_batch(10, timeout_s=0.01),
        lambda: consumer.acknowledge_stored(message),
        plain.last_message_id,
        plain.has_message_available,
        lambda: plain.seek(first),
        lambda: plain.seek(lambda _topic: EARLIEST),
        lambda: consumer.reconsume_later(message, 0.1),
        lambda: reader.read(10),
        reader.has_message_available,
        lambda: reader.seek(EARLIEST),
        view.refresh,
        client.ping,
        lambda: client.partitions_of(topic),
        lambda: client.create_producer(topic),
        lambda: client.create_producer(
            f"{topic}-own", ProducerOptions(access=AccessMode.EXCLUSIVE_WITH_FENCING)
        ),
        lambda: client.subscribe(topic, f"made-{next(NUMBERS)}", early()),
        lambda: client.subscribe([topic, f"{topic}-own"], f"made-{next(NUMBERS)}", early()),
        lambda: client.subscribe_pattern(f"{topic}.*", f"made-{next(NUMBERS)}", early()),
        lambda: client.create_reader(topic, EARLIEST),
        lambda: client.create_table_view(topic),
        lambda: ended(client, producer, plain),
    ]
    for wait in waits:
        await cancelled(wait)
    for close in (producer, consumer, plain, reader, view):
        await cancelled(close.close)
        assert close.is_closed
    for _ in MOMENTS_S:
        gone = await client.subscribe(topic, f"gone-{next(NUMBERS)}", early())
        await cancelled(gone.close)
    for seconds in MOMENTS_S:
        gone = await client.subscribe(topic, f"gone-{next(NUMBERS)}", early())
        with anyio.move_on_after(seconds):
            await gone.unsubscribe()


async def ended(client: Client, producer: Any, consumer: Any) -> None:
    async with await client.begin_transaction() as transaction:
        await transaction.send(producer, b"in")
        message = await consumer.receive(10)
        await transaction.acknowledge(consumer, message)


@pytest.mark.thorough("takes seconds")
async def test_whatever_is_cancelled_leaves_no_task_and_the_client_goes_on(
    broker: Broker, topic: str, backend: str
) -> None:
    before = tasks_of(backend)
    async with connect(broker.pulsar_url) as client:
        idle = tasks_of(backend)
        with anyio.fail_after(200):
            await used(client, topic)
        # What was cancelled is over soon: nothing of it is waited for, and nothing is left.
        connections = len(client._context.pool._open)
        await until(lambda: tasks_of(backend) <= idle + TASKS_A_CONNECTION * connections)
        consumer = await client.subscribe(topic, "after", early())
        producer = await client.create_producer(f"{topic}-own")
        await producer.send(b"in peace")
        assert (await consumer.receive(10)).data == b"0"
    assert tasks_of(backend) == before


@pytest.mark.lean("asks a coordinator often")
async def test_a_transaction_whose_commit_is_cancelled_can_be_asked_for_again(
    broker: Broker, topic: str
) -> None:
    async with connect(broker.pulsar_url) as client:
        producer = await client.create_producer(topic, ProducerOptions(transactions=True))
        consumer = await client.subscribe(topic, "s", early())
        for number, seconds in enumerate(MOMENTS_S):
            transaction = await client.begin_transaction()
            await transaction.send(producer, b"%d" % number)
            with anyio.move_on_after(seconds):
                await transaction.commit()
            try:
                await transaction.commit()
            except TransactionEnded:
                assert transaction.state.name == "COMMITTED"
            assert (await consumer.receive(20)).data == b"%d" % number
