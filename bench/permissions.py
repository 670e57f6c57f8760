"""The broker's cost of checking permissions: ``python -m bench.permissions``.

The rule: pairs of runs with the same load on one broker. In one run the user may do everything, and
in the other the user's permissions are patterns. The cost is in user instructions of the broker per
message if ``perf`` can count them, otherwise in CPU time. The order alternates.
"""

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pika
from bench import instructions
from bench.load import LoadGenerator, compile_generator
from conformance.brokers.arneb import Arneb
from conformance.management.client import Client

EXCHANGE: Final = "permitted"
KEYS: Final = 100
"""The number of routing keys."""
ROWS: Final = 50
"""How many topic permissions the user has, one of them for the exchange."""
EVERYTHING: Final = {"configure": ".*", "write": ".*", "read": ".*"}
PATTERNS: Final = {
    "configure": r"^(amq\.gen.*|app\..*|permitted|load)$",
    "write": r"^(amq\.default|amq\.gen.*|app\..*|permitted|load)$",
    "read": r"^(amq\.gen.*|app\..*|permitted|load)$",
}

RUNS: Final[Mapping[str, Mapping[str, Any]]] = {
    "window 1": {"window": 1, "share": 0.02},
    "window 100": {"window": 100, "connections": 4},
    "topic exchange": {"window": 100, "connections": 4, "exchange": EXCHANGE, "keys": KEYS,
                       "share": 0.5},
}  # fmt: skip
"""The runs by name; ``share`` is the part of the messages that is used."""


def permit(client: Client, rights: Mapping[str, str], rows: int) -> None:
    """Give the user these rights and this many topic permissions."""
    done = client.call("PUT", "permissions/%2F/guest", dict(rights))
    assert done.status in (201, 204), done
    client.call("DELETE", "topic-permissions/%2F/guest")
    for number in range(rows):
        exchange = f"other{number}" if number else EXCHANGE
        body = {"exchange": exchange, "write": r"^(bench|load|[a-z]+)[.0-9]*", "read": ".*"}
        done = client.call("PUT", "topic-permissions/%2F/guest", body)
        assert done.status in (201, 204), done


def cost(broker: Arneb, load: LoadGenerator, count: int, options: Mapping[str, Any]) -> float:
    """The cost of one message: user instructions, or nanoseconds of CPU time."""
    given = dict(options)
    count = int(count * given.pop("share", 1))

    def publish() -> None:
        load.run(broker.address, "publish", queue="load", count=count, **given)

    return instructions.cost(broker, publish) / count


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--count", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        load = compile_generator(Path(directory))
        broker = Arneb(Path(directory) / "broker").start()
        try:
            client = Client(broker.http_address)
            connection = pika.BlockingConnection(pika.URLParameters(broker.url))
            channel = connection.channel()
            channel.exchange_declare(EXCHANGE, "topic", durable=True)
            channel.queue_declare("load", durable=True)
            channel.queue_bind("load", EXCHANGE, "#")
            connection.close()
            for name, given in RUNS.items():
                ratios = pairs(broker, load, client, options, given)
                shown = " ".join(f"{each:.3f}" for each in sorted(ratios))
                print(f"{name}: median {statistics.median(ratios):.3f} ({shown})", flush=True)
        finally:
            broker.stop()


def pairs(
    broker: Arneb,
    load: LoadGenerator,
    client: Client,
    options: argparse.Namespace,
    given: Mapping[str, Any],
) -> list[float]:
    """Ratios of the cost of a message with patterns to its cost without restrictions."""
    ratios = []
    cost(broker, load, options.count, given)
    for number in range(options.pairs):
        found = {}
        for limited in (False, True) if number % 2 else (True, False):
            permit(client, PATTERNS if limited else EVERYTHING, ROWS if limited else 0)
            found[limited] = cost(broker, load, options.count, given)
            client.call("DELETE", "queues/%2F/load/contents")
        ratios.append(found[True] / found[False])
    return ratios


if __name__ == "__main__":
    main()
