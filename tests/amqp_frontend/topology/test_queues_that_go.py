"""Queues that go only if nobody uses them: what came while that waited for its turn counts."""

import pytest
import trio
import trio.testing
from tests.amqp_frontend.topology.conftest import ME, Box, Opener, Place

from arneb_amqp.errors import AmqpError
from arneb_amqp.topology.attachments import Consumption
from arneb_amqp.topology.housekeeping import delete_expired
from arneb_amqp.topology.names import topic_of
from arneb_amqp.topology.queue import Queue
from arneb_amqp.wire.tables import long
from arneb_core.interface import ConsumerSpec, Window
from arneb_core.testing.engine_kit import Outcome, RecordingSink, make_entry, quiet

pytestmark = pytest.mark.real_time

IN_TURN = ConsumerSpec("pulsar")


async def while_it_waits(place: Place, delete, happens) -> list[AmqpError]:  # type: ignore[no-untyped-def]
    """What ``delete`` was refused with when ``happens`` did so while it waited for its turn."""
    refused: list[AmqpError] = []

    async def attempt() -> None:
        async with place.topology.changing():
            try:
                await delete()
            except AmqpError as error:
                refused.append(error)

    place.faults.hold()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(place.engine.topic(topic_of("/", "q")).subscribe, "somebody else's")
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(attempt)
        await trio.testing.wait_all_tasks_blocked()
        happens()
        place.faults.release()
    await quiet(place.engine)
    return refused


def joined(queue: Queue) -> None:
    """A Pulsar client comes: it asks nobody."""
    queue.subscription.attach(IN_TURN, RecordingSink())


async def test_a_message_that_came_meanwhile_keeps_an_empty_queue(broker: Opener) -> None:
    """Its publisher has the confirm: it must not go with a queue that went because it was empty."""
    async with broker() as place:
        queue = await place.declare("q")
        stored = Outcome()

        async def delete() -> None:
            await place.vhost.queues.delete_by_name("q", ME, if_unused=False, if_empty=True)

        def publish() -> None:
            place.engine.append(queue.topic, [make_entry(b"a")], stored, passes_over_gone=True)

        (refused,) = await while_it_waits(place, delete, publish)
        assert "not empty" in str(refused)
        assert await stored.wait() is None
        assert queue.message_count == 1 and place.vhost.queues.has(queue)
        assert place.vhost.router.route("", "q").queues == ("q",)


async def test_a_consumer_that_came_meanwhile_keeps_an_unused_queue(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare("q")

        async def delete() -> None:
            await place.vhost.queues.delete_by_name("q", ME, if_unused=True, if_empty=False)

        (refused,) = await while_it_waits(place, delete, lambda: joined(queue))
        assert "in use" in str(refused) and place.vhost.queues.has(queue)


async def test_a_consumer_that_came_meanwhile_keeps_an_expiring_queue(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare("q", arguments={"x-expires": long(1000)})

        async def delete() -> None:
            await delete_expired(place.vhost.queues, queue.used_at_ms + 1000)

        assert not await while_it_waits(place, delete, lambda: joined(queue))
        assert place.vhost.queues.has(queue)


async def test_a_consumer_that_came_meanwhile_keeps_an_auto_delete_queue(broker: Opener) -> None:
    async with broker() as place:
        queue = await place.declare("q", auto_delete=True)
        wanted = Consumption("q", "tag", False, False, {}, (Window(), Window()))
        async with place.topology.changing():
            attachment = await place.vhost.attachments.attach(wanted, ME, Box())

        async def detach() -> None:
            await place.vhost.attachments.detach(attachment)

        assert not await while_it_waits(place, detach, lambda: joined(queue))
        assert place.vhost.queues.has(queue) and queue.consumer_count == 1
