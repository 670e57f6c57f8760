"""``arneb report``, ``audit``, ``compact`` and ``replay``, as a user types them, on any master.

The rule: what they say and what is in the broker's log afterwards is the same wherever they run.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pika
from conformance.brokers.arneb import Arneb
from tests.spark_connector.stream.soak import bodies_in

QUEUE: Final = "handled"
MESSAGES: Final = 600
KEYS: Final = 5
WITHIN_S: Final = 300.0
FEW_PARTS: Final = "spark.sql.shuffle.partitions=4"
"""A cluster has 200, which cost more than the work."""


class Commands:
    """The four commands, over one queue with a history."""

    def __init__(self, broker: Arneb, directory: Path) -> None:
        self._broker = broker
        self._directory = directory
        self._runs = 0
        self._url = f"http://127.0.0.1:{broker.http_address.port}"
        with self._connected() as connection:
            channel = connection.channel()
            channel.queue_declare(QUEUE, durable=True, arguments={"x-history": True})
            channel.exchange_declare("keyed", "topic", durable=True)
            channel.queue_bind(QUEUE, "keyed", "#")
            channel.confirm_delivery()
            durable = pika.BasicProperties(delivery_mode=2)
            for number in range(MESSAGES):
                channel.basic_publish("keyed", f"key-{number % KEYS}", b"%d" % number, durable)
            # The first stays in the queue, so that nothing is trimmed.
            channel.basic_get(QUEUE)
            for _ in range(MESSAGES - 1):
                channel.basic_ack(channel.basic_get(QUEUE)[0].delivery_tag)

    def run_on(self, master: str, environment: Mapping[str, str]) -> None:
        """Have all of them run there, with what ``environment`` says of Spark."""
        self._runs += 1
        page = self._directory / f"report-{self._runs}.html"
        compacted, replayed = f"compacted-{self._runs}", f"replayed-{self._runs}"
        state = self._directory / f"replay-{self._runs}.json"
        with self._connected() as connection:
            connection.channel().queue_declare(replayed, durable=True)

        def say(*words: object) -> str:
            where = ["--url", self._url, "--master", master, "--conf", FEW_PARTS]
            return self._said([*words, *where], environment)

        expect(rf"{QUEUE}\s+{MESSAGES}\s", say("report", QUEUE, "--html", page))
        assert "<svg" in page.read_text(), page
        expect("no anomalies", say("audit"))
        numbers = [b"%d" % number for number in range(MESSAGES)]
        expect(f"{KEYS} of {MESSAGES} messages", say("compact", QUEUE, "--into-topic", compacted))
        # At once: a topic that nobody uses is removed after a minute.
        assert sorted(bodies_in(self._broker.data, compacted)) == sorted(numbers[-KEYS:])
        expect(
            f"{MESSAGES} of {MESSAGES} messages were replayed",
            say("replay", QUEUE, "--to-queue", replayed, "--state", state),
        )
        assert list(bodies_in(self._broker.data, replayed)) == numbers
        print(f"{master}: report, audit, compact and replay", flush=True)

    def _said(self, words: list[object], environment: Mapping[str, str]) -> str:
        """What a command prints, which must not fail."""
        done = subprocess.run(
            [sys.executable, "-m", "arneb", *map(str, words)],
            env={**os.environ, **environment, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{words} failed: {(done.stdout + done.stderr)[-2000:]}")
        return done.stdout + done.stderr

    def _connected(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self._broker.address.port)
        )


def expect(pattern: str, output: str) -> None:
    """Leave if a command has said something else."""
    if not re.search(pattern, output):
        raise SystemExit(f"expected {pattern}, got:\n{output}")
