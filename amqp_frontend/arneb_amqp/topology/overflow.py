"""The gate: what is on its way into queues, of which some refuse what is too much.

The rule: whatever comes for such a queue passes here, whoever sent it: a publisher, a
transaction, a dead letter exchange or one that delays. So a full queue stays as full as it is,
and what is on its way is counted until it is in or will never be.

Sources: the overflow behaviours in RabbitMQ's queue length documentation, and RabbitMQ 3.10.8
itself for dead letters, which it refuses like any other message.
"""

from typing import TYPE_CHECKING

from arneb_amqp.topology.sizes import payload_bytes
from arneb_core.api.topics import Topic

if TYPE_CHECKING:
    from arneb_amqp.topology.dead_letters import DeadLetterOffice
    from arneb_amqp.topology.queues.limits import Keeping
    from arneb_amqp.topology.queues.queue import Queue


class Gate:
    """The appends of one unit."""

    def __init__(self) -> None:
        self.appends: dict[Topic, list[bytes]] = {}
        """What gets in, in its order, by topic."""
        self._refused: list[tuple[DeadLetterOffice, bytes]] = []
        self._on_their_way: list[Keeping] = []

    def __repr__(self) -> str:
        return f"<Gate to {len(self.appends)} topics>"

    def put(self, topic: Topic, entry: bytes) -> None:
        """``entry`` goes where nothing is refused."""
        self.appends.setdefault(topic, []).append(entry)

    def offer(self, queue: "Queue", entry: bytes) -> bool:
        """``entry`` goes into ``queue``, which refuses: whether there was room."""
        keeping = queue.keeping
        if keeping is None:
            self.put(queue.topic, entry)
            return True
        size = payload_bytes(entry)
        if not keeping.takes(queue, size):
            if keeping.office is not None and keeping.refused_die:
                self._refused.append((keeping.office, entry))
            return False
        if keeping.outlives(queue, entry):
            keeping.let_in(size)
            self._on_their_way.append(keeping)
        self.put(queue.topic, entry)
        return True

    def close(self) -> dict[Topic, list[bytes]]:
        """All have come: what was refused goes on as dead letters, behind them."""
        for office, entry in self._refused:
            office.bury_refused(entry, self)  # which may be refused again, and so comes here too
        self._refused.clear()
        return self.appends

    def over(self) -> None:
        """The unit has taken place, or never will. Idempotent."""
        on_their_way, self._on_their_way = self._on_their_way, []
        for keeping in on_their_way:
            keeping.arrived()
