"""Kills a broker and its Java clients again and again while these consume, process and produce.

Run by the scenarios in a short form, or by hand::

    python -m conformance.pulsar.exactly_once --kills 100 --seed 7

Workers in Java (``ExactlyOnce.java``) take tasks and send a result of each, in a transaction. It
must hold that each task has one result when nobody is killed any more. The broker deduplicates: a
producer that does not hear whether a message was stored sends it again. With ``--nodes`` it is a
cluster of so many, of which the leader is killed; another one goes on meanwhile.
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
"""Of a transaction whose client was killed."""

PENDING_MAX: Final = 100_000
"""Tasks without receipts. A client that found the broker away a few times waits for half a minute
before it looks again, and refuses what its queue has no room for meanwhile."""

DONE_WITHIN_S: Final = 120.0
"""The last results, after the last kill."""

SILENCE_MS: Final = 5_000
BACK_AFTER_S: Final = 0.5, 6.0
"""A node that was killed: some times before another one leads, and some behind that."""

SETTINGS: Final = "[pulsar]\ndeduplication = true\n"


class PromiseBroken(AssertionError):
    """What became of the tasks is not what was promised."""


class ExactlyOnce:
    """A broker and its workers; for a ``with`` block."""

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
        """Where the results stand that were taken."""

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
        """Kill so often, one or the other; what was seen. Raises :class:`PromiseBroken`."""
        self._give_tasks()
        found = self._take(1, DONE_WITHIN_S)  # the workers have come
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
        # With the ids that the tasks had: other ones, and the task stood there twice.
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
                # Another one leads before this one is back, and follows.
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
        """So many results, and those that come besides; one that comes again, as acknowledgements
        may be lost with a broker, is the same one."""
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
