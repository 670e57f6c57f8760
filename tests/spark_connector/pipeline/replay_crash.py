"""Kills a replay, and sometimes its broker, again and again, and looks whether each message came
once and in its order.

Run by the test suite, or by hand from the repository's root for as long as one likes::

    python -m tests.spark_connector.pipeline.replay_crash --kills 20
    python -m tests.spark_connector.pipeline.replay_crash --kills 5 --seed 1234   # the same dice

Two thirds of the messages are sealed and trimmed, the last third is in the log, and is sealed and
trimmed while the replay goes on. Replays go to a topic, a queue and an exchange in turn.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Final

import pika
from pika.adapters.blocking_connection import BlockingChannel
from tests.spark_connector.spark_process import PromiseBroken, SparkProcess
from tests.spark_connector.stream.soak import bodies_in

from arneb.demo.process import BrokerProcess

REPLAYING: Final = Path(__file__).with_name("replaying.py")
MESSAGES: Final = 1_200
SEALED: Final = 800
LIVES_S_MAX: Final = 4.0
ENDS_WITHIN_S: Final = 300.0
WAYS: Final = ("exchange", "queue", "topic")


class ReplayCrash:
    """One run of it."""

    def __init__(self, place: Path, seed: int) -> None:
        self.place = place
        self.dice = random.Random(seed)
        self.data, self.lake = place / "data", place / "lake"
        self.kills = 0
        self.on_the_way = 0
        """Kills that met a replay which had begun and was not done."""

    def run(self, kills: int) -> int:
        """Play until so many kills; how many messages were replayed. Raises
        :class:`PromiseBroken`."""
        self.broker = BrokerProcess(self.data, ["amqp", "http"])
        targets: list[str] = []
        ways = cycle(self.dice.sample(WAYS, len(WAYS)))
        try:
            self._publish()
            while self.kills < kills or not targets:
                way = next(ways)
                targets.append(f"{way}-{len(targets)}")
                self._replay(way, targets[-1], kills)
            self.broker.stop()
            for target in targets:
                self._judge(target)
        finally:
            if self.broker.returncode is None:
                self.broker.kill()
        return len(targets) * MESSAGES

    def _publish(self) -> None:
        with self._channel():
            self._offload()  # from now on it keeps what is not sealed
        for numbers in (range(SEALED), range(SEALED, MESSAGES)):
            with self._channel() as channel:
                for number in numbers:
                    properties = pika.BasicProperties(delivery_mode=2, headers={"n": number})
                    channel.basic_publish("", "orders", b"%d" % number, properties)
                channel.queue_purge("orders")
            if numbers.start == 0:
                self._offload()

    def _replay(self, way: str, target: str, kills: int) -> None:
        """One replay to its end, however often it is killed."""
        with self._channel() as channel:
            # Of a topic too: without the Pulsar frontend nobody else makes one, or has it keep what
            # it is given.
            channel.queue_declare(target, durable=True)
            if way == "exchange":
                channel.exchange_declare(target, "fanout", durable=True)
                channel.queue_bind(target, target)
        done = False
        while not done:
            replaying = self._start(way, target)
            if self.kills >= kills:
                replaying.join(ENDS_WITHIN_S)
                return
            if self.dice.random() < 0.9:
                replaying.wait_for("piece", ENDS_WITHIN_S)
            time.sleep(self.dice.uniform(0, LIVES_S_MAX))
            if self.dice.random() < 0.2:
                self.broker.kill()
                # It has some time to find out, and to do the wrong thing.
                time.sleep(self.dice.uniform(0, 1))
                replaying.kill()
                self.broker = BrokerProcess(self.data, ["amqp", "http"])
            replaying.kill()
            self.kills += 1
            done = any(line.startswith("done") for line in replaying.printed)
            self.on_the_way += not done and bool(replaying.printed)
            if self.dice.random() < 0.2:
                self._offload()
            print(f"kill {self.kills}: {target}, {'done' if done else 'on its way'}", flush=True)

    def _start(self, way: str, target: str) -> SparkProcess:
        named = {"url": self._url, "topic": "orders", "sealed": self.lake, "way": way}
        words = [f"{name}={value}" for name, value in {**named, "target": target}.items()]
        state = self.place / f"{target}.json"
        return SparkProcess([str(REPLAYING), str(state), *words], self.place / "replay.log")

    @property
    def _url(self) -> str:
        return f"http://{self.broker.addresses['http']}"

    def _offload(self) -> None:
        words = ["offload", self._url, str(self.lake), "orders", "--roll", "--trim"]
        subprocess.run(
            [sys.executable, "-m", "arneb", *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.DEVNULL,
            check=True,
        )

    @contextmanager
    def _channel(self) -> Iterator[BlockingChannel]:
        parameters = pika.ConnectionParameters("127.0.0.1", self.broker.amqp_port)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("orders", durable=True)
            yield channel

    def _judge(self, queue: str) -> None:
        came = [int(body) for body in bodies_in(self.data, queue)]
        missing, doubled = set(range(MESSAGES)) - set(came), len(came) - len(set(came))
        if missing or doubled:
            raise PromiseBroken(f"{queue}: {len(missing)} are missing, {doubled} came again")
        if came != sorted(came):
            raise PromiseBroken(f"{queue}: in another order")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 31))
    parser.add_argument("--directory", type=Path, default=None)
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    directory = given.directory or Path(tempfile.mkdtemp(prefix="soak-replay-"))
    crash = ReplayCrash(directory, given.seed)
    try:
        replayed = crash.run(given.kills)
    except PromiseBroken as broken:
        print(f"BROKEN (seed {given.seed}, {directory}): {broken}", flush=True)
        return 1
    on_the_way = f"{crash.on_the_way} of them on its way"
    print(f"{crash.kills} kills, {on_the_way}; {replayed:,} messages, each once and in order")
    return 0


if __name__ == "__main__":
    sys.exit(main())
