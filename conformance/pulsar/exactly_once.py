"""Kills a broker and its Java clients repeatedly while these consume, process and produce.

The tests run a short form; by hand::

    python -m conformance.pulsar.exactly_once --kills 100 --seed 7

Java workers (``ExactlyOnce.java``) take tasks and send a result for each, in a transaction. When
the killing has ended, each task must have exactly one result. The broker deduplicates, because a
producer that gets no receipt sends its message again. With ``--nodes`` the broker is a cluster of
that many nodes, of which the leader is killed, and another one takes over.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pulsar
from conformance.brokers.arneb import Arneb
from conformance.brokers.arneb_cluster import MovingCluster
from conformance.brokers.java_server import classpath
from conformance.brokers.process import free_port
from conformance.toolbox import own_environment, tool

PROGRAM: Final = Path(__file__).parent / "ExactlyOnce.java"
TASKS: Final = "persistent://public/default/tasks"
RESULTS: Final = "persistent://public/default/results"
TASKS_PER_KILL: Final = 200
WORKERS: Final = 2
TIMEOUT_S: Final = 3
"""The timeout of transactions, after which those of a killed client end."""

PENDING_MAX: Final = 100_000
"""How many tasks may be without a receipt. A client that failed to connect a few times waits for
half a minute before its next attempt, and meanwhile refuses what its queue has no room for."""

DONE_WITHIN_S: Final = 120.0
"""How long the last results may take after the last kill."""

SILENCE_MS: Final = 5_000
BACK_AFTER_S: Final = 0.5, 6.0
"""How long a killed node stays away, in seconds: sometimes it comes back before another one leads,
and sometimes after."""

SETTINGS: Final = "[pulsar]\ndeduplication = true\n"


class PromiseBroken(AssertionError):
    """The tasks did not get exactly one result each."""


class ExactlyOnce:
    """A broker and its workers, as a context manager."""

    def __init__(self, place: Path, seed: int, nodes: int = 1) -> None:
        self._dice = random.Random(seed)
        ports = {"pulsar": free_port()}
        self._broker: Arneb | MovingCluster
        if nodes == 1:
            self._broker = Arneb(place, listeners=["pulsar"], ports=ports, settings=SETTINGS)
        else:
            self._broker = MovingCluster(
                place, nodes=nodes, listeners=["pulsar"], settings=SETTINGS
            )
        self._workers: list[subprocess.Popen[bytes]] = []
        self._tasks = 0
        self._not_given = 0
        self._taken: set[bytes] = set()
        """The message ids of the results taken so far."""

    def __repr__(self) -> str:
        return f"<ExactlyOnce {self._tasks} tasks on {self._broker!r}>"

    def __enter__(self) -> Self:
        self._broker.start()
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self._client = pulsar.Client(self._broker.pulsar_url, logger=quiet)
        self._judge = self._client.subscribe(
            RESULTS, "judge", initial_position=pulsar.InitialPosition.Earliest
        )
        self._producer = self._client.create_producer(
            TASKS, send_timeout_millis=0, max_pending_messages=PENDING_MAX
        )
        self._workers = [self._worker() for _ in range(WORKERS)]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self._workers:
            each.kill()
            each.wait()
        self._client.close()
        if isinstance(self._broker, MovingCluster):
            self._broker.end()
        else:
            self._broker.stop()

    def play(self, kills: int) -> str:
        """Kill the broker or a worker ``kills`` times; the result is a summary. Raises
        :class:`PromiseBroken`."""
        self._give_tasks()
        found = self._take(1, DONE_WITHIN_S)  # the workers are running
        killed: Counter[str] = Counter()
        for _ in range(kills):
            self._give_tasks()
            time.sleep(self._dice.uniform(0.05, 1.5))
            killed[self._kill_one()] += 1
        found += self._take(self._tasks - len(found), DONE_WITHIN_S)
        if self._not_given:
            raise PromiseBroken(
                f"{self._not_given} tasks were never given, so nobody could do them"
            )
        counts = Counter(each.split()[0] for each in found)
        missing = {b"%d" % number for number in range(self._tasks)} - counts.keys()
        # Results include the id of the task's message: if the ids differ, the task itself was
        # stored twice.
        twice = sorted(each for each in found if counts[each.split()[0]] > 1)
        if missing or twice:
            raise PromiseBroken(f"{len(missing)} missing {sorted(missing)[:5]}, twice {twice[:8]}")
        return f"{dict(killed)}, {self._tasks} tasks, each with one result"

    def _give_tasks(self) -> None:
        for _ in range(TASKS_PER_KILL):
            self._producer.send_async(b"%d" % self._tasks, self._given)
            self._tasks += 1

    def _given(self, result: pulsar.Result, _: object) -> None:
        if result != pulsar.Result.Ok:
            self._not_given += 1

    def _kill_one(self) -> str:
        if self._dice.random() < 0.5:
            self._broker.kill()
            if isinstance(self._broker, MovingCluster):
                # The node may come back before or after another one leads; then it follows.
                time.sleep(self._dice.uniform(*BACK_AFTER_S))
            self._broker.start()
            return "broker"
        number = self._dice.randrange(WORKERS)
        self._workers[number].kill()
        self._workers[number].wait()
        self._workers[number] = self._worker()
        return "client"

    def _worker(self) -> "subprocess.Popen[bytes]":
        java = tool("java", "default-jdk-headless")
        command = [java, "-Xmx256m", "-cp", classpath(), str(PROGRAM), self._broker.pulsar_url]
        command += [TASKS, RESULTS, str(TIMEOUT_S)]
        quiet = subprocess.DEVNULL
        return subprocess.Popen(command, stdout=quiet, stderr=quiet, env=own_environment())

    def _take(self, count: int, within_s: float) -> list[bytes]:
        """Take at least ``count`` results, and any others that come. A message received again is
        counted once, because a broker that is killed may lose acknowledgements."""
        found: list[bytes] = []
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            try:
                message = self._judge.receive(SILENCE_MS)
            except pulsar.Timeout:
                if len(found) >= count:
                    break
                continue
            self._judge.acknowledge(message)
            place = message.message_id().serialize()
            if place not in self._taken:
                self._taken.add(place)
                found.append(message.data())
            end = max(end, time.monotonic() + 2 * SILENCE_MS / 1000)
        return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--nodes", type=int, default=1)
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory() as made,
        ExactlyOnce(Path(made), chosen.seed, chosen.nodes) as played,
    ):
        print(played.play(chosen.kills))
    return 0


if __name__ == "__main__":
    sys.exit(main())
