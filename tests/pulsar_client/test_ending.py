"""When the ``async with`` ends there is no task left, and no connection."""

import asyncio
import gc
from collections.abc import Callable

import anyio
import pytest
import trio
from tests.pulsar_client.conftest import Broker

from arneb_pulsar.client import Client, ConsumerOptions, SubscriptionType, connect

pytestmark = pytest.mark.in_peace("counts tasks")


def tasks_of(backend: str) -> int:
    """How many there are."""
    if backend == "trio":
        return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())


async def used(client: Client, topic: str) -> None:
    """All that has tasks: a pattern that watches, a table view, something that comes back."""
    producer = await client.create_producer(topic)
    await producer.send(b"x", key="k")
    shared = ConsumerOptions(type=SubscriptionType.SHARED, retry=True)
    await client.subscribe(topic, "s", shared)
    await client.subscribe_pattern("public/default/ending-.*", "s")
    view = await client.create_table_view(topic)
    assert dict(view) == {"k": b"x"}


@pytest.mark.parametrize("end", ["well", "error", "cancelled"])
async def test_nothing_is_left(broker: Broker, topic: str, backend: str, end: str) -> None:
    before = tasks_of(backend)
    match end:
        case "well":
            async with connect(broker.pulsar_url) as client:
                await used(client, topic)
                assert tasks_of(backend) > before
        case "error":
            with pytest.raises(LookupError, match="by the application"):
                async with connect(broker.pulsar_url) as client:
                    await used(client, topic)
                    raise LookupError("by the application")
        case "cancelled":
            with anyio.CancelScope() as scope:
                async with connect(broker.pulsar_url) as client:
                    await used(client, topic)
                    scope.cancel()
                    await anyio.sleep_forever()
    assert tasks_of(backend) == before
    gc.collect()  # a socket that was not closed warns when it goes


async def test_other_tasks_of_the_application_go_on(broker: Broker, topic: str) -> None:
    """An error of the block comes out as it is, in no group."""
    done: list[str] = []

    async def other(note: Callable[[str], None]) -> None:
        await anyio.sleep(0.05)
        note("other")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other, done.append)
        with pytest.raises(ValueError, match="plain"):
            async with connect(broker.pulsar_url) as client:
                await client.create_producer(topic)
                raise ValueError("plain")
    assert done == ["other"]
