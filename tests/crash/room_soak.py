"""The soak of a small disk: a broker is filled, drained with acks only, and filled again.

``python -m tests.crash.room_soak [--rounds 10] [--seed N] [--mib 64] [--on tmpfs ext4]``, as root,
because each file system is mounted for it. It prints a line for each round, and fails if a message
is lost or comes twice, if a fill is much smaller than the first, or if publishers stay refused or
blocked.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.brokers.arneb import Arneb, run_arneb
from conformance.wire.amqp import AmqpClient, Delivery
from conformance.wire.running import run

QUEUES = ("small", "mixed", "large")
SIZES = {"small": (10, 400), "mixed": (10, 30_000), "large": (20_000, 100_000)}
RUNS = {"full": 50, "alarm": 4}
"""Messages sent to each queue at a time: few if the alarm has to be raised in time."""
WITHIN_S = 60.0
BLOCKED_S = 3.0
"""Publishers without an answer for this long count as blocked by the alarm."""
SHRINK_MAX = 0.7
"""A fill smaller than this share of the first means that room was lost."""
SETTINGS = {
    "full": "[alarms]\ndisk_free_min_bytes = 0\n",
    "alarm": "[alarms]\ndisk_free_min_bytes = 24000000\ncheck_interval_s = 0.1\n",
}
"""Fill until appends are refused for lack of room, or until the alarm blocks publishers."""


class Filler:
    """Publishes to every queue and keeps what was confirmed."""

    def __init__(self, client: AmqpClient, dice: random.Random, run_max: int) -> None:
        self._client = client
        self._run_max = run_max
        self._dice = dice
        self._sent: dict[int, tuple[str, bytes]] = {}
        self.confirmed: dict[str, list[bytes]] = {queue: [] for queue in QUEUES}
        self.refused = 0
        self._news = asyncio.Event()
        client.handlers.confirmed = self._answered

    @classmethod
    async def open(cls, broker: Arneb, dice: random.Random, run_max: int) -> "Filler":
        client = await AmqpClient.open(broker.address)
        for queue in QUEUES:
            await client.declare_queue(queue)
        await client.confirm_select()
        return cls(client, dice, run_max)

    async def fill(self) -> None:
        """Publish until something is refused or nothing is answered any more."""
        while not self.refused:
            for queue in QUEUES:
                for _ in range(self._run_max):
                    body = self._dice.randbytes(8) + bytes(self._dice.randint(*SIZES[queue]))
                    self._sent[self._client.published + 1] = queue, body
                    self._client.publish("", queue, body)
            if not await self.all_answered(BLOCKED_S):
                return

    async def all_answered(self, within_s: float) -> bool:
        """Whether everything that was sent is confirmed or refused in time."""
        try:
            async with asyncio.timeout(within_s):
                while self._sent:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        await self._client.abort()

    def _answered(self, tags: list[int], acked: bool) -> None:
        for tag in tags:
            queue, body = self._sent.pop(tag)
            if acked:
                self.confirmed[queue].append(body)
            else:
                self.refused += 1
        self._news.set()


async def drain(broker: Arneb, queue: str, last: asyncio.Event) -> list[bytes]:
    """Consume and acknowledge until ``last`` is set and the queue is empty; the result is the
    bodies."""
    got: list[bytes] = []
    news = asyncio.Event()
    client = await AmqpClient.open(broker.address)

    def delivered(delivery: Delivery) -> None:
        got.append(delivery.body)
        client.acknowledge(delivery.tag)
        news.set()

    client.handlers.delivered = delivered
    await client.consume(queue, prefetch=100)
    while True:
        news.clear()
        try:
            await asyncio.wait_for(news.wait(), 1.0)
        except TimeoutError:
            if last.is_set():
                break
    await client.close()
    return got


async def one_round(broker: Arneb, dice: random.Random, run_max: int) -> tuple[int, int]:
    """Fill and drain; the result is how many messages and bytes were confirmed."""
    filler = await Filler.open(broker, dice, run_max)
    await filler.fill()
    all_in = asyncio.Event()
    draining = [asyncio.create_task(drain(broker, queue, all_in)) for queue in QUEUES]
    if not await filler.all_answered(WITHIN_S):
        raise AssertionError(f"publishers stay blocked though all is drained: {broker.log[-500:]}")
    all_in.set()
    async with asyncio.timeout(WITHIN_S):
        drained = await asyncio.gather(*draining)
    for queue, bodies in zip(QUEUES, drained, strict=True):
        if bodies != filler.confirmed[queue]:
            raise AssertionError(
                f"{queue}: {len(filler.confirmed[queue])} confirmed, {len(bodies)} came"
            )
    await filler.close()
    sizes = [len(body) for bodies in filler.confirmed.values() for body in bodies]
    return len(sizes), sum(sizes)


async def soak(broker: Arneb, rounds: int, dice: random.Random, name: str, run_max: int) -> None:
    filled: list[int] = []
    for number in range(1, rounds + 1):
        start = time.monotonic()
        messages, size = await one_round(broker, dice, run_max)
        filled.append(size)
        free = os.statvfs(broker.data)
        file_mib = (broker.data / "data.mdb").stat().st_blocks * 512 / (1 << 20)
        print(
            f"{name} round {number:2}: {messages:6} messages, {size / (1 << 20):5.1f} MiB in, "
            f"all out; data.mdb {file_mib:5.1f} MiB, disk free "
            f"{free.f_bavail * free.f_frsize / (1 << 20):5.1f} MiB, "
            f"{time.monotonic() - start:4.1f} s",
            flush=True,
        )
    if min(filled) < SHRINK_MAX * filled[0]:
        raise AssertionError(f"{name}: room was lost, {filled}")


@contextmanager
def mounted(kind: str, place: Path, mib: int) -> Iterator[None]:
    """A file system of that kind and size, mounted at ``place``."""
    place.mkdir()
    image = place.with_suffix(".img")
    if kind == "tmpfs":
        mount = ["-t", "tmpfs", "-o", f"size={mib}m", "tmpfs"]
    else:
        with image.open("wb") as file:
            file.truncate(mib << 20)
        subprocess.run([f"mkfs.{kind}", "-q", str(image)], check=True, capture_output=True)
        mount = ["-o", "loop", str(image)]
    subprocess.run(["mount", *mount, str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)
        image.unlink(missing_ok=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, prog="room_soak")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--on", nargs="+", default=["tmpfs", "ext4"])
    parser.add_argument("--until", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    asked = parser.parse_args(arguments)
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        for kind in asked.on:
            for until in asked.until:
                place = Path(scratch, f"{kind}-{until}")
                with mounted(kind, place, asked.mib):
                    broker = Arneb(
                        place / "broker", listeners=("amqp",), settings=SETTINGS[until]
                    ).start()
                    try:
                        dice = random.Random(asked.seed)
                        run(soak(broker, asked.rounds, dice, f"{kind}, {until}:", RUNS[until]))
                    finally:
                        broker.kill()
                    done = run_arneb("check", str(broker.data))
                    if done.returncode:
                        raise AssertionError(done.stdout + done.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
