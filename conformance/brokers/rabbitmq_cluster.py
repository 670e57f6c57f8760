"""A RabbitMQ cluster: nodes that have joined the first of them.

The rule: all share the first node's cookie and epmd. The first node is never the one to be killed,
so that the others can find each other afterwards.
"""

from pathlib import Path
from typing import Final, Self

from conformance.brokers.process import Address
from conformance.brokers.rabbitmq import RabbitMQ

NODES: Final = 3
"""The default number of members of a quorum queue."""


class RabbitMQCluster:
    """RabbitMQ nodes, started and ended together."""

    name = "rabbitmq"

    def __init__(self, directory: Path, nodes: int = NODES) -> None:
        first = RabbitMQ(directory / "n1")
        others = (RabbitMQ(directory / f"n{each}", joins=first) for each in range(2, nodes + 1))
        self.nodes = [first, *others]

    def __repr__(self) -> str:
        running = sum(each.running for each in self.nodes)
        return f"<RabbitMQCluster, {running} of {len(self.nodes)} run>"

    @property
    def addresses(self) -> list[Address]:
        """Where each node listens for AMQP."""
        return [each.address for each in self.nodes]

    def start(self) -> Self:
        """Start it; all nodes have joined when this returns."""
        for each in self.nodes:
            each.start()
        return self

    def stop(self) -> None:
        """Shut all of it down, the first node last. Idempotent."""
        for each in reversed(self.nodes):
            each.stop()

    def kill(self) -> None:
        """Send SIGKILL to all of it. Idempotent."""
        for each in reversed(self.nodes):
            each.kill()
