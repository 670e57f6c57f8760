"""The demo's script: Pulsar, three nodes, a hand-over, a killed leader, and everything counted.

``python -m conformance.cluster_demo [--messages 100000] [--url URL --http URL]`` starts Apache
Pulsar with three bookies and two brokers, or uses a running one. A publisher runs throughout.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import trio
from conformance.cluster_demo.nodes import NAMESPACE, DemoFailed, NodeProcess, until
from conformance.cluster_demo.publisher import Publisher

from arneb_cluster.protocol.entries import EntryCorrupt, Record, parse_entry
from arneb_cluster.replica import Replica
from arneb_core.store.checking.check import check
from arneb_pulsar.client import connect
from arneb_pulsar.client.admin import administer
from arneb_pulsar.client.ids import EARLIEST

MESSAGES: Final = 100_000
NODES: Final = ("n1", "n2", "n3")
UNDER_WAY_MIN: Final = 3
"""How many records must be without a receipt when the leader is killed."""
GATHER_S: Final = 0.2
"""How many seconds Pulsar's brokers are stopped before a kill, so that records without a receipt
accumulate. Pulsar receives them nevertheless: the kernel sends what is in the leader's socket
buffers, although the process is gone."""
KILLS_MAX: Final = 5
"""How many leaders to kill at most, until one had enough records without a receipt."""
KEPT: Final = {
    "deleteWhileInactive": False,
    "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
    "maxInactiveDurationSeconds": 3_600,
}
"""Policies of the namespace: topics stay even if nobody uses them."""
TOPIC: Final = f"persistent://{NAMESPACE}/main"


def say(line: str) -> None:
    print(line, flush=True)


async def prepare(http: str) -> None:
    """Create the namespace with the policies that nodes require."""
    async with administer(http) as admin:
        if NAMESPACE not in await admin.namespaces("public"):
            await admin.create_namespace(NAMESPACE)
        await admin.set_policy(NAMESPACE, "deduplication", True)
        await admin.set_policy(NAMESPACE, "inactiveTopicPolicies", KEPT)


async def records_of(url: str) -> list[Record]:
    """All records in the log topic."""
    found: list[Record] = []
    async with connect(url) as client:
        reader = await client.create_reader(TOPIC, EARLIEST)
        while await reader.has_message_available():
            try:
                entry = parse_entry((await reader.read()).data)
            except EntryCorrupt:
                continue
            if isinstance(entry, Record):
                found.append(entry)
    return found


class Demo:
    """The nodes, the publisher, and the counts."""

    def __init__(
        self, directory: Path, url: str, http: str, messages: int, brokers: Sequence[int]
    ) -> None:
        """``brokers`` are the process ids of Pulsar's brokers, if they are ours."""
        self.url = url
        self._brokers = brokers
        self.nodes = [NodeProcess(name, directory, url, http) for name in NODES]
        self.messages = messages
        self.publisher = Publisher(messages, self._port)
        self._directory = directory

    def leader(self, other_than: NodeProcess | None = None) -> NodeProcess:
        """The node that serves."""
        found: list[NodeProcess] = []

        def look() -> bool:
            found[:] = [
                each
                for each in self.nodes
                if each is not other_than and each.is_running and each.figure("serves") == 1
            ]
            return bool(found)

        until(look, "a leader")
        return found[0]

    def run(self) -> None:
        """Run the whole scenario. Raises :class:`DemoFailed`."""
        began = time.monotonic()
        for each in self.nodes:
            each.start()
        for each in self.nodes:
            each.wait_ready()
        leader = self.leader()
        say(f"three nodes serve after {time.monotonic() - began:.1f} s; {leader.name} leads")
        began = time.monotonic()
        self.publisher.start()
        until(lambda: len(self.publisher.confirmed) > self.messages // 4 or self._over, "confirms")
        self._hand_over()
        hit = 0
        for _ in range(KILLS_MAX):
            hit = self._kill()
            if hit >= UNDER_WAY_MIN:
                break
        until(lambda: self._over, "the last confirm", 900)
        if self.publisher.failure is not None:
            raise DemoFailed(f"the publisher failed: {self.publisher.failure!r}")
        took_s = self.publisher.last_confirm - began
        rate = self.messages / took_s
        say(
            f"pika has {len(self.publisher.confirmed):,} confirms in {took_s:.1f} s, including "
            f"the pauses: {rate:,.0f} a second, over {self.publisher.connections} connections"
        )
        if hit < UNDER_WAY_MIN:
            what = f"{UNDER_WAY_MIN} records or more under way when a leader was killed"
            raise DemoFailed(f"expected {what}, got {hit}")
        self._count()

    @property
    def _over(self) -> bool:
        return self.publisher.is_done

    def _port(self) -> int:
        """The port of a node that does not lead, if there is one."""
        running = [each for each in self.nodes if each.is_running and "amqp" in each.ports]
        running.sort(key=lambda each: each.figure("leads"))
        return next(each for each in running if each.figure("number") >= 0).ports["amqp"]

    def _hand_over(self) -> None:
        """Have the leader hand over, as an operator would before maintenance."""
        leader = self.leader()
        command = [
            sys.executable, "-m", "arneb", "ctl", "--data-dir", str(leader.data_dir), "cluster",
            "hand-over",
        ]  # fmt: skip
        at = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DemoFailed(f"the leader did not hand over: {done.stdout}{done.stderr}")
        after = time.monotonic()
        until(lambda: self.publisher.last_confirm > after or self._over, "a confirm")
        whens = sorted(when for when in list(self.publisher.confirmed.values()) if when > at)
        pause_s = max(late - early for early, late in pairwise([at, *whens]))
        outcome = done.stdout.splitlines()[-1]
        say(f"{leader.name} hands over: {outcome}; confirms paused for {pause_s:.2f} s")

    def _kill(self) -> int:
        """Kill the leader while records are under way; the result is how many of its records had no
        receipt then."""
        leader = self.leader()
        before = len(self.publisher.confirmed)
        until(lambda: len(self.publisher.confirmed) > before or self._over, "a confirm")
        if self.publisher.failure is not None:
            raise DemoFailed(f"the publisher failed: {self.publisher.failure!r}")
        if self._over:
            raise DemoFailed("the messages were published before the leader could be killed")
        epoch = leader.figure("epoch")
        with stopped(self._brokers):
            time.sleep(GATHER_S if self._brokers else 0.0)
            at = time.monotonic()
            leader.kill()
        other = self.leader(other_than=leader)
        serves_at = time.monotonic()
        until(lambda: self.publisher.last_confirm > serves_at or self._over, "a confirm")
        # Confirms that the old leader had sent may still arrive a little later through another
        # node.
        whens = sorted(when for when in list(self.publisher.confirmed.values()) if when > at)
        pause_s, first = max((late - early, late) for early, late in pairwise([at, *whens]))
        replica = Replica.open(leader.data_dir)
        number = replica.applied.link.number
        replica.store.close()
        records = trio.run(records_of, self.url)
        hit = sum(1 for each in records if each.epoch == epoch and each.number > number)
        say(
            f"{leader.name} was killed with {hit} records under way; {other.name} leads, and the "
            f"next confirm came {first - at:.2f} s after the kill, after a pause of {pause_s:.2f} s"
        )
        leader.start()
        leader.wait_ready()
        return hit

    def _count(self) -> None:
        leader = self.leader()
        follower = next(each for each in self.nodes if each is not leader)
        number = leader.figure("number")
        until(
            lambda: all(each.figure("number") >= number for each in self.nodes), "all at one number"
        )
        began = time.monotonic()
        found = self._directory / "found"
        done = subprocess.run(
            [sys.executable, "-m", "conformance.cluster_demo.spark_job",
             str(follower.data_dir), str(found)],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise DemoFailed(f"Spark failed: {done.stderr[-2_000:]}")
        stored, differ = json.loads(done.stdout.splitlines()[-1])
        say(
            f"Spark counts {stored:,} messages in the directory of {follower.name}, a follower, in "
            f"{time.monotonic() - began:.1f} s"
        )
        bodies = found.read_bytes().split()
        expect("distinct messages", stored, differ)
        lost = self.publisher.confirmed.keys() - set(bodies)
        expect("confirmed messages that are lost", 0, len(lost))
        numbers = {int(body.partition(b".")[0]) for body in bodies}
        expect("messages in all", self.messages, len(numbers))
        again = stored - self.messages
        say(
            "no confirmed message is lost, and no attempt is stored twice; of "
            f"{again} messages an unconfirmed attempt is stored beside its repetition"
        )
        for each in self.nodes:
            each.stop()
        for each in self.nodes:
            expect(f"findings of arneb check on {each.name}", [], check(each.data_dir))

    def stop(self) -> None:
        """Stop all nodes. Idempotent."""
        for each in self.nodes:
            each.stop()


@contextmanager
def stopped(processes: Sequence[int]) -> Iterator[None]:
    """Stop these processes with SIGSTOP while the block runs."""
    for each in processes:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in processes:
            os.kill(each, signal.SIGCONT)


def expect(what: str, expected: object, found: object) -> None:
    """Check an expectation. Raises :class:`DemoFailed`."""
    if found != expected:
        raise DemoFailed(f"{what}: expected {expected}, got {found}")


@contextmanager
def pulsar(url: str, http: str) -> Iterator[tuple[str, str, Sequence[int]]]:
    """Pulsar's service URL, its admin URL, and the process ids of its brokers if they are ours."""
    if url:
        yield url, http, ()
        return
    from conformance.brokers.pulsar_cluster import PulsarCluster

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pulsar-cluster-") as made:
        cluster = PulsarCluster(Path(made)).start()
        try:
            say(f"Pulsar is ready after {time.monotonic() - began:.0f} s: 2 brokers, 3 bookies")
            brokers = [each.pid for each in cluster.brokers]
            yield cluster.pulsar_url, cluster.http_url, brokers
        finally:
            cluster.stop()


def main() -> None:
    """Run it; the exit status is 1 if any count is wrong."""
    parser = argparse.ArgumentParser(
        prog="cluster_demo", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--url", default="")
    parser.add_argument("--http", default="")
    wanted = parser.parse_args()
    began = time.monotonic()
    with (
        pulsar(wanted.url, wanted.http) as (url, http, brokers),
        tempfile.TemporaryDirectory(prefix="arneb-cluster-demo-") as made,
    ):
        trio.run(prepare, http)
        demo = Demo(Path(made), url, http, wanted.messages, brokers)
        try:
            demo.run()
        except DemoFailed as error:
            for each in demo.nodes:
                print(f"--- {each.name}", (each.directory / "log").read_text()[-2_000:], sep="\n")
            say(f"why the publisher lost connections: {demo.publisher.losses[-5:]}")
            say(f"Failed: {error}")
            sys.exit(1)
        finally:
            demo.stop()
    say(f"Nothing was lost. {time.monotonic() - began:.0f} s in all.")


if __name__ == "__main__":
    main()
