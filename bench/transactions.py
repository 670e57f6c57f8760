"""Measures transactions of ten messages beside Apache Pulsar standalone, with one program.

``python -m bench.transactions`` starts both on empty directories, both flushing to disk before they
confirm, and lets them take turns, round by round. Each worker repeatedly opens a transaction, sends
ten messages to its topic at once and commits. The client is the official Java one
(``bench/java/Transactions.java``) for both. The CPU times of the client's process and of the
broker's are rows of the table, so that readers see which of them was busy.

The last column is the client's own floor: what it reaches on this machine with
``bench/transaction_sink.c``, which answers immediately, keeps nothing and costs next to nothing. No
broker can do better than that, so this client cannot show a larger factor.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from bench.load import compile_program
from bench.report import keep, number
from conformance.brokers.arneb import Arneb
from conformance.brokers.java_server import classpath
from conformance.brokers.process import BrokerFailed
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.toolbox import own_environment, tool

MESSAGES: Final = 10
"""Messages per transaction."""

WORKERS: Final = (1, 16, 64)
ROUNDS: Final = 3
SECONDS: Final = 8.0
WARM_UP_S: Final = 4.0
WARMING_WORKERS: Final = 16
"""How many workers run at once before anything counts, so that no broker is measured while it
compiles itself."""

STARTED_WITHIN_S: Final = 120.0
"""How long the start may take: the virtual machine first compiles the program and creates
producers."""

PROGRAM: Final = Path(__file__).parent / "java" / "Transactions.java"
TICKS: Final = os.sysconf("SC_CLK_TCK")

NAMES: Final = ("pulsar", "arneb", "sink")

Figures = dict[str, float]


class Sink:
    """The server that answers immediately."""

    def __init__(self, directory: Path) -> None:
        """Compile the server. Raises :class:`.LoadFailed`."""
        self._program = compile_program("transaction_sink", directory)
        self._process: subprocess.Popen[str] | None = None
        self.pulsar_url = ""

    def __repr__(self) -> str:
        return f"<Sink at {self.pulsar_url}>"

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process is not None, "it was started"
        return self._process.pid

    def start(self) -> None:
        """Start answering."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([self._program], stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout is not None, "it has a pipe"
        self.pulsar_url = f"pulsar://127.0.0.1:{int(self._process.stdout.readline())}"

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


Server = Arneb | PulsarStandalone | Sink


def measure(server: Server, workers: int, seconds: float, *, batches: bool) -> Figures:
    """Measure what this many workers do in that time, how long one transaction takes, and what it
    costs the broker and the client. Raises :class:`.BrokerFailed`."""
    before_s, children_s = cpu_s(server.pid), children_cpu_s()
    command = [tool("java", "default-jdk-headless"), "-Xmx512m", "-cp", classpath(), str(PROGRAM)]
    command += [server.pulsar_url, str(workers), str(MESSAGES), str(WARM_UP_S), str(seconds)]
    done = subprocess.run(
        [*command, str(batches).lower()],
        env=own_environment(),
        capture_output=True,
        text=True,
        timeout=WARM_UP_S + seconds + STARTED_WITHIN_S,
        check=False,
    )
    if done.returncode:
        raise BrokerFailed(f"{PROGRAM.name} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    all_done, count, middle, p99 = map(float, done.stdout.splitlines()[-1].split())
    row = f"{workers} at once, {'batched' if batches else 'one by one'}"
    return {
        f"{row}, transactions/s": count / seconds,
        f"{row}, median, ms": middle,
        f"{row}, p99, ms": p99,
        f"{row}, the broker's CPU a transaction, ms": (cpu_s(server.pid) - before_s)
        / all_done * 1000,
        f"{row}, the client's, its start included, ms": (children_cpu_s() - children_s)
        / all_done * 1000,
    }  # fmt: skip


def cpu_s(pid: int) -> float:
    """The CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def children_cpu_s() -> float:
    """The CPU seconds of our child processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def beside_the_floor(found: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """The table: medians, by what factor Arneb is better than Pulsar, and by what factor the server
    that answers immediately is."""
    rows = ["| | Pulsar | Arneb | better by | the client alone | better by |", "|---|" + "---|" * 5]
    for figure, by_name in found.items():
        theirs, ours, floor = (median(by_name[name]) for name in NAMES)
        cells = [number(theirs)]
        for each in (ours, floor):
            factor = each / theirs if figure.endswith("/s") else theirs / max(each, 1e-9)
            cells += [number(each), f"{factor:.2g}"]
        if "CPU" in figure:
            cells[-1] = ""  # the sink uses next to no CPU time, so a factor would mean nothing
        rows.append(f"| {figure} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.transactions")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="duration of one measurement"
    )
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS)
    parser.add_argument(
        "--one-by-one", action="store_true", help="leave out the rows in which the client batches"
    )
    parser.add_argument("--no-write", action="store_true", help="only print the table")
    options = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        pulsar = PulsarStandalone(
            Path(made) / "pulsar", transactionCoordinatorEnabled="true", systemTopicEnabled="true"
        )
        arneb = Arneb(Path(made) / "arneb", listeners=["pulsar"])
        servers: dict[str, Server] = {"pulsar": pulsar, "arneb": arneb, "sink": Sink(Path(made))}
        assert tuple(servers) == NAMES, "each has its column"
        for server in servers.values():
            stack.callback(server.stop)
            server.start()
            measure(server, WARMING_WORKERS, options.seconds, batches=False)
        for _ in range(options.rounds):
            for workers in options.workers:
                for batches in (False,) if options.one_by_one else (False, True):
                    for name, server in servers.items():
                        figures = measure(server, workers, options.seconds, batches=batches)
                        for figure, value in figures.items():
                            found.setdefault(figure, {}).setdefault(name, []).append(value)
                            print(f"{name}: {figure}: {number(value)}", flush=True)
    table = beside_the_floor(found)
    print(table)
    if not options.no_write:
        title = f"Transactions of {MESSAGES} messages beside Apache Pulsar 4.0.7 standalone"
        path = keep("transactions", f"{title}, median of {options.rounds}", table)
        print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
