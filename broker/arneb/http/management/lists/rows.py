"""Rows: queues and topics in one list.

The rule: a row is one log: an AMQP queue or a topic that only Pulsar clients know, but none of the
broker's internal ones. The rows are collected again, in turns, when logs have come or gone, and at
a limited rate; rows of the same logs stay the same objects.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import trio

from arneb.http.management.figures.freshness import Pause, Work, fresh_for_s
from arneb.http.management.lists.ordering import in_order
from arneb.http.management.lists.queues_by_name import QueuesByName
from arneb_amqp.topology.names import SCHEME, SUBSCRIPTION, decode
from arneb_amqp.topology.queues.queue import Queue
from arneb_amqp.topology.topology import Topology
from arneb_core.api.core import Core
from arneb_core.api.subscriptions.subscription import Subscription
from arneb_core.api.topics.topic import Topic

TOPIC: Final = "topic"
"""The type of a topic that is not a queue."""

NO_VHOST: Final = ""
"""The vhost of a topic whose namespace belongs to no vhost."""

CLIENTS_SCHEMES: Final = (SCHEME, "non-persistent://")
"""Schemes of clients' topics. Internal topics have others: those of delayed exchanges, uncommitted
batches and open transactions."""

ROWS_PER_TURN: Final = 2000

SPARING_S: Final = 0.5
"""Users look for a queue right after they create it."""


class Row:
    """One log in the list, as both protocols see it."""

    __slots__ = ("name", "queue", "topic", "vhost")

    def __init__(self, name: str, vhost: str, topic: Topic, queue: Queue | None = None) -> None:
        self.name = name
        """Its name in the vhost; without a vhost, with the namespace."""
        self.vhost = vhost
        """Empty if the namespace belongs to no vhost."""
        self.topic = topic
        self.queue = queue

    def __repr__(self) -> str:
        return f"<Row {self.name!r} in {self.vhost!r}>"

    @property
    def key(self) -> tuple[str, int, str]:
        """The key of its rates."""
        return "row", self.topic.id, self.topic.name

    @property
    def type(self) -> str:
        """The queue type, or :data:`TOPIC`."""
        return TOPIC if self.queue is None else self.queue.options.type.value

    @property
    def main(self) -> Subscription | None:
        """AMQP's subscription, or else the one with the most messages left."""
        found = self.topic.subscriptions
        if SUBSCRIPTION in found:
            return found[SUBSCRIPTION]
        return max(found.values(), key=lambda each: sum(each.lengths), default=None)

    @property
    def lengths(self) -> tuple[int, int]:
        """Ready and unacknowledged messages; without a subscription, all messages in the log."""
        if self.queue is not None:
            return self.queue.lengths
        main = self.main
        return (self.topic.messages, 0) if main is None else main.lengths

    @property
    def bytes(self) -> int:
        """The size of the backlog; without a subscription, of the log."""
        main = self.main
        return self.topic.stored_bytes if main is None else main.backlog_bytes

    @property
    def consumers(self) -> int:
        """Consumers of all subscriptions, except those that only serve ``basic.get``."""
        there = sum([len(each.consumers) for each in self.topic.subscriptions.values()])
        return there if self.queue is None else there - len(self.queue.unseen)


FIGURES: Final[Mapping[str, Callable[[Row], Any]]] = {
    "name": lambda row: row.name,
    "vhost": lambda row: row.vhost,
    "type": lambda row: row.type,
    "messages": lambda row: sum(row.lengths),
    "ready": lambda row: row.lengths[0],
    "unacknowledged": lambda row: row.lengths[1],
    "bytes": lambda row: row.bytes,
    "consumers": lambda row: row.consumers,
    "subscriptions": lambda row: len(row.topic.subscriptions),
}

GROWING: Final[Mapping[str, Callable[[Row], int]]] = {
    "in": lambda row: row.topic.appended_messages_total,
    "out": lambda row: 0 if (main := row.main) is None else main.delivered_messages_total,
}


class AllRows:
    """The rows of one node, by vhost and name."""

    def __init__(
        self,
        by_name: QueuesByName,
        pause: Pause = trio.lowlevel.checkpoint,
        clock: Callable[[], float] = trio.current_time,
    ) -> None:
        self._by_name = by_name
        self._pause = pause
        self._clock = clock
        self._watched: Core | None = None
        self._changes = 0
        self._stamp: tuple[int, ...] = ()
        self._until_s = float("-inf")
        self._rows: Mapping[str, Sequence[Row]] = {}
        self._by_topic: Mapping[str, Row] = {}
        self._finding = trio.Lock()

    def __repr__(self) -> str:
        return f"<AllRows of {len(self._rows)} vhosts>"

    @property
    def stamp(self) -> tuple[int, ...]:
        """Changes when logs come or go."""
        return self._stamp

    def all(self) -> Iterator[Row]:
        """Yield the rows that were collected last."""
        for rows in list(self._rows.values()):
            yield from rows

    async def of(self, core: Core, topology: Topology) -> Mapping[str, Sequence[Row]]:
        """Return the rows by vhost; topics of other namespaces are under :data:`NO_VHOST`."""
        if self._watched is None:
            self._watched = core
            core.watch_topics(self._topic_changed)
        async with self._finding:
            changes = (self._changes, *(each.queues.changes for each in topology.vhosts))
            if changes != self._stamp and self._clock() >= self._until_s:
                work = Work(self._pause, self._clock)
                self._rows = await self._find(core, topology, work.pause)
                self._stamp = changes
                self._until_s = self._clock() + fresh_for_s(work.took_s, SPARING_S)
        return self._rows

    def _topic_changed(self, name: str, there: bool) -> None:
        self._changes += 1

    async def _find(
        self, core: Core, topology: Topology, pause: Pause
    ) -> Mapping[str, Sequence[Row]]:
        found: dict[str, list[Row]] = {}
        known: dict[str, Row] = {}
        namespaces: dict[str, str] = {}
        for vhost in sorted(topology.vhosts, key=lambda each: each.name):
            namespaces[vhost.queues.namespace] = vhost.name
            rows = found[vhost.name] = []
            queues = await self._by_name.of(vhost.queues)
            for begin in range(0, len(queues), ROWS_PER_TURN):
                for queue in queues[begin : begin + ROWS_PER_TURN]:
                    topic = queue.topic
                    row = self._by_topic.get(topic.name)
                    if row is None or row.queue is not queue or row.topic is not topic:
                        row = Row(queue.name, vhost.name, topic, queue)
                    known[topic.name] = row
                    rows.append(row)
                await pause()
        others: dict[str, list[Row]] = {}
        names = [name for name in core.topics if name not in known]
        for number, name in enumerate(names, 1):
            found_topic = core.topics.get(name)
            if found_topic is not None and name.startswith(CLIENTS_SCHEMES):
                row = known[name] = self._of_topic(found_topic, namespaces)
                others.setdefault(row.vhost, []).append(row)
            if number % ROWS_PER_TURN == 0:
                await pause()
        for vhost_name, rows in others.items():
            both = [*found.get(vhost_name, ()), *rows]
            found[vhost_name] = await in_order(both, FIGURES["name"], pause)
        self._by_topic = known
        return found

    def _of_topic(self, topic: Topic, namespaces: Mapping[str, str]) -> Row:
        """Return the row of a topic that is not a queue; ``namespaces`` maps namespaces to
        vhosts."""
        space, _, local = topic.name.removeprefix(SCHEME).rpartition("/")
        vhost = namespaces.get(space, NO_VHOST)
        before = self._by_topic.get(topic.name)
        if (
            before is not None
            and before.queue is None
            and before.topic is topic
            and before.vhost == vhost
        ):
            return before
        return Row(f"{space}/{local}" if vhost == NO_VHOST else decode(local), vhost, topic)
