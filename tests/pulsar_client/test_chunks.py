"""Messages in chunks of which not all come, or more than there is room for."""

from typing import Any

import anyio
import pytest
from tests.pulsar_client.chunks import held
from tests.pulsar_client.conftest import CHECK_INTERVAL_S, WITHIN_S, Broker

from arneb_pulsar.client import (
    ClientOptions,
    ConsumerOptions,
    InitialPosition,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.admin import Admin, administer
from arneb_pulsar.client.errors import TimedOut

pytestmark = [
    pytest.mark.in_peace("counts what is left of messages"),
    pytest.mark.thorough("waits for times to be up"),
]

BODY = b"x" * 2_500
"""Of three chunks."""


def shared(**more: Any) -> ConsumerOptions:
    position = InitialPosition.EARLIEST
    return ConsumerOptions(type=SubscriptionType.SHARED, initial_position=position, **more)


async def backlog_is(admin: Admin, topic: str, count: int) -> None:
    """So many entries of ``s`` are not acknowledged, soon."""
    found = -1
    with anyio.move_on_after(WITHIN_S / 2):
        while found != count:
            found = (await admin.statistics(topic)).subscriptions["s"].messages_backlog
            await anyio.sleep(CHECK_INTERVAL_S)
    assert found == count


async def test_chunks_that_stay_alone_are_acknowledged_when_their_time_is_up(
    broker: Broker, topic: str
) -> None:
    own = ClientOptions()
    async with administer(broker.http_url) as admin, connect(broker.pulsar_url) as client:
        patient = await client.subscribe(topic, "patient", shared())
        async with connect(broker.pulsar_url, own) as other:
            (await held(other, topic, BODY)).send(2)
            await anyio.sleep(0.5)
            with pytest.raises(TimedOut):
                await patient.receive(0.5)
            other._context.pool.close()  # gone in the middle of a message
        before = await admin.statistics(topic)
        assert before.subscriptions["patient"].messages_backlog == 2
        consumer = await client.subscribe(topic, "s", shared(chunk_expire_s=1.0))
        await backlog_is(admin, topic, 0)
        with pytest.raises(TimedOut):
            await consumer.receive(0.2)
        producer = await client.create_producer(topic)
        await producer.send(b"whole")
        assert (await consumer.receive(10)).data == b"whole"
        assert (await patient.receive(10)).data == b"whole"
        after = await admin.statistics(topic)
        assert after.subscriptions["patient"].messages_backlog == 3


@pytest.mark.parametrize("gives_up", [False, True], ids=["come again", "acknowledged"])
async def test_of_more_messages_at_a_time_than_there_is_room_for_the_oldest_makes_room(
    broker: Broker, topic: str, gives_up: bool
) -> None:
    options = shared(
        chunked_pending_max=1,
        chunk_ack_oldest=gives_up,
        chunk_expire_s=3.0 if gives_up else 60.0,
        negative_ack_delay_s=0.5,
    )
    first, second = b"1" * 2_500, b"2" * 2_500
    async with administer(broker.http_url) as admin, connect(broker.pulsar_url) as client:
        consumer = await client.subscribe(topic, "s", options)
        async with connect(broker.pulsar_url) as one, connect(broker.pulsar_url) as other:
            ours, theirs = await held(one, topic, first), await held(other, topic, second)
            ours.send(1)
            await anyio.sleep(0.3)
            theirs.send(3)
            found = await consumer.receive(20)
            assert found.data == second
            await consumer.acknowledge_stored(found)
            ours.send(2)
            if gives_up:
                with pytest.raises(TimedOut):
                    await consumer.receive(1.0)
            else:
                found = await consumer.receive(30)
                assert found.data == first
                await consumer.acknowledge_stored(found)
            await backlog_is(admin, topic, 0)
