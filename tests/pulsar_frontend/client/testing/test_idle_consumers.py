"""What consumers cost that wait for messages: counted, on a broker in memory."""

import gc
import tracemalloc
from pathlib import Path

import anyio
import trio

import arneb_pulsar.client
from arneb_pulsar.client import ClientOptions, ConsumerOptions, SubscriptionType, connect
from arneb_pulsar.client.testing import FakeBroker

LIBRARY = str(Path(arneb_pulsar.client.__file__).parent)
CONSUMERS = 200
BYTES_MAX = 12 * 1024
"""A consumer's; ten thousand of them are to fit 200 MiB with all that Python needs beside."""


def library_bytes() -> int:
    """What the library's own lines hold, without those of the broker in memory."""
    gc.collect()
    taken = tracemalloc.take_snapshot().filter_traces(
        [
            tracemalloc.Filter(inclusive=True, filename_pattern=f"{LIBRARY}/*"),
            tracemalloc.Filter(inclusive=False, filename_pattern=f"{LIBRARY}/testing/*"),
        ]
    )
    return sum(each.size for each in taken.statistics("filename"))


async def test_an_idle_consumer_is_a_few_objects_and_no_task() -> None:
    broker = FakeBroker()
    options = ConsumerOptions(type=SubscriptionType.SHARED)
    async with connect(broker.url, ClientOptions(dial=broker.dial)) as client:
        await client.subscribe("t", "first", options)
        tasks = trio.lowlevel.current_statistics().tasks_living
        tracemalloc.start()
        try:
            before = library_bytes()
            for number in range(CONSUMERS):
                await client.subscribe("t", f"s-{number}", options)
            each_bytes = (library_bytes() - before) / CONSUMERS
        finally:
            tracemalloc.stop()
        await anyio.sleep(1)
        assert trio.lowlevel.current_statistics().tasks_living == tasks
        assert len(broker.open_streams) == 1
        assert each_bytes < BYTES_MAX
