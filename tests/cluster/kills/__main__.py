"""Kills: leaders of a shard on a real Pulsar cluster are killed, stopped and continued.

``python -m tests.cluster.kills --kills 20 --seed 7`` starts Apache Pulsar (two brokers, three
bookies) and three nodes, or uses ``--url`` and ``--http``. Each time, the leader is killed or hangs
under load, and another node has to continue. At the end every directory contains each confirmed
message once, in its publisher's order, and all directories are equal.
"""

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from uuid import uuid4

import trio

from arneb_cluster.replica import Replica
from arneb_core.api.entries.position import Position
from arneb_core.store.checking.check import check
from arneb_core.store.environment import Store
from arneb_core.store.format.schema import TopicId
from arneb_core.testing.engine_kit import body_of
from arneb_pulsar.client.admin import administer

NAMESPACE = "public/arneb-shards"
QUIET_S = 2.0
"""Everything in flight has been written by then."""
WITHIN_S = 120.0
"""If no other node leads after this time, the run has failed."""


class NodeProcess:
    """One node, restarted whenever it was killed."""

    def __init__(self, name: str, path: Path, url: str, topic: str) -> None:
        self.name, self.path = name, path
        self.confirmed: list[str] = []
        self.last_confirm = 0.0
        self.number = 0
        """How far its directory has the topic."""
        self.stopped = False
        self._command = [
            sys.executable, "-m", "tests.cluster.kills.one_node", url, topic, name, str(path),
        ]  # fmt: skip
        self._log = (path.parent / f"{name}.log").open("ab")
        self.start()

    def start(self) -> None:
        self.last_confirm, self.number = 0.0, 0
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()

    def _read(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            what, _, value = line.rstrip().partition(" ")
            if not line.endswith("\n"):
                return  # it was killed in the meantime
            if what == "at":
                self.number = int(value)
            elif what == "confirmed":
                self.confirmed.append(value)
                self.last_confirm = time.monotonic()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"expected {what} within {WITHIN_S} s")
        time.sleep(0.01)


class Run:
    """Nodes, and what was done to them."""

    def __init__(self, url: str, directory: Path, seed: int) -> None:
        topic = f"persistent://{NAMESPACE}/orders-{uuid4().hex[:8]}"
        self.chance = Random(seed)
        self.nodes = [
            NodeProcess(name, directory / name, url, topic) for name in ("n1", "n2", "n3")
        ]
        self.took_s: dict[str, list[float]] = {"SIGKILL": [], "SIGSTOP": []}

    def leader(self, since: float, other_than: NodeProcess | None = None) -> NodeProcess:
        """The nodes that have confirmed something since then."""
        found: list[NodeProcess] = []

        def look() -> bool:
            found[:] = [
                each
                for each in self.nodes
                if each is not other_than and each.last_confirm > since and not each.stopped
            ]
            return bool(found)

        until(look, "a node that confirms")
        return max(found, key=lambda each: each.last_confirm)

    def wait_until_up(self) -> None:
        """A process starts no faster than Python imports."""
        until(lambda: all(each.number for each in self.nodes), "every node to be up")

    def disturb(self, how: str) -> None:
        self.wait_until_up()
        leader = self.leader(time.monotonic())
        time.sleep(self.chance.uniform(0.5, 3.0))
        before = time.monotonic()
        if how == "SIGKILL":
            leader.kill()
        else:
            leader.stopped = True
            leader.process.send_signal(signal.SIGSTOP)
        other = self.leader(before, other_than=leader)
        took_s = time.monotonic() - before
        self.took_s[how].append(took_s)
        print(f"{how} of {leader.name}: {other.name} confirms after {took_s:.2f} s", flush=True)
        if how == "SIGKILL":
            leader.start()
        else:
            time.sleep(self.chance.uniform(0.0, 2.0))
            leader.process.send_signal(signal.SIGCONT)
            leader.stopped = False
        time.sleep(self.chance.uniform(0.5, 2.0))

    def check(self) -> None:
        """Every promise; raises :class:`SystemExit`."""
        self.wait_until_up()
        for each in self.nodes:
            each.process.send_signal(signal.SIGUSR1)
        time.sleep(QUIET_S)
        number = max(each.number for each in self.nodes)
        until(lambda: min(each.number for each in self.nodes) >= number, "all at one number")
        for each in self.nodes:
            each.kill()
        confirmed = [body for each in self.nodes for body in each.confirmed]
        stored = {each.name: stored_in(each.path) for each in self.nodes}
        longest = max(stored.values(), key=len)
        for name, bodies in stored.items():
            if bodies != longest:
                behind = len(longest) - len(bodies)
                raise SystemExit(f"{name} is not equal to the others; it has {behind} fewer")
        if len(set(longest)) != len(longest):
            raise SystemExit("a message is stored twice")
        missing = set(confirmed) - set(longest)
        if missing:
            raise SystemExit(f"{len(missing)} confirmed messages are lost: {sorted(missing)[:5]}")
        places = {body: index for index, body in enumerate(longest)}
        for each in self.nodes:
            by_publisher: dict[str, list[int]] = {}
            for body in each.confirmed:
                by_publisher.setdefault(body.rpartition(".")[0], []).append(places[body])
            for prefix, found in by_publisher.items():
                if found != sorted(found):
                    raise SystemExit(f"the messages of {prefix} are out of order")
        for each in self.nodes:
            if findings := check(each.path):
                raise SystemExit(f"arneb check of {each.name}: {findings}")
        print(f"{len(confirmed)} confirmed, {len(longest)} stored, in each of three directories")
        for how, times in self.took_s.items():
            if times:
                middle, worst = statistics.median(times), max(times)
                print(f"{how}: {len(times)} times, median {middle:.2f} s, worst {worst:.2f} s")


def stored_in(path: Path) -> list[str]:
    with Store.open(path, follows=True) as store, store.snapshot() as snapshot:
        print(f"{path.name}: {Replica(store).applied.link}")
        runs = snapshot.iter_blocks(TopicId(1), Position(0), Position((1 << 64) - 1))
        return [body_of(entry).decode() for _, run in runs for entry in run]


async def prepare(http: str) -> None:
    """A namespace with the required settings."""
    async with administer(http) as admin:
        if NAMESPACE not in await admin.namespaces("public"):
            await admin.create_namespace(NAMESPACE)
        await admin.set_policy(NAMESPACE, "deduplication", True)


@contextmanager
def pulsar(url: str, http: str) -> Iterator[tuple[str, str]]:
    if url:
        yield url, http
        return
    from conformance.brokers.pulsar_cluster import PulsarCluster

    with tempfile.TemporaryDirectory(prefix="pulsar-cluster-") as made:
        cluster = PulsarCluster(Path(made)).start()
        try:
            yield cluster.pulsar_url, cluster.http_url
        finally:
            cluster.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--stops", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--url", default="")
    parser.add_argument("--http", default="")
    wanted = parser.parse_args()
    seed = Random().randrange(1 << 20) if wanted.seed is None else wanted.seed
    print(f"seed {seed}", flush=True)
    with pulsar(wanted.url, wanted.http) as (url, http), tempfile.TemporaryDirectory() as made:
        trio.run(prepare, http)
        run = Run(url, Path(made), seed)
        try:
            todo = ["SIGKILL"] * wanted.kills + ["SIGSTOP"] * wanted.stops
            run.chance.shuffle(todo)
            for how in todo:
                run.disturb(how)
            run.check()
        except SystemExit:
            for each in run.nodes:
                log = each.path.parent / f"{each.name}.log"
                print(f"--- {each.name}", log.read_text()[-3_000:], sep="\n")
            raise
        finally:
            for each in run.nodes:
                each.kill()


if __name__ == "__main__":
    main()
