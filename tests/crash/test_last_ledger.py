"""SIGKILL at the removal of a topic's last ledger: no position is ever given out again.

The broker dies during a chosen write or flush of exactly those commits that close the ledger, open
the empty one after it and delete what was acknowledged.
"""

import asyncio
import random
from pathlib import Path

import pytest
from conformance.brokers.arneb import Arneb, run_arneb
from conformance.wire.amqp import AmqpClient, AmqpClosed, Delivery
from conformance.wire.protobuf import data_of, decode, integer
from conformance.wire.pulsar import PulsarClient
from conformance.wire.running import run
from tests.crash.failing_disk import FailingDisk, Field, compile_shim

TOPIC = "persistent://public/default/q"
BODY_BYTES = 140_000
"""Too large for the journal, whose takeover into LMDB would otherwise use up the writes meant for
the end of a ledger."""
ENTRIES = 16
"""Together more than a ledger must hold to be removed as soon as it is acknowledged."""
WRITES = 4
"""How many writes and flushes such a commit takes; the power is cut in each of them."""
KILLS = 12
SEED = 20_273
WITHIN_S = 30.0

Place = tuple[int, int]


async def publish(broker: Arneb, first: int, count: int) -> list[Place]:
    """Send messages with a receipt each; the result is their places."""
    client = await PulsarClient.open(broker.pulsar_address)
    await client.create_producer(TOPIC)
    places = []
    for number in range(first, first + count):
        body = b"%d " % number + bytes(BODY_BYTES)
        receipt = await asyncio.wait_for(client.send(number, body), WITHIN_S)
        place = decode(data_of(receipt, 3))
        places.append((integer(place, 1), integer(place, 2)))
    await client.abort()
    return places


async def drain(broker: Arneb, count: int) -> list[int]:
    """Receive and acknowledge until there are no more messages; the result is their numbers. The
    broker may die."""
    got: list[Delivery] = []
    enough = asyncio.Event()

    def delivered(delivery: Delivery) -> None:
        got.append(delivery)
        if len(got) == count:
            enough.set()

    client = await AmqpClient.open(broker.address)
    client.handlers.delivered = delivered
    await client.consume("q")
    await asyncio.wait_for(enough.wait(), WITHIN_S)
    client.acknowledge(got[-1].tag, multiple=True)
    try:
        await asyncio.wait_for(client.wait_closed(), 1.0)
    except (TimeoutError, AmqpClosed):
        await client.abort()
    return [int(delivery.body.split(b" ")[0]) for delivery in got]


async def backlog(broker: Arneb) -> int:
    client = await AmqpClient.open(broker.address)
    count = (await client.declare_queue("q")).message_count or 0
    await client.abort()
    return count


async def kill_at_the_end_of_ledgers(broker: Arneb, disk: FailingDisk, dice: random.Random) -> None:
    highest: Place = (0, -1)
    number = 0
    await backlog(broker)
    for round_ in range(KILLS):
        places = await publish(broker, number, ENTRIES)
        assert places[0] > highest, f"{places[0]} was given out although {highest} was before"
        assert places == sorted(set(places))
        highest, number = places[-1], number + ENTRIES
        disk.cut(1 + round_ % WRITES, dice.randrange(1 << 16))
        numbers = await drain(broker, await backlog(broker))
        assert numbers[-ENTRIES:] == list(range(number - ENTRIES, number))
        disk.heal()
        broker.kill()
        done = run_arneb("check", str(broker.data))
        assert done.returncode == 0, done.stdout + done.stderr
        broker.start()
        assert await backlog(broker) in (0, ENTRIES, len(numbers))


def test_no_position_is_given_out_twice(tmp_path: Path) -> None:
    shim = compile_shim(tmp_path)
    if shim is None:
        pytest.skip("needs a C compiler")
    disk = FailingDisk(shim, tmp_path / "control", tmp_path / "broker" / "data")
    broker = Arneb(
        tmp_path / "broker", listeners=("amqp", "pulsar"), extra=disk.environment
    ).start()
    try:
        run(kill_at_the_end_of_ledgers(broker, disk, random.Random(SEED)))
        # The disk's count is decisive: a process that dies closes its connections before it is
        # gone.
        assert disk[Field.CUTS] >= KILLS // 2, "expected the broker to die inside these commits"
    finally:
        disk.heal()
        broker.kill()
        disk.close()
