"""Copies on Apache Pulsar: the log topic is trimmed, and a node without data takes a copy.

``python -m conformance.cluster_demo.copies [--messages 5000]`` has two nodes store messages, closes
the topic's ledger, checks that Pulsar deletes it, kills a third node in the middle of taking its
copy, and finally counts what each directory holds. Then it deletes the topic, and the shard
continues from one directory.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import httpx
import pika
from conformance.brokers.pulsar_service import NAMESPACE, pulsar_service
from conformance.cluster_demo.__main__ import expect, say
from conformance.cluster_demo.nodes import DemoFailed, NodeProcess, until

from arneb_core.store.checking.check import check

MESSAGES: Final = 5_000
BODY: Final = b"x" * 2_000
PUBLISHERS: Final = 8
ADMIN_S: Final = 60.0
ROUND_S: Final = 6.0
"""Long enough for each node to report once more what it has stored, and for the leader to evaluate
it."""
TOPIC: Final = f"persistent/{NAMESPACE}/main"
QUEUE: Final = "orders"


class Topic:
    """The log topic, seen through Pulsar's admin API."""

    def __init__(self, http: str) -> None:
        self._url = f"{http}/admin/v2/{TOPIC}"

    def look(self) -> dict[str, Any]:
        """Its ledgers and size, and the position up to which its subscription needs nothing any
        more."""
        found = httpx.get(
            f"{self._url}/internalStats", timeout=ADMIN_S, follow_redirects=True
        ).json()
        return {
            "ledgers": [each["ledgerId"] for each in found["ledgers"]],
            "bytes": found["totalSize"],
            "needed": found["cursors"]["trim"]["markDeletePosition"],
        }

    def close_ledger(self) -> None:
        """Make the topic start a new ledger, as the death of a broker would."""
        httpx.put(f"{self._url}/unload", timeout=ADMIN_S, follow_redirects=True).raise_for_status()

    def delete(self) -> None:
        """Delete the log topic and the members' topic, by force."""
        for url in (self._url, f"{self._url}-members"):
            httpx.delete(
                url, params={"force": "true"}, timeout=ADMIN_S, follow_redirects=True
            ).raise_for_status()

    def trimmed(self) -> None:
        """Close ledgers until more than half of the topic has been deleted."""
        before = self.look()
        say(f"the topic: {before}")
        after: dict[str, Any] = {}

        def look() -> bool:
            self.close_ledger()
            time.sleep(ROUND_S)
            after.update(self.look())
            return bool(after["bytes"] < before["bytes"] // 2)

        until(look, "most of the topic to be deleted")
        say(f"the topic, trimmed: {after}")


class Copies:
    """The nodes, and the number of confirmed messages."""

    def __init__(self, directory: Path, url: str, http: str, messages: int) -> None:
        self.nodes = [NodeProcess(name, directory, url, http) for name in ("n1", "n2", "n3")]
        self.topic = Topic(http)
        self.messages = messages
        self.confirmed = 0

    def leader(self) -> NodeProcess:
        """The node that serves."""
        found: list[NodeProcess] = []

        def look() -> bool:
            found[:] = [each for each in self.nodes if each.figure("serves") == 1]
            return bool(found)

        until(look, "a leader")
        return found[0]

    def publish(self, node: NodeProcess, count: int) -> None:
        """Publish ``count`` messages, each confirmed."""
        errors: list[BaseException] = []

        def work() -> None:
            try:
                parameters = pika.ConnectionParameters("127.0.0.1", node.ports["amqp"])
                with pika.BlockingConnection(parameters) as connection:
                    channel = connection.channel()
                    channel.queue_declare(QUEUE, durable=True)
                    channel.confirm_delivery()
                    properties = pika.BasicProperties(delivery_mode=2)
                    for _ in range(count // PUBLISHERS):
                        channel.basic_publish("", QUEUE, BODY, properties)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(PUBLISHERS)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        if errors:
            raise DemoFailed(f"a publisher failed: {errors[0]!r}")
        self.confirmed += count // PUBLISHERS * PUBLISHERS

    def run(self) -> None:
        """Run the whole scenario. Raises :class:`DemoFailed`."""
        first, second, third = self.nodes
        for each in (first, second):
            each.start()
        for each in (first, second):
            each.wait_ready()
        leader = self.leader()
        self.publish(leader, self.messages)
        self.topic.trimmed()
        self._join(third)
        self.publish(third, self.messages // 10)
        self._keep_for(third)
        self._stop_and_count()
        self._re_found()

    def _join(self, node: NodeProcess) -> None:
        """Kill the node in the middle of taking its copy, and start it again."""
        began = time.monotonic()
        node.start()
        making = node.data_dir / "arneb.copy" / "data.mdb"
        until(lambda: making.exists() or self._is_up(node), "a copy")
        node.kill()
        there = making.stat().st_size if making.exists() else 0
        node.start()
        node.wait_ready()
        lines = [line for line in node.lines if "has a copy of what node" in line]
        expect("copies that it took", 1, len(lines))
        copied, took_s = lines[0].partition(" has ")[2], time.monotonic() - began
        say(
            f"{node.name} has {copied}, {took_s:.1f} s after its start; it was killed when "
            f"{there:,} bytes of it were there"
        )

    def _is_up(self, node: NodeProcess) -> bool:
        return "Server startup complete" in node.lines

    def _keep_for(self, node: NodeProcess) -> None:
        """What the node lacks is kept while it is away."""
        node.kill()
        leader = self.leader()
        self.publish(leader, self.messages // 10)
        time.sleep(2 * ROUND_S)
        for _ in range(2):
            self.topic.close_ledger()
            time.sleep(3)
        node.start()
        node.wait_ready()
        if [line for line in node.lines if "a copy" in line]:
            raise DemoFailed(f"expected {node.name} to read on, got {node.lines}")
        say(f"{node.name} was away and could read on: nothing that it lacked was trimmed")

    def _stop_and_count(self) -> None:
        leader = self.leader()
        number = leader.figure("number")
        until(lambda: all(each.figure("number") >= number for each in self.nodes), "one number")
        for each in self.nodes:
            each.stop()
        for each in self.nodes:
            expect(f"findings of arneb check on {each.name}", [], check(each.data_dir))
            found = messages_of(self._arneb("topics", str(each.data_dir)), QUEUE)
            expect(f"messages in {QUEUE} on {each.name}", self.confirmed, found)
        say(f"each of three directories has {self.confirmed:,} messages, and none has findings")

    def _re_found(self) -> None:
        """The topic is lost: the shard continues from one directory, and another node takes a
        copy."""
        best, other, _ = self.nodes
        self.topic.delete()
        best.start()
        until(lambda: not best.is_running, "a node that refuses to start")
        log = (best.directory / "log").read_text() + "\n".join(best.lines)
        if "re-found" not in log:
            raise DemoFailed(f"expected advice on what to do, got {log[-500:]}")
        self._arneb("ctl", "cluster", "re-found", "--data-dir", str(best.data_dir), "--yes")
        best.start()
        best.wait_ready()
        until(lambda: best.figure("serves") == 1, "a leader")
        other.data_dir.rename(other.directory / "before")
        other.start()
        other.wait_ready()
        self.publish(other, PUBLISHERS)
        until(lambda: other.figure("number") >= best.figure("number") - 1, "one number")
        for each in (best, other):
            each.stop()
        for each in (best, other):
            expect(f"findings of arneb check on {each.name}", [], check(each.data_dir))
            found = messages_of(self._arneb("topics", str(each.data_dir)), QUEUE)
            expect(f"messages in {QUEUE} on {each.name}", self.confirmed, found)
        say(
            f"the topic was deleted; {best.name} continued from its directory, "
            f"{other.name} from a copy"
        )

    def _arneb(self, *words: str) -> str:
        command = [sys.executable, "-m", "arneb", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DemoFailed(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def stop(self) -> None:
        """Stop all nodes. Idempotent."""
        for each in self.nodes:
            each.stop()


def messages_of(table: str, topic: str) -> int | None:
    """How many messages ``arneb topics`` shows for a topic; None if it does not show it."""
    for line in table.splitlines():
        name, _, rest = line.strip().partition(" ")
        if name.rpartition("/")[2] == topic:
            return int(rest.split()[0].replace(",", ""))
    return None


def main() -> None:
    """Run it; the exit status is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--messages", type=int, default=MESSAGES)
    wanted = parser.parse_args()
    with (
        pulsar_service("cluster") as service,
        tempfile.TemporaryDirectory(prefix="arneb-cluster-copies-") as made,
    ):
        say("Pulsar is ready")
        copies = Copies(Path(made), service.url, service.http, wanted.messages)
        try:
            copies.run()
        except DemoFailed as error:
            for each in copies.nodes:
                log = each.directory / "log"
                print(
                    f"--- {each.name}", log.read_text()[-2_000:] if log.exists() else "", sep="\n"
                )
            say(f"Failed: {error}")
            sys.exit(1)
        finally:
            copies.stop()


if __name__ == "__main__":
    main()
