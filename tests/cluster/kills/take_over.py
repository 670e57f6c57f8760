"""Take-over: how long a cluster with much data confirms nothing when its leader is lost.

``python -m tests.cluster.kills.take_over --kills 10 --stops 10`` starts Apache Pulsar (two brokers,
three bookies), or Arneb in its place (``--service arneb``), and three nodes. It fills 1,000 queues
with 1,000,000 messages, and then kills or stops the leader again and again. The figure is the time
until a publisher that reconnects by itself has its next confirm.
"""

import asyncio
import random
import statistics
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from conformance.brokers.arneb_cluster import ArnebCluster
from conformance.brokers.pulsar_service import KINDS as SERVICES
from conformance.brokers.pulsar_service import pulsar_service
from conformance.wire.amqp import AmqpClient
from conformance.wire.running import run as run_scenario
from tests.cluster.kills.canary import Canary
from tests.crash.players.clients import Publisher

WINDOW: Final = 4_000
BODY_BYTES: Final = 100
CONFIRM_WITHIN_S: Final = 90.0
REST_S: Final = (0.5, 2.0)


class TakeOver:
    """One filled cluster."""

    def __init__(self, cluster: ArnebCluster, seed: int) -> None:
        self.took_s: dict[str, list[float]] = {"SIGKILL": [], "SIGSTOP": []}
        self._cluster = cluster
        self._dice = random.Random(seed)

    def __repr__(self) -> str:
        return f"<TakeOver of {self._cluster!r}>"

    async def run(self, queues: int, messages: int, kills: int, stops: int) -> None:
        """Fill it, and take the leader away so often. Raises TimeoutError."""
        self._cluster.start()
        began = time.monotonic()
        await self._fill(queues, messages)
        await asyncio.to_thread(self._cluster.wait_equal, CONFIRM_WITHIN_S)
        took_s = time.monotonic() - began
        print(f"{messages} messages in {queues} queues on three nodes, {took_s:.0f} s", flush=True)
        nodes = [each.port("amqp") for each in self._cluster.nodes]
        canary = Canary(lambda: self._cluster.address, nodes)
        await canary.start()
        order = ["SIGKILL"] * kills + ["SIGSTOP"] * stops
        self._dice.shuffle(order)
        for how in order:
            await asyncio.sleep(self._dice.uniform(*REST_S))
            await self._lose_leader(canary, how)
        if anomalies := await canary.finish():
            raise AssertionError("\n".join(anomalies[:5]))
        print(f"canary: {canary.summary()}")

    async def _fill(self, queues: int, messages: int) -> None:
        client = await AmqpClient.open(self._cluster.leader().port("amqp"))
        for number in range(queues):
            await client.declare_queue(f"q{number}")
        publisher = await Publisher.begin(client, WINDOW, lambda number, acked: None)
        body = b"." * BODY_BYTES
        for number in range(messages):
            await publisher.publish(number, "", f"q{number % queues}", body)
        await publisher.settle()
        await client.abort()

    async def _lose_leader(self, canary: Canary, how: str) -> None:
        leader = await asyncio.to_thread(self._cluster.leader)
        unanswered, at = canary.unanswered, time.monotonic()
        if how == "SIGKILL":
            leader.kill()
        else:
            leader.stand_still()
        confirm = await canary.confirm_after(at, CONFIRM_WITHIN_S)
        self.took_s[how].append(confirm - at)
        note = ", the publisher hung there" if canary.unanswered > unanswered else ""
        print(
            f"{how} of {leader.node}: the next confirm after {confirm - at:.2f} s{note}", flush=True
        )
        if how == "SIGKILL":
            leader.spawn()
            await asyncio.to_thread(leader.wait_ready)
        else:
            leader.go_on()
        await asyncio.to_thread(self._cluster.wait_equal, CONFIRM_WITHIN_S)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what was measured."""
    parser = ArgumentParser(prog="take_over", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--stops", type=int, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--service", choices=SERVICES, default="cluster")
    wanted = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(10**6) if wanted.seed is None else wanted.seed
    print(f"seed {seed}", flush=True)
    with pulsar_service(wanted.service) as service, TemporaryDirectory() as made:
        cluster = ArnebCluster(Path(made) / "cluster", service)
        play = TakeOver(cluster, seed)
        try:
            run_scenario(play.run(wanted.queues, wanted.messages, wanted.kills, wanted.stops))
        finally:
            cluster.kill()
            for how, took_s in play.took_s.items():
                if took_s:
                    print(
                        f"{how}: {len(took_s)} times, median {statistics.median(took_s):.2f} s, "
                        f"worst {max(took_s):.2f} s",
                        flush=True,
                    )


if __name__ == "__main__":
    sys.exit(main())
