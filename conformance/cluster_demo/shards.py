"""Several shards, set up as users would: nodes that are processes, two shards with different
leaders, clients of both protocols at any node, a hand-over, and a kill of each leader.

``python -m conformance.cluster_demo.shards [--service cluster] [--seconds 20] [--spark]`` publishes
to both shards throughout, and finally counts what each directory holds. With ``--service arneb``,
which tests can afford, Arneb stands in for Pulsar.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import httpx
import pika
import pika.exceptions
import pulsar
from conformance.brokers.pulsar_service import KINDS, pulsar_service
from conformance.cluster_demo.__main__ import expect, say
from conformance.cluster_demo.nodes import DemoFailed, NodeProcess, until
from conformance.cluster_demo.shard_nodes import (
    AUDIT,
    MAIN,
    QUEUE,
    RIGHTS,
    VHOSTS,
    ShardNodes,
    connect,
)

from arneb_core.store.checking.check import check

TOPICS: Final = {
    MAIN: "persistent://public/default/orders",
    AUDIT: "persistent://public/audit/orders",
}
PARTITIONED: Final = "persistent://books/old/parts"

UNDISTURBED_S: Final = 2.0
"""The longest pause allowed for clients of a shard that lost nothing; a busy machine needs no
more."""
HAND_OVER_S: Final = 1.0
TAKE_OVER_S: Final = 15.0
PAUSE_S: Final = 0.01


class Client(threading.Thread):
    """Publishes to one shard, if possible through a node that does not lead it: one message after
    the other, each confirmed."""

    def __init__(self, shard: str, nodes: Sequence[NodeProcess]) -> None:
        super().__init__(daemon=True)
        self.shard = shard
        self._nodes = nodes
        self.confirmed: list[tuple[float, bytes]] = []
        """When each message was confirmed, and its body."""
        self._is_over = False
        self.losses = 0

    def run(self) -> None:
        number = 0
        while not self._is_over:
            for node in self._nodes:
                if not node.is_running or self._is_over:
                    continue
                try:
                    number = self._publish(node, number)
                except (pika.exceptions.AMQPError, OSError):
                    self.losses += 1
                    time.sleep(PAUSE_S)

    def _publish(self, node: NodeProcess, number: int) -> int:
        connection = connect(node, VHOSTS[self.shard])
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            durable = pika.BasicProperties(delivery_mode=2)
            while not self._is_over:
                number += 1
                body = f"{self.shard}.{number}.{self.losses}".encode()
                channel.basic_publish("", QUEUE, body, durable)
                self.confirmed.append((time.monotonic(), body))
                connection.sleep(PAUSE_S)
        finally:
            if connection.is_open:
                connection.close()
        return number

    def longest_pause(self, since: float, until_s: float) -> float:
        """The longest time between two confirms."""
        whens = [since, *(when for when, _ in list(self.confirmed) if since < when < until_s)]
        return max((late - early for early, late in pairwise([*whens, until_s])), default=0.0)

    def goes_on(self) -> None:
        """Wait until more is confirmed."""
        before = len(self.confirmed)
        until(lambda: len(self.confirmed) > before + 2, f"confirms in {self.shard}")

    def end(self) -> None:
        """Stop publishing."""
        self._is_over = True
        self.join()


class Story(ShardNodes):
    """The nodes, and what happens to them."""

    def __init__(self, directory: Path, url: str, http: str) -> None:
        super().__init__(directory, url, http)
        self.http = httpx.Client(auth=("guest", "guest"), timeout=30, follow_redirects=True)

    def run(self, seconds: float, *, spark: bool) -> None:
        """Run the whole scenario. Raises :class:`DemoFailed`."""
        began = time.monotonic()
        self.start()
        n1, n2, n3 = self.nodes
        say(f"three nodes after {time.monotonic() - began:.1f} s: n1 leads main, n2 leads audit")
        say("the definitions have been loaded in both shards, at every node")
        self.pulsar_clients()
        self.users()
        clients = {shard: Client(shard, [n3, n1, n2]) for shard in VHOSTS}
        for each in clients.values():
            each.start()
        for each in clients.values():
            each.goes_on()
        self.hand_over(clients, AUDIT, n3)
        self.lists()
        time.sleep(seconds)
        self.kill(clients, AUDIT, MAIN)
        time.sleep(seconds)
        self.kill(clients, MAIN, AUDIT)
        time.sleep(seconds)
        for each in clients.values():
            each.goes_on()
            each.end()
        self.lists()
        self.count(clients, spark=spark)

    # Checks

    def get(self, node: NodeProcess, path: str) -> Any:
        """A node's answer to a request for its management API. Raises :class:`DemoFailed`."""
        answer = self.http.get(f"http://127.0.0.1:{node.ports['http']}{path}")
        if answer.status_code != 200:
            raise DemoFailed(f"{path} at {node.name}: {answer.status_code} {answer.text[:300]}")
        return answer.json()

    def pulsar_clients(self) -> None:
        """The official Pulsar client works with the service URL of each node."""
        names = "persistent://public/default/p", "persistent://books/old/p"
        tenant = {"allowedClusters": ["standalone"]}
        # These requests are carried to the first shard's leader and take effect immediately.
        self.admin("PUT", "tenants/books", 204, tenant)
        self.admin("PUT", "namespaces/books/old", 204)
        self.admin("PUT", "persistent/books/old/parts/partitions", 204, 3)
        for node in self.nodes:
            log = pulsar.FileLogger(pulsar.LoggerLevel.Error, str(self.directory / "pulsar.log"))
            client = pulsar.Client(f"pulsar://127.0.0.1:{node.ports['pulsar']}", logger=log)
            for name in names:
                consumer = client.subscribe(name, node.name)
                producer = client.create_producer(name)
                producer.send(node.name.encode())
                expect(f"what {name} has", node.name.encode(), consumer.receive(20_000).data())
            both = client.subscribe(list(names), f"{node.name}-both")
            producer.send(b"more")
            expect("what a consumer of both has", b"more", both.receive(20_000).data())
            producer = client.create_producer(PARTITIONED)
            consumer = client.subscribe(PARTITIONED, node.name)
            expect("partitions", 3, len(client.get_topic_partitions(PARTITIONED)))
            producer.send(b"part", partition_key=node.name)
            expect(f"what {PARTITIONED} has", b"part", consumer.receive(20_000).data())
            client.close()
        say("the official Pulsar client has used topics of both shards at every node")

    def admin(self, method: str, path: str, status: int, document: Any = None) -> Any:
        """Call Pulsar's admin API of the third node."""
        url = f"http://127.0.0.1:{self.nodes[2].ports['http-pulsar']}/admin/v2/{path}"
        answer = self.http.request(
            method, url, json=({} if document is None else document) if method == "PUT" else None
        )
        expect(f"{method} {path}", status, answer.status_code)
        return answer.json() if answer.content else None

    def users(self) -> None:
        """A user created at one node and granted rights at another can log in at the third."""
        n1, n2, n3 = self.nodes
        user = {"password": "x", "tags": ""}
        for node, path, body in (
            (n3, "/api/users/dora", user), (n1, "/api/permissions/audit/dora", RIGHTS),
        ):  # fmt: skip
            url = f"http://127.0.0.1:{node.ports['http']}{path}"
            expect(f"PUT {path}", 201, self.http.put(url, json=body).status_code)
        connect(n2, "audit", "dora", "x").close()
        say(
            "a user created at one node and granted rights at another can log in at the third "
            "immediately"
        )

    def lists(self) -> None:
        """Lists are complete at every running node."""
        for node in self.nodes:
            if not node.is_running:
                continue
            queues = self.get(node, "/api/queues?columns=vhost,name")
            found = [each["vhost"] for each in queues if each["name"] == QUEUE]
            expect(f"queues at {node.name}", ["/", "audit"], sorted(found))
            names = [each["name"] for each in self.get(node, "/api/vhosts")]
            expect(f"vhosts at {node.name}", True, {"/", "audit"} <= set(names))
            rows = self.get(node, "/api/page/topics?page=1&page_size=100")
            shards = {each["shard"] for each in rows["items"]}
            expect(f"the page at {node.name}", ({MAIN, AUDIT}, []), (shards, rows["missing"]))
            messages = self.get(node, "/api/overview")["queue_totals"]["messages"]
            expect(f"messages at {node.name}", True, messages > 0)
        tenants = self.admin("GET", "tenants", 200)
        expect("tenants", True, {"public", "books"} <= set(tenants))
        say("lists, totals, the page and tenants are complete at every node")

    # Disturbances

    def hand_over(self, clients: dict[str, Client], shard: str, to: NodeProcess) -> None:
        """Hand over one shard while clients use both."""
        at = time.monotonic()
        outcome = self.ask_to_hand_over(shard, to)
        clients[shard].goes_on()
        end = time.monotonic()
        pauses = {each.shard: each.longest_pause(at, end) for each in clients.values()}
        say(f"{shard}: {outcome}; confirms paused for {text_of(pauses)}")
        for each, most in (
            (shard, HAND_OVER_S),
            *((o, UNDISTURBED_S) for o in clients if o != shard),
        ):
            if pauses[each] > most:
                say(f"(longer than {most} s in {each}: a busy machine, or a fault)")
        expect("hand-over within its bound", True, pauses[shard] < 3 * HAND_OVER_S)

    def kill(self, clients: dict[str, Client], shard: str, other: str) -> None:
        """Kill the leader of one shard, which must not lead the other; the other goes on."""
        leader, kept = self.leader(shard), self.leader(other)
        if leader is kept:
            self.led_by(
                other, next(each for each in self.nodes if each is not leader and each.is_running)
            )
            clients[other].goes_on()
        # Clients connected to this node must reconnect, whatever it leads.
        at = time.monotonic()
        leader.kill()
        next_one = self.leader(shard, other_than=leader)
        clients[shard].goes_on()
        clients[other].goes_on()
        end = time.monotonic()
        pauses = {each.shard: each.longest_pause(at, end) for each in clients.values()}
        say(
            f"{leader.name}, which led {shard}, was killed; {next_one.name} leads it. Confirms "
            f"paused for {text_of(pauses)}"
        )
        expect(f"{other} undisturbed", True, pauses[other] < UNDISTURBED_S)
        expect(f"{shard} taken over", True, pauses[shard] < TAKE_OVER_S)
        leader.start()
        leader.wait_ready()

    def count(self, clients: dict[str, Client], *, spark: bool) -> None:
        """Check that everything confirmed is stored exactly once, in the directories of all
        nodes."""
        for shard, client in clients.items():
            leader = self.leader(shard)
            label = f'shard="{shard}"'
            number = leader.figure("number", label)
            until(
                lambda label=label, number=number: all(
                    each.figure("number", label) >= number for each in self.nodes
                ),
                "all at one number",
            )
            if spark:
                follower = next(each for each in self.nodes if each is not leader)
                self.count_by_spark(follower, shard, client)
            else:
                self.count_by_consuming(leader, shard, client)
        for each in self.nodes:
            each.stop()
        for each in self.nodes:
            for shard in VHOSTS:
                path = directory_of(each, shard)
                expect(f"findings of arneb check in {path}", [], check(path))
        say("arneb check finds nothing in any directory of either shard")

    def count_by_consuming(self, leader: NodeProcess, shard: str, client: Client) -> None:
        """Compare with everything that is in the queue."""
        connection = connect(leader, VHOSTS[shard])
        channel = connection.channel()
        found = []
        while (got := channel.basic_get(QUEUE, auto_ack=True))[0] is not None:
            found.append(got[2])
        connection.close()
        self.compare(shard, client, found)

    def count_by_spark(self, follower: NodeProcess, shard: str, client: Client) -> None:
        """Compare with everything that a follower has."""
        out = self.directory / f"found-{shard}"
        done = subprocess.run(
            [sys.executable, "-m", "conformance.cluster_demo.spark_job",
             str(directory_of(follower, shard)), str(out), TOPICS[shard]],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise DemoFailed(f"Spark failed: {done.stderr[-2_000:]}")
        say(f"Spark has read {shard} in the directory of {follower.name}, a follower")
        self.compare(shard, client, out.read_bytes().split())

    def compare(self, shard: str, client: Client, found: list[bytes]) -> None:
        confirmed = {body for _, body in client.confirmed}
        expect(f"confirmed messages of {shard} that are lost", set(), confirmed - set(found))
        expect(f"messages of {shard} that are stored twice", len(set(found)), len(found))
        strange = [each for each in found if not each.startswith(f"{shard}.".encode())]
        expect(f"messages in {shard} that are another's", [], strange)
        more = len(found) - len(confirmed)
        say(f"{shard}: {len(confirmed):,} confirmed, all stored once; {more} without a confirm")

    def stop(self) -> None:
        self.http.close()
        super().stop()


def directory_of(node: NodeProcess, shard: str) -> Path:
    return node.data_dir if shard == MAIN else node.data_dir / "shards" / shard


def text_of(pauses: dict[str, float]) -> str:
    return " and ".join(f"{pause:.2f} s in {shard}" for shard, pause in pauses.items())


def main() -> None:
    """Run it; the exit status is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="shards", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--service", choices=KINDS, default="cluster")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="seconds between two disturbances"
    )
    parser.add_argument("--spark", action="store_true", help="count with Spark, on followers")
    wanted = parser.parse_args()
    began = time.monotonic()
    with (
        pulsar_service(wanted.service) as service,
        tempfile.TemporaryDirectory(prefix="arneb-shards-") as made,
    ):
        say(
            f"the Pulsar service ({wanted.service}) is ready after {time.monotonic() - began:.0f} s"
        )
        story = Story(Path(made), service.url, service.http)
        try:
            story.run(wanted.seconds, spark=wanted.spark)
        except DemoFailed as error:
            for each in story.nodes:
                print(f"--- {each.name}", (each.directory / "log").read_text()[-3_000:], sep="\n")
            say(f"Failed: {error}")
            sys.exit(1)
        finally:
            story.stop()
    say(f"Nothing was lost. {time.monotonic() - began:.0f} s in all.")


if __name__ == "__main__":
    main()
