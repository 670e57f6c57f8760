"""What ten thousand idle consumers of one client cost its process.

``python -m bench.idle_consumers`` creates them on an Arneb broker with one client. It prints the
growth of the process's memory, in total and per consumer, the numbers of tasks and connections, and
the CPU load of the process while nothing arrives. The exit status is 0 if the target is met.
"""

import argparse
import gc
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import trio
from conformance.brokers.arneb import Arneb

from arneb_pulsar.client import Client, ConsumerOptions, SubscriptionType, connect

CONSUMERS: Final = 10_000
TOPICS: Final = 1_000
AT_ONCE: Final = 100
IDLE_S: Final = 3.0
TARGET_MIB: Final = 200
MIB: Final = 1024 * 1024


def resident_bytes() -> int:
    """The resident memory of this process now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError("expected a VmRSS line in /proc/self/status")


async def subscribe_many(client: Client, first: int, end: int, step: int, made: list[Any]) -> None:
    """Create every ``step``-th consumer."""
    options = ConsumerOptions(type=SubscriptionType.SHARED)
    for number in range(first, end, step):
        topic, subscription = f"idle-{number % TOPICS}", f"s-{number // TOPICS}"
        made.append(await client.subscribe(topic, subscription, options))


async def measure(url: str, consumers: int) -> float:
    """Print the figures; the result is the memory of all consumers, in MiB."""
    async with connect(url) as client:
        await client.ping()
        gc.collect()
        before = resident_bytes()
        made: list[Any] = []
        began = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for lane in range(AT_ONCE):
                tasks.start_soon(subscribe_many, client, lane, consumers, AT_ONCE, made)
        took_s = time.perf_counter() - began
        gc.collect()
        grown_mib = (resident_bytes() - before) / MIB
        print(f"{len(made)} consumers in {took_s:.1f} s")
        each_kib = grown_mib * 1024 / consumers
        print(f"memory: {grown_mib:.1f} MiB more, {each_kib:.1f} KiB a consumer")
        print(f"tasks: {trio.lowlevel.current_statistics().tasks_living}; {client!r}")
        computed_s = time.process_time()
        await anyio.sleep(IDLE_S)
        computed_s = time.process_time() - computed_s
        print(f"idle: {computed_s / IDLE_S:.2%} of a core")
        return grown_mib


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; the exit status is 0 if the consumers take less than the target."""
    parser = argparse.ArgumentParser(prog="bench.idle_consumers", description=__doc__)
    parser.add_argument("--consumers", type=int, default=CONSUMERS)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="arneb-bench-") as place:
        broker = Arneb(Path(place) / "arneb", listeners=["pulsar"]).start()
        try:
            url = broker.pulsar_url
            grown_mib = anyio.run(measure, url, options.consumers, backend="trio")
        finally:
            broker.stop()
    return 0 if grown_mib < TARGET_MIB * options.consumers / CONSUMERS else 1


if __name__ == "__main__":
    sys.exit(main())
