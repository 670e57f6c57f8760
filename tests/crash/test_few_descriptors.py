"""Few file descriptors left: new clients are refused at every port, and connected ones go on."""

import asyncio
import os
import resource
import socket
from pathlib import Path

from conformance.brokers.arneb import Arneb
from conformance.wire.amqp import AmqpClient, AmqpClosed
from conformance.wire.running import run

LISTENERS = ("amqp", "pulsar", "http", "http-pulsar")
DESCRIPTORS_LEFT = 60
STRANGERS = 60
"""New clients at each port."""
MESSAGES = 1_500
BODY_BYTES = 30_000
"""Large enough for the data file to grow several times."""
LOG_BYTES_MAX = 10_000
WITHIN_S = 60.0


def limit_descriptors(pid: int, more: int) -> None:
    """Limit a running process to that many more descriptors."""
    highest = max(map(int, os.listdir(f"/proc/{pid}/fd")))
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest + 1 + more, hard))


async def scenario(broker: Arneb) -> None:
    client = await AmqpClient.open(broker.address)
    answers: list[bool] = []
    all_answered = asyncio.Event()

    def answered(tags: list[int], acked: bool) -> None:
        answers.extend([acked] * len(tags))
        if len(answers) == MESSAGES:
            all_answered.set()

    client.handlers.confirmed = answered
    await client.declare_queue("q")
    await client.confirm_select()
    limit_descriptors(broker.pid, DESCRIPTORS_LEFT)
    strangers = []
    for listener in LISTENERS:
        address = broker._addresses[listener]
        for _ in range(STRANGERS):
            stranger = socket.create_connection((address.host, address.port))
            strangers.append(stranger)
    async with asyncio.timeout(WITHIN_S):
        for number in range(MESSAGES):
            client.publish("", "q", b"%d" % number + bytes(BODY_BYTES))
            if number % 100 == 0:
                await client.drain()
        await all_answered.wait()
    assert answers.count(False) == 0
    for stranger in strangers:
        stranger.close()
    async with asyncio.timeout(WITHIN_S):
        while (other := await try_to_open(broker)) is None:
            pass
    assert (await other.declare_queue("q", passive=True)).message_count == MESSAGES
    await other.abort()
    await client.abort()


async def try_to_open(broker: Arneb) -> AmqpClient | None:
    try:
        return await AmqpClient.open(broker.address)
    except (OSError, EOFError, AmqpClosed):
        return None


def test_an_innocent_publisher_is_not_refused_and_the_log_stays_short(tmp_path: Path) -> None:
    broker = Arneb(tmp_path, listeners=LISTENERS).start()
    try:
        run(scenario(broker))
        assert "descriptors" in broker.log
        assert "Traceback" not in broker.log
        assert len(broker.log) < LOG_BYTES_MAX
    finally:
        broker.kill()
