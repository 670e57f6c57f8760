"""Measures transactions of ten messages beside Apache Pulsar standalone, with one programme.

``python -m bench.transactions`` starts both on empty directories, both flushing to disk before they
confirm, and lets them take turns, round by round. Each of so many workers opens a transaction,
sends ten messages to its topic at once and commits, again and again. The client is the official
one for Java (``bench/java/Transactions.java``), for both: it computes a small part of what either
broker does, so it is the brokers that are compared; what the client's process and the broker's
computed is a row of the table, so that whoever reads it sees which of them was busy.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bench.report import beside, keep, number
from conformance.brokers.arneb import Arneb
from conformance.brokers.java_server import classpath
from conformance.brokers.process import BrokerFailed
from conformance.brokers.pulsar_standalone import PulsarStandalone
from conformance.toolbox import own_environment, tool

MESSAGES: Final = 10
"""In each transaction."""

WORKERS: Final = (1, 16, 64)
ROUNDS: Final = 3
SECONDS: Final = 8.0
WARM_UP_S: Final = 4.0
STARTED_WITHIN_S: Final = 120.0
"""A virtual machine that compiles its programme first, and makes producers."""

PROGRAM: Final = Path(__file__).parent / "java" / "Transactions.java"
TICKS: Final = os.sysconf("SC_CLK_TCK")

Figures = dict[str, float]
Server = Arneb | PulsarStandalone


def measure(server: Server, workers: int, seconds: float, *, batches: bool) -> Figures:
    """What so many workers do in that time, how long one transaction takes, and what it costs the
    broker and the client. Raises :class:`.BrokerFailed`."""
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
    """What a process has computed so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def children_cpu_s() -> float:
    """The same of children of ours that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.transactions")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of one measurement")
    parser.add_argument("--workers", type=int, nargs="*", default=WORKERS)
    parser.add_argument("--no-write", action="store_true", help="only print the table")
    options = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        pulsar = PulsarStandalone(
            Path(made) / "pulsar", transactionCoordinatorEnabled="true", systemTopicEnabled="true"
        )
        arneb = Arneb(Path(made) / "arneb", listeners=["pulsar"])
        servers: dict[str, Server] = {"pulsar": pulsar, "arneb": arneb}
        for server in servers.values():
            stack.callback(server.stop)
            server.start()
        for _ in range(options.rounds):
            for workers in options.workers:
                for batches in (False, True):
                    for name, server in servers.items():
                        figures = measure(server, workers, options.seconds, batches=batches)
                        for figure, value in figures.items():
                            found.setdefault(figure, {}).setdefault(name, []).append(value)
                            print(f"{name}: {figure}: {number(value)}", flush=True)
    table = beside(found)
    print(table)
    if not options.no_write:
        title = f"Transactions of {MESSAGES} messages beside Apache Pulsar 4.0.7 standalone"
        path = keep("transactions", f"{title}, median of {options.rounds}", table)
        print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
