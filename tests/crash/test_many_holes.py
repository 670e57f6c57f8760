"""SIGKILL with a hundred thousand holes in a cursor: what was answered does not come back.

Apache Pulsar keeps 10,000 ranges of a cursor and forgets the rest; Arneb forgets nothing.
"""

import asyncio
import random
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from conformance.brokers.arneb import Arneb
from conformance.wire.amqp import AmqpClient
from conformance.wire.pulsar import Entry, Place, PulsarClient, PulsarClosed
from conformance.wire.running import run as run_scenario

MESSAGES = 220_000
HOLES_MIN = 100_000
"""From this number on, the broker may be killed at any instant."""

KILLS = 2
SEED = 20_271
ACKED_AT_ONCE = 500
PUBLISHED_AT_ONCE = 2_000
WITHIN_S = 60.0
TOPIC = "persistent://public/default/q"
SUBSCRIPTION = "billing"
UNLIMITED = """
[pulsar]
max_unacked_messages_per_consumer = 0
max_unacked_messages_per_subscription = 0
"""


async def publish(broker: Arneb) -> None:
    client = await AmqpClient.open(broker.address)
    await client.declare_queue("q")
    reader = await PulsarClient.open(broker.pulsar_address)
    await reader.subscribe(TOPIC, SUBSCRIPTION)
    await reader.abort()
    await client.confirm_select()
    for first in range(0, MESSAGES, PUBLISHED_AT_ONCE):
        for number in range(first, first + PUBLISHED_AT_ONCE):
            client.publish("", "q", b"%d" % number)
        await client.drain()
        await asyncio.sleep(0)
    await client.round_trip()
    await client.close()


class Reader:
    """A consumer of everything that is left, and what it was told."""

    def __init__(self) -> None:
        self.answered: set[Place] = set()
        self.asked: set[Place] = set()

    async def read(
        self, broker: Arneb, expected: int, wanted: Collection[Place] = ()
    ) -> tuple[PulsarClient, list[Place]]:
        """Receive until ``expected`` entries, including ``wanted``, have come."""
        client = await PulsarClient.open(broker.pulsar_address)
        places: list[Place] = []
        missing = set(wanted)  # entries whose acknowledgement was never answered come back too
        all_here = asyncio.Event()

        def received(_: int, entry: Entry) -> None:
            places.append(entry.place)
            missing.discard(entry.place)
            if len(places) >= expected and not missing:
                all_here.set()

        client.received = received
        await client.subscribe(TOPIC, SUBSCRIPTION)
        client.flow(MESSAGES)
        await asyncio.wait_for(all_here.wait(), WITHIN_S)
        return client, places

    async def acknowledge_every_second(self, client: PulsarClient, places: list[Place]) -> None:
        """Acknowledge every second entry until everything is answered or the broker is gone."""
        wanted = places[::2]
        with suppress(PulsarClosed, OSError):
            for first in range(0, len(wanted), ACKED_AT_ONCE):
                part = wanted[first : first + ACKED_AT_ONCE]
                self.asked.update(part)
                await client.acknowledge([(place, None) for place in part])
                self.answered.update(part)


async def kill_beside_holes(directory: Path, dice: random.Random) -> None:
    broker = Arneb(directory, listeners=("amqp", "pulsar"), settings=UNLIMITED)
    reader = Reader()
    try:
        broker.start()
        await publish(broker)
        client, log = await reader.read(broker, MESSAGES)
        assert len(set(log)) == MESSAGES
        # The first entry stays unacknowledged and holds the mark-delete position back, so that
        # everything behind it is a hole.
        left = log[1:]
        for _ in range(KILLS):
            acking = asyncio.create_task(reader.acknowledge_every_second(client, left))
            while len(reader.answered) < HOLES_MIN and not acking.done():
                await asyncio.wait([acking], timeout=0.01)
            await asyncio.wait([acking], timeout=dice.uniform(0, 0.2))
            broker.kill()
            await acking
            await client.abort()
            broker.start()
            expected = set(log) - reader.asked
            client, back = await reader.read(broker, len(expected), expected)
            assert not set(back) & reader.answered, "an answered acknowledgement was forgotten"
            await asyncio.sleep(0)
            left = [place for place in back if place != log[0]]
            assert len(reader.answered) >= HOLES_MIN
        await client.abort()
        broker.stop()
        broker.start()
        expected = set(log) - reader.asked
        client, back = await reader.read(broker, len(expected), expected)
        assert not set(back) & reader.answered
        assert set(back) >= expected
        await client.abort()
    finally:
        broker.kill()


def test_no_answered_acknowledgement_is_forgotten(tmp_path: Path) -> None:
    run_scenario(kill_beside_holes(tmp_path, random.Random(SEED)))
