"""Durable queues declared by many connections at once, on Arneb and on RabbitMQ in one run.

``python -m bench.declares [CHECKOUT]`` prints seconds, and the ratio Arneb/RabbitMQ. With the name
of another checkout of Arneb it measures that one; to compare two checkouts, compare their ratios,
each from a run of its own.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from threading import Barrier
from typing import Final

import pika
from conformance.brokers.arneb import REPOSITORY, Arneb
from conformance.brokers.process import Address
from conformance.brokers.rabbitmq import RabbitMQ

CONNECTIONS: Final = 20
QUEUES: Final = 1_000
ROUNDS: Final = 3


def declare(address: Address, tag: str) -> float:
    """The seconds that it takes to declare all queues, which are deleted afterwards."""
    parameters = pika.ConnectionParameters(address.host, address.port)
    together = Barrier(CONNECTIONS + 1)

    def connection(number: int) -> None:
        client = pika.BlockingConnection(parameters)
        channel = client.channel()
        names = [f"{tag}-{number}-{index}" for index in range(QUEUES // CONNECTIONS)]
        together.wait()
        for name in names:
            channel.queue_declare(name, durable=True)
        together.wait()
        for name in names:
            channel.queue_delete(name)
        client.close()

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        running = [pool.submit(connection, number) for number in range(CONNECTIONS)]
        together.wait()
        began = time.perf_counter()
        together.wait()
        seconds = time.perf_counter() - began
        for each in running:
            each.result()
    return seconds


def main(checkout: Path) -> None:
    """Measure both, round by round, and print the medians."""
    with TemporaryDirectory() as directory:
        arneb = Arneb(Path(directory, "arneb"), checkout=checkout)
        rabbitmq = RabbitMQ(Path(directory, "rabbitmq"))
        found: dict[str, list[float]] = {"arneb": [], "rabbitmq": []}
        brokers: dict[str, Arneb | RabbitMQ] = {"arneb": arneb, "rabbitmq": rabbitmq}
        try:
            for broker in brokers.values():
                broker.start()
            for number in range(ROUNDS):
                for name, broker in brokers.items():
                    found[name].append(declare(broker.address, f"{name}-{number}"))
        finally:
            for broker in brokers.values():
                broker.stop()
    ours, theirs = median(found["arneb"]), median(found["rabbitmq"])
    print(
        f"{QUEUES} durable queues by {CONNECTIONS} connections: Arneb {ours:.2f} s, "
        f"RabbitMQ {theirs:.2f} s, ratio {ours / theirs:.2f}"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else REPOSITORY)
