"""Messages in chunks on Key_Shared, where keys move to a consumer that joins between two chunks."""

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from tests.pulsar_client.chunks import CHUNK_BYTES, Held, held
from tests.pulsar_client.conftest import CHECK_INTERVAL_S, Broker

from arneb_pulsar.client import (
    Client,
    ConsumerOptions,
    InitialPosition,
    KeyShared,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.admin import Admin, administer
from arneb_pulsar.client.consumer.consumer import Consumer

pytestmark = [
    pytest.mark.in_peace("has somebody join between two chunks"),
    pytest.mark.not_at("pulsar", "cluster"),
]

KEYS = [f"key-{number}" for number in range(8)]
"""Some of them move when the second consumer comes, whatever the names are."""


def body_of(key: str, chunks: int = 3) -> bytes:
    return (key.encode() * CHUNK_BYTES)[: CHUNK_BYTES * chunks - 1]


async def join(client: Client, topic: str, name: str, **more: Any) -> Consumer[bytes]:
    options = ConsumerOptions(
        type=SubscriptionType.KEY_SHARED,
        initial_position=InitialPosition.EARLIEST,
        name=name,
        chunk_expire_s=20.0,
        **more,
    )
    found = await client.subscribe(topic, "s", options)
    assert isinstance(found, Consumer)
    return found


async def begin(stack: AsyncExitStack, broker: Broker, topic: str) -> dict[str, Held]:
    """Of a message of each key the first chunk has left, by a connection of its own."""
    begun = {}
    for key in KEYS:
        client = await stack.enter_async_context(connect(broker.pulsar_url))
        begun[key] = await held(client, topic, body_of(key), key)
        begun[key].send(1)
    return begun


async def out_are(admin: Admin, topic: str, count: int) -> None:
    """So many chunks have gone out, and none is acknowledged."""
    found = -1
    with anyio.fail_after(20):
        while found != count:
            found = (await admin.statistics(topic)).subscriptions["s"].messages_unacked
            await anyio.sleep(CHECK_INTERVAL_S)


@pytest.mark.parametrize("in_order", [True, False], ids=["in order", "out of order"])
async def test_a_consumer_that_joins_between_two_chunks_of_a_message_gets_none_of_them(
    broker: Broker, topic: str, in_order: bool
) -> None:
    """The others of the key go to who joined, and in order behind the message."""
    sharing = KeyShared(allow_out_of_order=not in_order)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(broker.pulsar_url))
        admin = await stack.enter_async_context(administer(broker.http_url))
        first = await join(client, topic, "first", key_shared=sharing)
        begun = await begin(stack, broker, topic)
        await out_are(admin, topic, len(KEYS))
        second = await join(client, topic, "second", key_shared=sharing)
        producer = await client.create_producer(topic, ProducerOptions(batching=None))
        for key, chunks in begun.items():
            await producer.send(b"between", key=key)
            chunks.send(2)
        whole = {}
        seen_before = []
        with anyio.fail_after(15):
            while len(whole) < len(KEYS):
                message = await first.receive()
                if message.data == b"between":
                    seen_before.append(message.key)
                else:
                    whole[message.key] = message
        assert {key: message.data for key, message in whole.items()} == {
            key: body_of(key) for key in KEYS
        }
        if in_order:
            assert second.waiting == 0, "a key must wait for its unacknowledged large message"
        for message in whole.values():
            await first.acknowledge_stored(message)
        others = []
        while len(seen_before) + len(others) < len(KEYS):
            with anyio.move_on_after(0.2):
                others.append((await second.receive(10)).key)
            while first.waiting:
                seen_before.append((await first.receive(1)).key)
        assert sorted([*seen_before, *others]) == KEYS
        assert others, "some keys have moved"
        backlog = (await admin.statistics(topic)).subscriptions["s"].messages_backlog
        assert backlog == len(KEYS), "only the messages between the chunks may be in the backlog"


async def test_all_chunks_of_a_consumer_that_leaves_go_to_one_consumer(
    broker: Broker, topic: str
) -> None:
    """It goes in the middle of each message, and the other was there before or came meanwhile."""
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(broker.pulsar_url))
        leaving = await stack.enter_async_context(connect(broker.pulsar_url))
        admin = await stack.enter_async_context(administer(broker.http_url))
        first = await join(leaving, topic, "first")
        begun = await begin(stack, broker, topic)
        await out_are(admin, topic, len(KEYS))
        second = await join(client, topic, "second")
        third = await join(client, topic, "third")
        for chunks in begun.values():
            chunks.send(1)
        await out_are(admin, topic, 2 * len(KEYS))
        await first.close()
        for chunks in begun.values():
            chunks.send(1)
        found = {}
        with anyio.fail_after(15):
            while len(found) < len(KEYS):
                for consumer in (second, third):
                    while consumer.waiting:
                        message = await consumer.receive(1)
                        found[message.key] = message.data
                        consumer.acknowledge(message)
                await anyio.sleep(0.05)
        assert found == {key: body_of(key) for key in KEYS}
