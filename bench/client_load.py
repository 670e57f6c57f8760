"""One run of one client: sends, or receives and acknowledges, a number of messages.

``python -m bench.client_load CLIENT DIRECTION URL TOPIC MESSAGES PID`` prints as JSON the number of
messages, the elapsed time, its own CPU time and that of the broker's process, ``PID``. Before the
clock starts, a tenth as many messages warm it up.

The rule: each client does what its documentation recommends for throughput, with the same sizes:
bodies of 1 KB, batches of at most 100, 20,000 messages without a receipt, a receiver queue of
5,000, each message acknowledged individually.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio
import pulsar
import pulsar.asyncio

from arneb_pulsar.client import (
    Batching,
    ConsumerOptions,
    InitialPosition,
    MessageId,
    ProducerOptions,
    SubscriptionType,
    connect,
)
from arneb_pulsar.client.errors import QueueFull

BODY: Final = bytes(1024)
BATCH: Final = 100
BATCH_MS: Final = 5
PENDING: Final = 20_000
RECEIVER_QUEUE: Final = 5_000
WITHIN_MS: Final = 30_000
TASKS: Final = 2_000
"""How many sends the official asyncio client has under way at once; it has only one way to send."""

WARM_UP: Final = 0.1
SUBSCRIPTION: Final = "bench"


class Clock:
    """Measures elapsed time, this process's CPU time and the broker's between :meth:`start` and
    :meth:`stop`."""

    def __init__(self, broker_pid: int) -> None:
        self._broker_pid = broker_pid
        self._began = (0.0, 0.0, 0.0)

    def __repr__(self) -> str:
        return f"<Clock, began at {self._began}>"

    def start(self) -> None:
        """Start the clock."""
        self._began = self._now()

    def stop(self, messages: int) -> None:
        """Stop the clock and print the measurements."""
        passed = [now - began for now, began in zip(self._now(), self._began, strict=True)]
        print(json.dumps([messages, *passed]), flush=True)

    def _now(self) -> tuple[float, float, float]:
        return time.perf_counter(), time.process_time(), cpu_s(self._broker_pid)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process so far, all threads together."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Sent:
    """Collects the failures that receipts report, for both clients."""

    def __init__(self) -> None:
        self.failed: list[object] = []

    def __repr__(self) -> str:
        return f"<Sent, {len(self.failed)} failed>"

    def ours(self, _found: MessageId | None, error: Exception | None) -> None:
        """Take a receipt of our client."""
        if error is not None:
            self.failed.append(error)

    def wheel(self, result: pulsar.Result, _found: object) -> None:
        """Take a receipt of the official client."""
        if result != pulsar.Result.Ok:
            self.failed.append(result)

    def check(self) -> None:
        """Raise :class:`SystemExit` if a message was not stored."""
        if self.failed:
            raise SystemExit(f"expected receipts, got {self.failed[:3]}")


async def produce_ours(url: str, topic: str, messages: int, clock: Clock) -> None:
    """Our client, without a task per message."""
    sent = Sent()
    batching = Batching(messages_max=BATCH, delay_s=BATCH_MS / 1000)
    options = ProducerOptions(batching=batching, pending_max=PENDING)
    async with connect(url) as client, await client.create_producer(topic, options) as producer:
        for count in (int(messages * WARM_UP), messages):
            clock.start()
            for _ in range(count):
                while True:
                    try:
                        producer.send_nowait(BODY, callback=sent.ours)
                        break
                    except QueueFull:
                        await producer.wait_for_room()
            await producer.flush()
        clock.stop(messages)
    sent.check()


async def consume_ours(url: str, topic: str, messages: int, clock: Clock) -> None:
    """Our client, message by message."""
    options = ConsumerOptions(
        type=SubscriptionType.SHARED,
        initial_position=InitialPosition.EARLIEST,
        queue_size=RECEIVER_QUEUE,
    )
    async with connect(url) as client:
        consumer = await client.subscribe(topic, SUBSCRIPTION, options)
        for count in (int(messages * WARM_UP), messages):
            clock.start()
            for _ in range(count):
                consumer.acknowledge(await consumer.receive())
        clock.stop(messages)
        await consumer.close()


def produce_wheel(url: str, topic: str, messages: int, clock: Clock) -> None:
    """The official client, with callbacks."""
    client, sent = pulsar.Client(url, logger=QUIET), Sent()
    producer = client.create_producer(topic, **PRODUCING, block_if_queue_full=True)
    for count in (int(messages * WARM_UP), messages):
        clock.start()
        for _ in range(count):
            producer.send_async(BODY, sent.wheel)
        producer.flush()
    clock.stop(messages)
    client.close()
    sent.check()


def consume_wheel(url: str, topic: str, messages: int, clock: Clock) -> None:
    """The official client, message by message."""
    client = pulsar.Client(url, logger=QUIET)
    consumer = client.subscribe(topic, SUBSCRIPTION, **CONSUMING)
    for count in (int(messages * WARM_UP), messages):
        clock.start()
        for _ in range(count):
            consumer.acknowledge(consumer.receive(WITHIN_MS))
    clock.stop(messages)
    client.close()


async def produce_wheel_asyncio(url: str, topic: str, messages: int, clock: Clock) -> None:
    """The official asyncio client, with many sends at once."""
    client = pulsar.asyncio.Client(url, logger=QUIET)
    producer = await client.create_producer(topic, **PRODUCING)
    for count in (int(messages * WARM_UP), messages):
        clock.start()
        for begin in range(0, count, TASKS):
            these = range(begin, min(begin + TASKS, count))
            await asyncio.gather(*(producer.send(BODY) for _ in these))
    clock.stop(messages)
    await client.close()


async def consume_wheel_asyncio(url: str, topic: str, messages: int, clock: Clock) -> None:
    """The official asyncio client, message by message."""
    client = pulsar.asyncio.Client(url, logger=QUIET)
    consumer = await client.subscribe(topic, SUBSCRIPTION, **CONSUMING)
    for count in (int(messages * WARM_UP), messages):
        clock.start()
        for _ in range(count):
            await consumer.acknowledge(await consumer.receive())
    clock.stop(messages)
    await client.close()


QUIET: Final = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
PRODUCING: Final[dict[str, Any]] = {
    "batching_enabled": True,
    "batching_max_messages": BATCH,
    "batching_max_publish_delay_ms": BATCH_MS,
    "max_pending_messages": PENDING,
}
CONSUMING: Final[dict[str, Any]] = {
    "consumer_type": pulsar.ConsumerType.Shared,
    "receiver_queue_size": RECEIVER_QUEUE,
    "initial_position": pulsar.InitialPosition.Earliest,
}

Run = Callable[[str, str, int, Clock], Awaitable[None]]


Play = Callable[[str, str, int, Clock], None]


def on(backend: str, run: Run) -> Play:
    """Run a coroutine function in an event loop of that backend."""

    def play(url: str, topic: str, messages: int, clock: Clock) -> None:
        anyio.run(run, url, topic, messages, clock, backend=backend)

    return play


RUNS: Final[dict[str, dict[str, Play]]] = {
    "ours, trio": {"produce": on("trio", produce_ours), "consume": on("trio", consume_ours)},
    "ours, asyncio": {
        "produce": on("asyncio", produce_ours),
        "consume": on("asyncio", consume_ours),
    },
    "wheel": {"produce": produce_wheel, "consume": consume_wheel},
    "wheel, asyncio": {
        "produce": on("asyncio", produce_wheel_asyncio),
        "consume": on("asyncio", consume_wheel_asyncio),
    },
}


if __name__ == "__main__":
    name, direction, service, where, number, pid = sys.argv[1:]
    RUNS[name][direction](service, where, int(number), Clock(int(pid)))
