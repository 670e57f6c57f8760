"""What a broker uses of several cores, and what it could use: ``python -m bench.cores MEASURE …``.

* ``today``: how much CPU time each thread of one broker uses per message, and how much of that
  without holding the interpreter lock, so that another thread could run.
* ``shards``: one and two engines behind one port, each client passed to the engine of its vhost.
* ``workers``: parsing and sessions in one process and the core in another, beside both in one.

The rule: what is compared takes turns in one run. The rates are those of two cores shared with the
load generators, so what counts is the CPU time of each process per message. The processes are those
of :mod:`bench.cores_parts`, which exist only for this benchmark.
"""

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import pika
from bench.cores_parts import vhost_of
from bench.load import LoadFailed, LoadGenerator, compile_generator
from conformance.brokers.arneb import Arneb, arneb_environment
from conformance.brokers.process import Address, read_cpu_s

QUEUE: Final = "bench"
EXCHANGE: Final = "bench-app"
KEYS: Final = 100
SCRATCH: Final = Path("/dev/shm")
"""Where processes keep files that are not measured."""
PERF_HZ: Final = 499
PERF_ATTACHES_S: Final = 0.5

Options = Mapping[str, float | str | bool]

LOADS: Final[Mapping[str, tuple[str, int, Options]]] = {
    "mixed, window 500, one send each": ("publish", 400_000, {"window": 500, "as_client": True}),
    "mixed, window 500, gathered": ("publish", 600_000, {"window": 500}),
    "mixed, window 1": ("publish", 8_000, {"window": 1, "as_client": True}),
}
"""The name of each load: its mode, number of messages and options."""


@dataclass(frozen=True, slots=True)
class Part:
    """One process of :mod:`bench.cores_parts`."""

    process: "subprocess.Popen[str]"
    port: int

    def cpu_s(self) -> float:
        """The CPU seconds that it has used so far."""
        return read_cpu_s(self.process.pid)


@contextmanager
def part(name: str, path: Path, shards: int, *ways: socket.socket) -> Iterator[Part]:
    """Run one process, which is killed at the end."""
    descriptors = [each.fileno() for each in ways]
    command = [sys.executable, "-m", "bench.cores_parts", name, str(path), str(shards)]
    with subprocess.Popen(
        [*command, *map(str, descriptors)],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=descriptors,
        env=arneb_environment(),
    ) as process:
        try:
            assert process.stdout is not None
            yield Part(process, json.loads(process.stdout.readline()))
        finally:
            process.kill()


def prepare(port: int, vhost: str) -> None:
    """Create a fresh queue behind an exchange, as the load requires."""
    parameters = pika.ConnectionParameters("127.0.0.1", port, vhost, heartbeat=0)
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.queue_delete(QUEUE)
    channel.queue_declare(QUEUE, durable=True)
    channel.exchange_declare(EXCHANGE, "topic")
    channel.queue_bind(QUEUE, EXCHANGE, f"{QUEUE}.*")
    connection.close()


def loaded(
    load: LoadGenerator, port: int, vhosts: Sequence[str], mode: str, count: int, options: Options
) -> float:
    """Messages per second of all ``vhosts`` together, each with a publisher that sends
    ``count``."""
    for vhost in vhosts:
        prepare(port, vhost)
    common: dict[str, float | str | bool] = {
        "ready": True, "mixed": True, "exchange": EXCHANGE, "keys": KEYS, "count": count,
    }  # fmt: skip
    with ExitStack() as running:
        runs = [
            running.enter_context(
                load.running(
                    Address("127.0.0.1", port), mode, waits=False, vhost=vhost, **common, **options
                )
            )
            for vhost in vhosts
        ]
        return sum(each.figures()["rate"] for each in runs)


def measured(
    load: LoadGenerator, port: int, vhosts: Sequence[str], what: str, parts: Sequence[Part]
) -> list[float]:
    """Measure one load: the rate, and the CPU time of each of ``parts`` per message, in µs."""
    mode, count, options = LOADS[what]
    before = [each.cpu_s() for each in parts]
    rate = loaded(load, port, vhosts, mode, count, options)
    total = count * len(vhosts)
    used_s = (each.cpu_s() - had for each, had in zip(parts, before, strict=True))
    return [rate, *(each / total * 1e6 for each in used_s)]


def printed(title: str, rounds: Sequence[Sequence[float]]) -> None:
    """Print one row with the medians."""
    rate, *costs = (median(each) for each in zip(*rounds, strict=True))
    shown = " + ".join(f"{each:.2f}" for each in costs)
    print(f"| {title} | {rate:,.0f} | {shown} | {sum(costs):.2f} |", flush=True)


HEADING: Final = "| | msg/s | CPU µs a message, by process | in all |\n|---|---|---|---|"


def shards(load: LoadGenerator, home: Path, rounds: int) -> None:
    """Compare one process with two shards behind a reception, of which one or both are used."""
    with ExitStack() as running:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2)]
        alone = running.enter_context(part("one", home / "one", 1))
        serving = [
            running.enter_context(part("shard", home / f"shard-{number}", 2, pair[1]))
            for number, pair in enumerate(pairs)
        ]
        ways = [pair[0] for pair in pairs]
        received = running.enter_context(part("reception", home / "reception", 2, *ways))
        vhosts = [vhost_of(number) for number in range(2)]
        print(HEADING)
        for what in LOADS:
            one, single, both = [], [], []
            for _ in range(rounds):
                one.append(measured(load, alone.port, vhosts[:1], what, [alone]))
                single.append(measured(load, received.port, vhosts[:1], what, serving[:1]))
                both.append(measured(load, received.port, vhosts, what, [*serving, received]))
            printed(f"{what}: one process", one)
            printed("one shard behind a reception", single)
            printed("two shards, and the reception", both)


def workers(load: LoadGenerator, home: Path, rounds: int) -> None:
    """Compare one process with a worker in front of a core."""
    with ExitStack() as running:
        near, far = socket.socketpair()
        alone = running.enter_context(part("one", home / "one", 1))
        core = running.enter_context(part("core", home / "core", 1, far))
        scratch = Path(running.enter_context(tempfile.TemporaryDirectory(dir=SCRATCH)))
        worker = running.enter_context(part("worker", scratch / "worker", 1, near))
        print(HEADING)
        for what in LOADS:
            one, both = [], []
            for _ in range(rounds):
                one.append(measured(load, alone.port, ["/"], what, [alone]))
                both.append(measured(load, worker.port, ["/"], what, [worker, core]))
            printed(f"{what}: one process", one)
            printed("worker and core", both)


def today(load: LoadGenerator, home: Path, rounds: int) -> None:
    """Show which threads of one broker use CPU time, with ``perf``: samples by thread and
    library."""
    if shutil.which("perf") is None:
        raise LoadFailed("expected perf on the PATH (Debian's linux-perf)")
    with ExitStack() as running:
        broker = Arneb(home / "today").start()
        running.callback(broker.stop)
        for what, (mode, count, options) in LOADS.items():
            record = home / "perf.data"
            command = ["perf", "record", "-q", "-o", str(record), "-e", "cpu-clock"]
            command += ["-F", str(PERF_HZ), "-p", str(broker.pid)]
            with subprocess.Popen(command) as counting:
                time.sleep(PERF_ATTACHES_S)
                before_s, begin = broker.cpu_s(), time.monotonic()
                loaded(load, broker.address.port, ["/"], mode, count * rounds, options)
                used_s, took_s = broker.cpu_s() - before_s, time.monotonic() - begin
                counting.terminate()
            print(f"\n{what}: {used_s / took_s:.2f} cores, of which")
            for line in shares(record, broker.pid):
                print(line)


def shares(record: Path, pid: int) -> Iterator[str]:
    """Lines with each thread's share of the samples in each library."""
    command = ["perf", "script", "-i", str(record), "-F", "tid,ip,dso"]
    samples = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[tuple[str, str], int] = {}
    for line in samples.splitlines():
        tid, _, rest = line.strip().partition(" ")
        if not tid.isdecimal():
            continue
        library = Path(rest.rpartition("(")[2].rstrip(")")).name
        thread = "loop" if int(tid) == pid else "other threads"
        found[thread, library] = found.get((thread, library), 0) + 1
    total = sum(found.values())
    for (thread, library), number in sorted(found.items(), key=lambda each: -each[1]):
        if number * 100 > total:
            yield f"  {thread}: {library}: {number / total:.1%}"


MEASURES: Final = {"today": today, "shards": shards, "workers": workers}


def main() -> int:
    """Run the measurements; the exit status is 0 if everything could be measured."""
    parser = argparse.ArgumentParser(prog="bench.cores", description=__doc__)
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=", ".join(MEASURES))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if unknown := set(options.measures) - set(MEASURES):
        parser.error(f"expected measures of {', '.join(MEASURES)}, got {sorted(unknown)}")
    with tempfile.TemporaryDirectory(prefix="arneb-cores-") as place:
        home = Path(place)
        load = compile_generator(home / "programs")
        for name in options.measures or MEASURES:
            print(f"\n## {name}\n")
            MEASURES[name](load, home / name, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
