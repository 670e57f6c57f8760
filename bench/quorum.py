"""Measures three nodes of Arneb on Apache Pulsar beside RabbitMQ's own protection against the loss
of a machine: three nodes with quorum queues.

``python -m bench.quorum`` starts one of them, measures it, stops it, and does the same with the
other, round by round; a small machine could not run both at once. Messages are mixed and sent as
client libraries send them, to a queue declared with the argument that RabbitMQ's users use. They
are sent first to the node that leads the queue, then to one that does not. Then the leader is
killed, and the time during which a publisher at another node gets no confirm is measured.

The rule: everything that either of them needs runs on this machine and is counted, including
Pulsar's brokers and bookies. Both flush to disk on two nodes before they confirm.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, Protocol

import pika
from bench.applications import EXCHANGE, KEYS
from bench.load import Figures, LoadGenerator, compile_generator
from bench.report import beside, keep, number
from bench.topology import topology
from conformance.brokers.arneb_cluster import ArnebCluster
from conformance.brokers.java_server import classpath
from conformance.brokers.process import Address, OwnProcess, read_cpu_s
from conformance.brokers.pulsar_service import NAMESPACE, PulsarService, pulsar_service
from conformance.brokers.rabbitmq_cluster import RabbitMQCluster
from conformance.toolbox import own_environment, tool
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError

ROUNDS: Final = 3
MESSAGES: Final = 60_000
WARM_UP_MESSAGES: Final = 100_000
"""How many messages are sent before anything is measured: Java compiles code while it runs, and the
first row would bear that cost."""
WINDOW: Final = 500
PREFETCH: Final = 200
BODY_BYTES: Final = 256
TURNS_S: Final = 6.0
QUEUE: Final = "bench"
Options = dict[str, float | str | bool]
"""Options of the load generator."""

QUORUM: Final[Mapping[str, object]] = {"x-queue-type": "quorum"}

BEFORE_KILL_S: Final = 2.0
CONFIRM_WITHIN_S: Final = 60.0
RETRY_S: Final = 0.05
TRY_S: Final = 2.0
"""After this time a publisher tries another connection."""

PROGRAM: Final = Path(__file__).parent / "java" / "OneByOne.java"
JAVA_WARM_UP_S: Final = 5.0
JAVA_WITHIN_S: Final = 120.0


class System(Protocol):
    """One of the compared systems."""

    name: str

    @property
    def leading(self) -> Address:
        """The node that leads the queue."""
        ...

    @property
    def other(self) -> Address:
        """A node that does not lead it."""
        ...

    def cpu_s(self) -> float:
        """The CPU seconds of all its processes so far."""
        ...

    def lose_leader(self) -> None:
        """Send SIGKILL to the leader."""
        ...


class Quorum:
    """RabbitMQ. Its queue is declared at the second node, which therefore leads it."""

    name = "rabbitmq"

    def __init__(self, cluster: RabbitMQCluster) -> None:
        self._cluster = cluster

    def __repr__(self) -> str:
        return f"<Quorum of {self._cluster!r}>"

    @property
    def leading(self) -> Address:
        return self._cluster.addresses[1]

    @property
    def other(self) -> Address:
        return self._cluster.addresses[2]

    def cpu_s(self) -> float:
        return _cpu_s(self._cluster.nodes)

    def lose_leader(self) -> None:
        self._cluster.nodes[1].kill()


class Nodes:
    """Arneb's nodes, and the Pulsar cluster that holds their log."""

    name = "arneb"

    def __init__(self, cluster: ArnebCluster, service: PulsarService) -> None:
        self._cluster = cluster
        self._service = service
        self._leader = cluster.leader()

    def __repr__(self) -> str:
        return f"<Nodes of {self._cluster!r}>"

    @property
    def leading(self) -> Address:
        return self._leader.port("amqp")

    @property
    def other(self) -> Address:
        others = (each for each in self._cluster.nodes if each is not self._leader)
        return next(others).port("amqp")

    def cpu_s(self) -> float:
        return _cpu_s([*self._cluster.nodes, *self._service.brokers, *self._service.bookies])

    def bare_ms(self) -> float:
        """How long Pulsar's Java client waits for each receipt, on the same Pulsar cluster, in
        milliseconds."""
        topic = f"persistent://{NAMESPACE}/one-by-one"
        command = [tool("java", "default-jdk-headless"), "-Xmx256m", "-cp", classpath()]
        command += [str(PROGRAM), self._service.url, topic, str(BODY_BYTES)]
        done = subprocess.run(
            [*command, str(JAVA_WARM_UP_S), str(TURNS_S)],
            env=own_environment(),
            capture_output=True,
            text=True,
            timeout=JAVA_WITHIN_S,
            check=True,
        )
        return float(done.stdout.splitlines()[-1].split()[1])

    def lose_leader(self) -> None:
        self._leader.kill()


def _cpu_s(processes: Sequence[OwnProcess]) -> float:
    return sum(read_cpu_s(each.pid) for each in processes if each.running)


@contextmanager
def rabbitmq() -> Iterator[Quorum]:
    """A RabbitMQ cluster that runs during the block."""
    with tempfile.TemporaryDirectory(prefix="bench-quorum-") as made:
        cluster = RabbitMQCluster(Path(made))
        try:
            yield Quorum(cluster.start())
        finally:
            cluster.kill()


@contextmanager
def arneb() -> Iterator[Nodes]:
    """An Arneb cluster that runs during the block."""
    with (
        pulsar_service("cluster") as service,
        tempfile.TemporaryDirectory(prefix="bench-quorum-") as made,
    ):
        cluster = ArnebCluster(Path(made) / "nodes", service, listeners=("amqp", "http"))
        try:
            yield Nodes(cluster.start(), service)
        finally:
            cluster.kill()


def measure(system: System, load: LoadGenerator, scale: float) -> Figures:
    """Take all measurements of a running system, whose leader is lost afterwards. Raises
    :class:`~bench.load.LoadFailed`."""
    figures: Figures = {}
    count = int(MESSAGES * scale)
    with topology(system.leading) as made:
        made.queue(QUEUE, QUORUM)
        made.channel.queue_bind(QUEUE, made.exchange(EXCHANGE, "topic"), f"{QUEUE}.*")
        mixed: Options = {"ready": True, "as_client": True, "mixed": True, "exchange": EXCHANGE}
        warm: Options = {
            "count": int(WARM_UP_MESSAGES * scale),
            "window": WINDOW,
            "prefetch": PREFETCH,
        }
        load.run(system.leading, "through", keys=KEYS, **mixed, **warm)
        for where, address in (("", system.leading), (", through another node", system.other)):
            for mode, row in (
                ("through", "mixed, publish and consume"),
                ("publish", f"mixed, window {WINDOW}"),
            ):
                made.channel.queue_purge(QUEUE)
                before_s = system.cpu_s()
                found = load.run(
                    address,
                    mode,
                    count=count,
                    window=WINDOW,
                    keys=KEYS,
                    **mixed,
                    prefetch=PREFETCH,
                )
                cpu_us = (system.cpu_s() - before_s) / count * 1e6
                figures[f"{row}{where}, messages/s"] = found["rate"]
                figures[f"{row}{where}, CPU of all processes a message, µs"] = cpu_us
            made.channel.queue_purge(QUEUE)
            turns = load.run(
                address, "turns", ready=True, body=BODY_BYTES, seconds=max(1.0, TURNS_S * scale)
            )
            figures[f"window 1{where}, median, ms"] = turns["p50_us"] / 1000
            figures[f"window 1{where}, p99, ms"] = turns["p99_us"] / 1000
            made.channel.queue_purge(QUEUE)
    figures["the leader killed, no confirm for, s"] = _fail_over(system)
    return figures


def _fail_over(system: System) -> float:
    """Kill the leader. The result is the longest time between confirms for a publisher at another
    node, which reconnects there when its connection is lost or silent."""
    with pika.BlockingConnection(_parameters(system.leading)) as connection:
        connection.channel().queue_declare(QUEUE, durable=True, arguments=dict(QUORUM))
    publisher = _Publisher(system.other)
    publisher.start()
    time.sleep(BEFORE_KILL_S)
    killed_at = time.monotonic()
    system.lose_leader()
    try:
        return publisher.pause_s(killed_at)
    finally:
        publisher.stop()


class _Publisher:
    """Publishes in a thread, one message per confirm, until it is stopped."""

    def __init__(self, address: Address) -> None:
        self._confirms: list[float] = []
        self._parameters = _parameters(address)
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over = True

    def pause_s(self, killed_at: float) -> float:
        """The longest time without a confirm around the kill, measured once confirms have come for
        another second. Raises TimeoutError."""
        end = killed_at + CONFIRM_WITHIN_S
        while True:
            time.sleep(0.5)
            confirms = list(self._confirms)
            before = max(each for each in confirms if each < killed_at)
            later = [each for each in confirms if each >= killed_at]
            pauses = [after - early for early, after in pairwise([before, *later])]
            if pauses and max(pauses) > RETRY_S * 2 and later[-1] - later[0] > 1.0:
                return max(pauses)
            if time.monotonic() > end:
                raise TimeoutError(
                    f"expected confirms again within {CONFIRM_WITHIN_S} s, got {len(later)}"
                )

    def _run(self) -> None:
        while not self._is_over:
            with suppress(AMQPError, AMQPConnectorException, OSError):
                connection = pika.BlockingConnection(self._parameters)
                channel = connection.channel()
                channel.confirm_delivery()
                while not self._is_over:
                    channel.basic_publish("", QUEUE, b"." * BODY_BYTES)
                    self._confirms.append(time.monotonic())
            time.sleep(RETRY_S)


def _parameters(address: Address) -> pika.ConnectionParameters:
    return pika.ConnectionParameters(
        address.host, address.port, socket_timeout=TRY_S, stack_timeout=TRY_S, heartbeat=0
    )


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.quorum")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--scale", type=float, default=1.0, help="the share of each row's messages to use"
    )
    parser.add_argument("--no-write", action="store_true", help="only print the table")
    parser.add_argument(
        "--with",
        type=Path,
        dest="earlier",
        help="a file of earlier rounds, to which these are added",
    )
    options = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    bare: list[float] = []
    if options.earlier is not None and options.earlier.exists():
        found, bare = json.loads(options.earlier.read_text())
    with tempfile.TemporaryDirectory() as made:
        load = compile_generator(Path(made))
        for _ in range(options.rounds):
            with rabbitmq() as system:
                _note(found, system.name, measure(system, load, options.scale))
            with arneb() as nodes:
                bare.append(nodes.bare_ms())
                _note(found, nodes.name, measure(nodes, load, options.scale))
    if options.earlier is not None:
        options.earlier.write_text(json.dumps([found, bare]))
    floor = ", ".join(number(each) for each in sorted(bare))
    table = beside(found, "RabbitMQ")
    table += f"\n\nOne message after the other by Pulsar's Java client, median: {floor} ms."
    print(table)
    if not options.no_write:
        title = "Three nodes on Apache Pulsar beside three of RabbitMQ's with quorum queues"
        print(f"written to {keep('quorum', f'{title}, median of {len(bare)}', table)}")
    return 0


def _note(found: dict[str, dict[str, list[float]]], name: str, figures: Figures) -> None:
    for figure, value in figures.items():
        found.setdefault(figure, {}).setdefault(name, []).append(value)
        print(f"{name}: {figure}: {number(value)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
