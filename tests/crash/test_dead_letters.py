"""SIGKILL between a queue and its dead letter exchange: every message is at one of the two."""

import asyncio
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path

from conformance.brokers.arneb import Arneb
from conformance.wire.amqp import AmqpClient, AmqpClosed, Delivery
from conformance.wire.running import run as run_scenario

KILLS = 4
SEED = 20_261
LOAD_S_MIN, LOAD_S_MAX = 0.05, 0.4
BURST = 50
ROUNDS_MAX = 3_000

ARGUMENTS = {
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "dead",
    "x-message-ttl": 30,
    "x-max-length": 300,
}
"""Everything published to these queues leaves them: rejected, expired, or dropped by the length
limit."""


class Load:
    """What is published in all lives of the broker."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.confirmed: set[bytes] = set()

    async def publish(self, broker: Arneb) -> None:
        """Publish until the broker is gone."""
        with suppress(AmqpClosed, OSError):
            client = await AmqpClient.open(broker.address)
            await client.confirm_select()
            first = len(self.sent) - 1

            def confirmed(tags: list[int], acked: bool) -> None:
                if acked:
                    self.confirmed.update(self.sent[first + tag] for tag in tags)

            client.handlers.confirmed = confirmed
            while client.closed is None:
                for _ in range(BURST):
                    body = b"%d" % len(self.sent)
                    self.sent.append(body)
                    client.publish("", "q", body)
                await client.round_trip()

    async def reject(self, broker: Arneb) -> None:
        """Reject what comes until the broker is gone."""
        with suppress(AmqpClosed, OSError):
            client = await AmqpClient.open(broker.address)

            def delivered(delivery: Delivery) -> None:
                client.reject(delivery.tag)

            client.handlers.delivered = delivered
            await client.consume("q", prefetch=30)
            await client.wait_closed()


async def declare(client: AmqpClient) -> int:
    """Declare both queues; the result is how many messages are in the first."""
    await client.declare_queue("dead")
    answer = await client.declare_queue("q", arguments=ARGUMENTS)
    return int(answer.message_count or 0)


async def kill_under_load(directory: Path, dice: random.Random) -> None:
    broker = Arneb(directory, listeners=("amqp",))
    load = Load()
    try:
        for _ in range(KILLS):
            broker.start()
            client = await AmqpClient.open(broker.address)
            await declare(client)
            tasks = [asyncio.create_task(each(broker)) for each in (load.reject, load.publish)]
            await asyncio.wait(tasks, timeout=dice.uniform(LOAD_S_MIN, LOAD_S_MAX))
            broker.kill()
            await asyncio.gather(*tasks)
            await client.abort()
        broker.start()
        client = await AmqpClient.open(broker.address)
        while await declare(client):
            pass
        bodies = await drained(client, load.confirmed)
    finally:
        broker.kill()
    assert load.confirmed <= bodies.keys(), "a confirmed message is at neither place"
    assert bodies.keys() <= set(load.sent)
    assert max(bodies.values()) == 1, "a message is at two places"
    assert len(load.confirmed) > KILLS * BURST


async def drained(client: AmqpClient, expected: set[bytes]) -> Counter[bytes]:
    """The dead letters, once ``expected`` are among them or nothing more comes; the last of them
    may still be on their way from the queue."""
    answer = await client.declare_queue("dead")
    bodies: Counter[bytes] = Counter()
    client.handlers.delivered = lambda delivery: bodies.update([delivery.body])
    await client.consume("dead", no_ack=True)
    rounds = 0
    while bodies.total() < int(answer.message_count or 0) or (
        rounds < ROUNDS_MAX and not expected <= bodies.keys()
    ):
        rounds += 1
        await client.round_trip()
    return bodies


def test_a_dead_letter_is_at_one_place_after_a_crash(tmp_path: Path) -> None:
    run_scenario(kill_under_load(tmp_path, random.Random(SEED)))
