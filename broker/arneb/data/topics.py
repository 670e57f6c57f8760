"""Topics: those that exist, by name or number, and what they hold.

The rule: a topic is identified by its name and number, so that a new topic of the same name is
never taken for a deleted one.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Final

import trio

from arneb.data.errors import DataError
from arneb.data.here import (
    Misplaced,
    everything_is,
    expect_here,
    expect_topic_here,
    expect_vhost_here,
)
from arneb.data.rights import Rights
from arneb.logins.principals import queue_in
from arneb_amqp.topology.names import SCHEME, topic_of
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_core.api.topics.topic import Topic
from arneb_core.engine.engine import Engine
from arneb_pulsar.names import PARTITION

TOPICS_A_TURN: Final = 300
"""Topics visited between two checkpoints: some 2 ms, rights included."""

DOCUMENTS_PER_TURN: Final = 200
"""Topics described between two checkpoints: some 2 ms."""

GONE_MAX: Final = 1_000
"""Deleted topics kept in the index, beside as many as exist, before it is rebuilt."""

SIMILAR_MAX: Final = 3
COMPARED_MAX: Final = 2_000
"""The most names compared with a misspelt one: some 10 ms in a thread."""


class TopicDirectory:
    """The topics of a broker."""

    def __init__(
        self, core: Engine, topology: Topology | None, misplaced: Misplaced = everything_is
    ) -> None:
        """``topology`` is the AMQP frontend's, if it is on; ``misplaced`` tells which namespaces
        other shards have."""
        self._misplaced = misplaced
        self._core = core
        self._topology = topology
        self._by_id: dict[int, Topic] = {each.id: each for each in core.topics.values()}
        """Topics by number, including deleted ones until the next request."""
        core.watch_topics(self._changed)

    def __repr__(self) -> str:
        return f"<TopicDirectory of {len(self._core.topics)} topics>"

    def find(self, name: str, number: int | None = None) -> Topic:
        """Return the topic of that name, and of that number if it is given."""
        topic = self._core.topics.get(name)
        if topic is None:
            expect_topic_here(self._misplaced, name)
            raise DataError(404, "topic_not_found", f"no topic {name}")
        if number is not None and topic.id != number:
            reason = f"topic {name} was recreated: expected number {number}, got {topic.id}"
            raise DataError(410, "topic_replaced", reason)
        return topic

    def present(self, names: Iterable[str]) -> list[Topic]:
        """Return the topics of these names that exist."""
        topics = self._core.topics
        return [topics[name] for name in names if name in topics]

    def numbered(self, number: int) -> Topic:
        """Return the topic of that number."""
        topic = self._by_id.get(number)
        if topic is not None and self._is_there(topic):
            return topic
        self._by_id.pop(number, None)
        reason = f"the topic of number {number} is gone: deleted, or recreated"
        raise DataError(410, "topic_replaced", reason)

    async def listed(
        self, rights: Rights, *, namespaces: frozenset[str], internal: bool
    ) -> AsyncIterator[Topic]:
        """Yield the topics of some namespaces (none = all) that may be consumed, by name."""
        for each in namespaces:
            expect_here(self._misplaced, each)
        prefixes = tuple(f"{SCHEME}{each}/" for each in sorted(namespaces))
        for number, name in enumerate(sorted(self._core.topics), 1):
            if number % TOPICS_A_TURN == 0:
                await trio.lowlevel.checkpoint()
            topic = self._core.topics.get(name)
            if topic is None or not (internal or is_public(name)):
                continue
            if (not prefixes or name.startswith(prefixes)) and rights.may_consume(name):
                yield topic

    def named(self, name: str) -> list[Topic]:
        """Return the topic of that name, or the partitions of a partitioned one."""
        topics = self._core.topics
        if (topic := topics.get(name)) is not None:
            return [topic]
        expect_topic_here(self._misplaced, name)
        found: list[Topic] = []
        while (part := topics.get(f"{name}-partition-{len(found)}")) is not None:
            found.append(part)
        return found

    def queue(self, vhost: str, queue: str) -> list[Topic]:
        """Return the topic of a queue."""
        known = None if self._topology is None else self._topology.vhost(vhost)
        if known is None:
            expect_vhost_here(self._misplaced, vhost)
            return []
        topic = self._core.topics.get(topic_of(known.queues.namespace, queue))
        return [] if topic is None else [topic]

    async def similar(self, rights: Rights, missing: Iterable[str]) -> dict[str, list[str]]:
        """Return names similar to the missing ones."""
        present = [
            each.name async for each in self.listed(rights, namespaces=frozenset(), internal=False)
        ][:COMPARED_MAX]
        wanted = list(missing)[:SIMILAR_MAX]
        return await trio.to_thread.run_sync(_similar, wanted, present)

    async def documents(self, topics: Iterable[Topic]) -> list[dict[str, Any]]:
        """Return the documents of topics."""
        found = []
        for number, topic in enumerate(topics, 1):
            if number % DOCUMENTS_PER_TURN == 0:
                await trio.lowlevel.checkpoint()
            found.append(self.document(topic))
        return found

    def document(self, topic: Topic) -> dict[str, Any]:
        """Return the document of a topic."""
        found = PARTITION.fullmatch(topic.name)
        partition = int(found[1]) if found and is_public(topic.name) else -1
        suffix = f"-partition-{partition}"
        return {
            "name": topic.name,
            "id": topic.id,
            "durable": topic.durable,
            "internal": not is_public(topic.name),
            "partition": partition,
            "partitioned": topic.name.removesuffix(suffix) if found else None,
            "queue": self._queue_of(topic),
            "messages": topic.messages,
            "bytes": sum(each.bytes for each in topic.ledgers()),
        }

    def _queue_of(self, topic: Topic) -> Mapping[str, str] | None:
        found = declared_queue(self._topology, topic.name)
        return None if found is None else {"vhost": found[0].name, "name": found[1]}

    def _is_there(self, topic: Topic) -> bool:
        return self._core.topics.get(topic.name) is topic

    def _changed(self, name: str, came: bool) -> None:
        if came:
            topic = self._core.topics[name]
            self._by_id[topic.id] = topic
        elif len(self._by_id) > 2 * len(self._core.topics) + GONE_MAX:
            self._by_id = {each.id: each for each in self._core.topics.values()}


def declared_queue(topology: Topology | None, topic: str) -> tuple[Vhost, str] | None:
    """Return the declared queue that a topic is, if any."""
    if topology is None:
        return None
    namespace, name = queue_in(topic)
    record = topology.catalogue.vhost_of(namespace)
    vhost = None if record is None else topology.vhost(record.name)
    if vhost is None or vhost.queues.options(name) is None:
        return None
    return vhost, name


def is_public(name: str) -> bool:
    """Whether a topic is no internal log."""
    return name.startswith(SCHEME)


def _similar(wanted: list[str], present: list[str]) -> dict[str, list[str]]:
    from difflib import get_close_matches

    return {
        name: found for name in wanted if (found := get_close_matches(name, present, SIMILAR_MAX))
    }
