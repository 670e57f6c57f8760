"""Kills while a log goes to the sealed tier: of the offload and of the broker, at random instants.

A broker takes confirmed messages, a queue's consumers are done with them at once (so only the
tier's cursor keeps them), and an offload follows, rolls and trims. Either is killed again and
again. In the end every confirmed message is in the table exactly once. A soak, as a script:
``python lake_crash.py --kills 100 --seed 7``.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import pika
from pika.exceptions import AMQPError

from arneb.demo.process import BrokerProcess
from pyspark_arneb.lake.table import SealedTable
from pyspark_arneb.target import Target

QUEUE: Final = "orders"
BATCH: Final = 40
"""Messages that are published between two looks at what is to be killed."""

LIFE_S_MAX: Final = 3.0
"""How long an offload lives at most: long enough to start, and then some rounds."""


class LakeCrash:
    """One run of it."""

    def __init__(self, place: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.data, self.lake = place / "data", place / "lake"
        self.next = 0
        self.confirmed: set[int] = set()
        self.kills = {"offload": 0, "broker": 0}

    def run(self, kills: int) -> None:
        """Play, and look at the result."""
        broker = BrokerProcess(self.data, ["amqp", "http"])
        try:
            # What is published before the tier has a cursor may go.
            with pika.BlockingConnection(pika.ConnectionParameters(port=broker.amqp_port)) as first:
                first.channel().queue_declare(QUEUE, durable=True)
            self._offload_once(broker)
            while sum(self.kills.values()) < kills:
                offload = self._start_offload(broker)
                end = time.monotonic() + self.chance.uniform(0.3, LIFE_S_MAX)
                victim = "broker" if self.chance.random() < 0.3 else "offload"
                while time.monotonic() < end:
                    self._publish(broker)
                if victim == "broker":
                    broker.kill()
                    broker = BrokerProcess(self.data, ["amqp", "http"])
                offload.kill()
                offload.communicate()
                self.kills[victim] += 1
            self._publish(broker)
            self._offload_once(broker)
        finally:
            broker.stop()
        self._judge()

    def _offload_once(self, broker: BrokerProcess) -> None:
        offload = self._start_offload(broker, follow=False)
        _, errors = offload.communicate(timeout=120)
        assert offload.returncode == 0, errors

    def _start_offload(
        self, broker: BrokerProcess, *, follow: bool = True
    ) -> "subprocess.Popen[str]":
        words = ["offload", f"http://{broker.addresses['http']}", str(self.lake), QUEUE]
        words += ["--roll", "--trim"]
        if follow:
            words += ["--follow", "--interval", "0.1"]
        return subprocess.Popen(
            [sys.executable, "-m", "arneb", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def _publish(self, broker: BrokerProcess) -> None:
        numbers = range(self.next, self.next + BATCH)
        self.next += BATCH
        parameters = pika.ConnectionParameters(port=broker.amqp_port)
        with suppress(AMQPError, OSError), pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare(QUEUE, durable=True)
            for number in numbers:
                channel.basic_publish("", QUEUE, b"%d" % number)
                self.confirmed.add(number)
            channel.queue_purge(QUEUE)

    def _judge(self) -> None:
        table = SealedTable.open(Target.of(str(self.lake)), f"persistent://public/default/{QUEUE}")
        assert table is not None, "no table was written"
        rows = table.dataset().to_table(["ledger_id", "entry_id", "value"]).to_pylist()
        bodies = [int(row["value"]) for row in rows]
        places = {(row["ledger_id"], row["entry_id"]) for row in rows}
        assert len(places) == len(rows), f"{len(rows) - len(places)} rows stand there twice"
        assert len(set(bodies)) == len(bodies), "messages are in the table twice"
        missing = self.confirmed - set(bodies)
        assert not missing, f"{len(missing)} confirmed messages are missing, {min(missing)} first"
        assert set(bodies) <= set(range(self.next)), "messages that nobody sent"


def main() -> None:
    """A soak, by the options given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as place:
        crash = LakeCrash(Path(place), given.seed)
        crash.run(given.kills)
        print(f"{crash.kills}, {len(crash.confirmed)} confirmed of {crash.next}: none is missing")


if __name__ == "__main__":
    main()
