"""Measures transactions of ten messages beside Apache Pulsar standalone, with one programme.

``python -m bench.transactions`` starts both on empty directories, both flushing to disk before they
confirm, and lets them take turns, round by round. Each of so many workers opens a transaction,
sends ten messages to its topic at once and commits, again and again. The client is this project's
library, for both: the official Python client knows no transactions.
"""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import anyio
from bench.report import beside, keep
from conformance.brokers.arneb import Arneb
from conformance.brokers.pulsar_standalone import PulsarStandalone

from arneb_pulsar.client import Client, ClientOptions, ProducerOptions, connect
from arneb_pulsar.client.producer.producing import Producing
from arneb_pulsar.client.transactions import Transaction

MESSAGES: Final = 10
"""In each transaction."""

BODY: Final = bytes(1024)
WORKERS: Final = (1, 16)
ROUNDS: Final = 3
SECONDS: Final = 8.0
WARM_UP_S: Final = 2.0
TOPIC: Final = "persistent://public/default/transactions-{}"

Figures = dict[str, float]


async def measure(url: str, workers: int, seconds: float) -> Figures:
    """What so many workers do in that time, and how long one transaction takes."""
    took_s: list[float] = []
    async with connect(url, ClientOptions(operation_timeout_s=30)) as client:
        began = time.perf_counter()
        begin, end = began + WARM_UP_S, began + WARM_UP_S + seconds
        async with anyio.create_task_group() as group:
            for worker in range(workers):
                group.start_soon(work, client, worker, begin, end, took_s)
    row = f"{workers} at once"
    p99 = quantiles(took_s, n=100)[98] if len(took_s) > 1 else took_s[0]
    return {
        f"{row}, transactions/s": len(took_s) / seconds,
        f"{row}, median, ms": median(took_s) * 1000,
        f"{row}, p99, ms": p99 * 1000,
    }


async def work(client: Client, worker: int, begin: float, end: float, took_s: list[float]) -> None:
    """Transactions of one worker until ``end``; those from ``begin`` on count."""
    options = ProducerOptions(transactions=True, send_timeout_s=0)
    producer = await client.create_producer(TOPIC.format(worker), options)
    while (began := time.perf_counter()) < end:
        async with (
            await client.begin_transaction() as transaction,
            anyio.create_task_group() as group,
        ):
            for _ in range(MESSAGES):
                group.start_soon(send, transaction, producer)
        if began >= begin and time.perf_counter() <= end:
            took_s.append(time.perf_counter() - began)
    await producer.close()


async def send(transaction: Transaction, producer: Producing[bytes]) -> None:
    """One of its messages."""
    await transaction.send(producer, BODY)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.transactions")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of one measurement")
    parser.add_argument("--no-write", action="store_true", help="only print the table")
    options = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        pulsar = PulsarStandalone(
            Path(made) / "pulsar", transactionCoordinatorEnabled="true", systemTopicEnabled="true"
        )
        arneb = Arneb(Path(made) / "arneb", listeners=["pulsar"])
        servers: dict[str, Arneb | PulsarStandalone] = {"pulsar": pulsar, "arneb": arneb}
        for server in servers.values():
            stack.callback(server.stop)
            server.start()
        for _ in range(options.rounds):
            for workers in WORKERS:
                for name, server in servers.items():
                    figures = anyio.run(measure, server.pulsar_url, workers, options.seconds)
                    for figure, value in figures.items():
                        found.setdefault(figure, {}).setdefault(name, []).append(value)
    table = beside(found)
    print(table)
    if not options.no_write:
        title = f"Transactions of {MESSAGES} messages beside Apache Pulsar 4.0.7 standalone"
        path = keep("transactions", f"{title}, median of {options.rounds}", table)
        print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
