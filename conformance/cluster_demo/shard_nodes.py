"""Nodes of two shards, set up as users would: three processes, of which one leads each shard.

The rule: they are started with a settings file and a definitions file. Leaders are chosen by asking
for a hand-over, as an operator would.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pika
import pika.exceptions
from conformance.cluster_demo.nodes import NodeProcess, until

AUDIT: Final = "audit"
MAIN: Final = "main"
FIRST: Final = 'prefer = ["n1", "n3", "n2"]\n'
SHARDS: Final = """[[cluster.shards]]
name = "audit"
vhosts = ["audit"]
tenants = ["books"]
prefer = ["n2", "n3", "n1"]
"""
RIGHTS: Final = {"configure": ".*", "write": ".*", "read": ".*"}
VHOSTS: Final = {MAIN: "/", AUDIT: "audit"}
QUEUE: Final = "orders"
DEFINITIONS: Final = {
    "users": [{"name": "carl", "password": "c", "tags": "", "limits": {}}],
    "vhosts": [{"name": "/"}, {"name": "audit"}],
    "permissions": [{"user": "carl", "vhost": each, **RIGHTS} for each in VHOSTS.values()],
    "queues": [
        {"name": QUEUE, "vhost": each, "durable": True, "auto_delete": False, "arguments": {}}
        for each in VHOSTS.values()
    ],
}


class ShardNodes:
    """The three nodes."""

    def __init__(self, directory: Path, url: str, http: str, more: str = "") -> None:
        """``more`` is added to the settings of each node: keys of ``[cluster.internal]``, and
        tables."""
        file = directory / "definitions.json"
        file.write_text(json.dumps(DEFINITIONS))
        self.directory = directory
        self.nodes = [
            NodeProcess(
                name, directory, url, http, before=f'load_definitions = "{file}"\n', own=FIRST,
                after=more + SHARDS, with_pulsar=True,
            )
            for name in ("n1", "n2", "n3")
        ]  # fmt: skip

    def start(self) -> None:
        """Start all nodes. When this returns, the first leads main, the second leads audit, and the
        defined user can log in at each. Raises :class:`DemoFailed`."""
        for each in self.nodes:
            each.start()
        for each in self.nodes:
            each.wait_ready()
        self.led_by(MAIN, self.nodes[0])
        self.led_by(AUDIT, self.nodes[1])
        for node in self.nodes:
            for vhost in VHOSTS.values():
                until(
                    lambda node=node, vhost=vhost: admits(node, vhost), "carl to be able to log in"
                )

    def stop(self) -> None:
        """Stop all nodes. Idempotent."""
        for each in self.nodes:
            each.stop()

    def serves(self, node: NodeProcess, shard: str) -> bool:
        """Whether the node leads that shard and is responding."""
        return node.is_running and node.figure("serves", f'shard="{shard}"') == 1

    def leader(self, shard: str, other_than: NodeProcess | None = None) -> NodeProcess:
        """Wait until a node serves the shard, and return it."""
        found: list[NodeProcess] = []

        def look() -> bool:
            found[:] = [
                each for each in self.nodes if each is not other_than and self.serves(each, shard)
            ]
            return bool(found)

        until(look, f"a leader of {shard}")
        return found[0]

    def led_by(self, shard: str, node: NodeProcess) -> None:
        """Make the node the shard's leader; at the start, another may have become it."""
        if self.leader(shard) is not node:
            self.ask_to_hand_over(shard, node)
        until(lambda: self.serves(node, shard), f"{node.name} to lead {shard}")

    def ask_to_hand_over(self, shard: str, node: NodeProcess) -> str:
        """Ask for a hand-over as an operator would, at a node that may or may not lead the
        shard."""
        command = [
            sys.executable, "-m", "arneb", "ctl", "--data-dir", str(self.nodes[0].data_dir),
            "cluster", "hand-over", shard, "--to", node.name,
        ]  # fmt: skip
        done: list[subprocess.CompletedProcess[str]] = []

        def ask() -> bool:
            # This fails until the members know of each other, so it is repeated.
            done[:] = [subprocess.run(command, capture_output=True, text=True, check=False)]
            return not done[0].returncode

        until(ask, f"{shard} to be handed over to {node.name}", 60)
        return done[0].stdout.splitlines()[-1]


def connect(
    node: NodeProcess, vhost: str, user: str = "carl", password: str = "c"
) -> pika.BlockingConnection:
    """Connect an AMQP client."""
    login = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1", node.ports["amqp"], vhost, credentials=login, heartbeat=5,
            blocked_connection_timeout=10, socket_timeout=5,
        )
    )  # fmt: skip


def admits(node: NodeProcess, vhost: str) -> bool:
    try:
        connect(node, vhost).close()
    except (pika.exceptions.AMQPError, OSError):
        return False
    return True
