"""The demo's clients: unmodified pika, aio-pika, the official Pulsar client and Spark.

Those for messages call ``step`` once a message, and return what they saw.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from arneb.demo.orders import QUEUE, Order

if TYPE_CHECKING:
    import pulsar

Step = Callable[[], None]

PREFETCH: Final = 500
PATIENCE_MS: Final = 10_000
"""How long to wait for a message that is due; if none comes, it is lost."""
SILENCE_MS: Final = 500
"""How long to listen for surplus messages after the last expected one."""


def publish_by_pika(port: int, orders: Iterable[Order], step: Step) -> int:
    """Publish persistent messages with confirms; returns how many were confirmed."""
    from arneb.demo.publisher import Publisher

    return Publisher(port, orders, step).run()


def consume_by_aio_pika(port: int, count: int, step: Step) -> list[Order]:
    """Consume and acknowledge exactly ``count`` messages."""
    return asyncio.run(_consume_by_aio_pika(port, count, step))


async def _consume_by_aio_pika(port: int, count: int, step: Step) -> list[Order]:
    import aio_pika

    seen: list[Order] = []
    connection = await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
    async with connection:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=PREFETCH)
        queue = await channel.get_queue(QUEUE)
        async with queue.iterator() as messages:
            async for message in messages:
                seen.append(Order.from_json(message.body))
                await message.ack()
                step()
                if len(seen) == count:
                    break
    return seen


def keep_for_audit(url: str) -> None:
    """Make a subscription that nobody reads, so that the log keeps all messages.

    Without it, or retention, the broker would drop what the queue's consumers have acknowledged.
    """
    import pulsar

    client = _pulsar_client(url)
    try:
        client.subscribe(QUEUE, "audit", initial_position=pulsar.InitialPosition.Earliest)
    finally:
        client.close()


def consume_by_pulsar(url: str, count: int, step: Step) -> list[Order]:
    """Consume and acknowledge ``count`` messages of the subscription ``amqp``, which is the queue,
    and any surplus ones."""
    import pulsar

    seen: list[Order] = []
    client = _pulsar_client(url)
    try:
        consumer = client.subscribe(QUEUE, "amqp", consumer_type=pulsar.ConsumerType.Shared)
        while True:
            try:
                patience_ms = PATIENCE_MS if len(seen) < count else SILENCE_MS
                message = consumer.receive(timeout_millis=patience_ms)
            except pulsar.Timeout:
                return seen
            seen.append(Order.from_json(message.data()))
            consumer.acknowledge(message)
            step()
    finally:
        client.close()


def _pulsar_client(url: str) -> "pulsar.Client":
    import pulsar

    return pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


def aggregate_by_spark(data_dir: Path) -> dict[str, tuple[int, int]]:
    """Return orders and cents by country, as Spark finds them in the log.

    Spark runs in a process of its own, because a JVM writes to the terminal as it pleases.
    """
    command = [sys.executable, "-m", "arneb.demo.spark_job", str(data_dir)]
    # Spark starts Python processes of its own; they must use this interpreter, which has arneb.
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        output = [line for line in done.stderr.splitlines() if not line.startswith("\tat ")]
        raise RuntimeError("Spark failed:\n" + "\n".join(output))
    answer: dict[str, tuple[int, int]] = json.loads(done.stdout.splitlines()[-1])
    return {country: (row[0], row[1]) for country, row in answer.items()}
