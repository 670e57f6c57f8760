"""Measures the Pulsar frontend beside Apache Pulsar standalone, with the official client.

``python -m bench.pulsar`` starts both on empty directories, both flushing to disk before they send
a receipt, and lets them take turns, round by round and row by row. Client and broker share the
machine, so the client's own cost is in every figure; it is the same for both.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import pulsar
from bench.pulsar_crowds import BODY, MIB, Figures, Server, crowd_rows
from bench.report import beside, keep_rounds, number
from conformance.brokers.arneb import Arneb
from conformance.brokers.java_server import classpath
from conformance.brokers.process import BrokerFailed
from conformance.brokers.pulsar_standalone import PulsarStandalone

MESSAGES: Final = 200_000
SINGLE_MESSAGES: Final = 2_000
PENDING: Final = 20_000
RECEIVER_QUEUE: Final = 5_000
WITHIN_MS: Final = 30_000


def _produce(client: pulsar.Client, topic: str, messages: int) -> float:
    """Messages per second, batched by the client."""
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_publish_delay_ms=5,
        block_if_queue_full=True,
        max_pending_messages=PENDING,
    )
    failed: list[object] = []

    def sent(result: pulsar.Result, _: object) -> None:
        if result != pulsar.Result.Ok:
            failed.append(result)

    began = time.perf_counter()
    for _ in range(messages):
        producer.send_async(BODY, sent)
    producer.flush()
    took_s = time.perf_counter() - began
    producer.close()
    if failed:
        raise BrokerFailed(f"expected {messages} receipts, got {failed[:3]}")
    return messages / took_s


def _consume(client: pulsar.Client, topic: str, subscription: str, messages: int) -> float:
    """Messages per second, each acknowledged."""
    consumer = client.subscribe(
        topic,
        subscription,
        pulsar.ConsumerType.Shared,
        receiver_queue_size=RECEIVER_QUEUE,
        initial_position=pulsar.InitialPosition.Earliest,
    )
    began = time.perf_counter()
    for _ in range(messages):
        consumer.acknowledge(consumer.receive(WITHIN_MS))
    took_s = time.perf_counter() - began
    consumer.close()
    return messages / took_s


def _one_by_one(client: pulsar.Client, topic: str, messages: int) -> Figures:
    """Each message is sent after the receipt for the one before."""
    producer = client.create_producer(topic, batching_enabled=False)
    took_ms: list[float] = []
    for _ in range(messages):
        began = time.perf_counter()
        producer.send(BODY)
        took_ms.append((time.perf_counter() - began) * 1000)
    producer.close()
    hundredths = quantiles(took_ms, n=100)
    return {"receipt p50, ms": median(took_ms), "receipt p99, ms": hundredths[98]}


def _round(server: Server, turn: int, factor: float) -> Figures:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(server.pulsar_url, logger=quiet)
    topic = f"persistent://public/default/bench-{turn}"
    messages = max(1_000, int(MESSAGES * factor))
    try:
        client.subscribe(topic, "s", pulsar.ConsumerType.Shared).close()
        figures = {"produce 1 KiB, batched, msg/s": _produce(client, topic, messages)}
        figures["consume 1 KiB, ack each, msg/s"] = _consume(client, topic, "s", messages)
        figures |= _one_by_one(client, topic, max(200, int(SINGLE_MESSAGES * factor)))
    finally:
        client.close()
    return figures


def _timed_start(server: Server) -> float:
    """Seconds from the command until the first message is accepted."""
    began = time.perf_counter()
    server.start()
    client = pulsar.Client(server.pulsar_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        client.create_producer("persistent://public/default/first").send(b"x")
    finally:
        client.close()
    return time.perf_counter() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the exit status is 0 if everything could be measured, whatever the
    figures."""
    parser = argparse.ArgumentParser(prog="bench.pulsar", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages, one round")
    parser.add_argument("--no-write", action="store_true", help="print only")
    parser.add_argument("--into", type=Path, help="continue a result, a JSON file")
    options = parser.parse_args(arguments)
    rounds, factor = (1, 0.1) if options.quick else (options.rounds, 1.0)
    classpath()  # Maven's time must not count as Pulsar's
    # Bytecode is kept, because an installed broker does not compile its Python modules at a start
    # either.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory(prefix="arneb-bench-") as place, ExitStack() as stack:
        Arneb(Path(place) / "compiling", listeners=["pulsar"]).start().stop()
        makers: dict[str, Callable[[], Server]] = {
            "pulsar": lambda: PulsarStandalone(Path(place) / "pulsar"),
            "arneb": lambda: Arneb(Path(place) / "arneb", listeners=["pulsar"]),
        }
        servers: dict[str, Server] = {}

        def note(name: str, figures: Figures) -> None:
            for figure, value in figures.items():
                found.setdefault(figure, {}).setdefault(name, []).append(value)
                print(f"{name}: {figure}: {number(value)}", flush=True)

        for name, make in makers.items():
            servers[name] = make()
            stack.callback(servers[name].stop)
            note(name, {"start to first receipt, s": _timed_start(servers[name])})
            note(name, {"resident after start, MiB": servers[name].memory().resident / MIB})
        for turn in range(rounds):
            for name, server in servers.items():
                note(name, _round(server, turn, factor))
        for turn in range(rounds):
            for name, server in servers.items():
                for figures in crowd_rows(server, turn, factor):
                    note(name, figures)
        for name, server in servers.items():
            note(name, {"resident at the end, MiB": server.memory().resident / MIB})
    table = beside(found)
    print(table)
    if not options.no_write:
        title = "Beside Apache Pulsar 4.0.7 standalone, median of {}"
        path = keep_rounds("pulsar", title, found, options.into)
        print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
