"""Listings: the lists of topics that one connection asks for.

The rule: lists are made one at a time, and only once there is room for the answer, so that a
connection that reads nothing makes the broker hold one list and not thousands; names are matched in
pieces, so that no pattern keeps others waiting.
"""

from collections.abc import Sequence
from typing import Final

import trio

from arneb_pulsar.names import DOMAINS, NON_PERSISTENT, PERSISTENT
from arneb_pulsar.patterns import TopicPattern
from arneb_pulsar.services.clients.connections import ClientConnection
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.session.interface import effects, events
from arneb_pulsar.wire.proto.pulsar_pb2 import CommandGetTopicsOfNamespace

DOMAINS_OF: Final = {
    CommandGetTopicsOfNamespace.PERSISTENT: (PERSISTENT,),
    CommandGetTopicsOfNamespace.NON_PERSISTENT: (NON_PERSISTENT,),
    CommandGetTopicsOfNamespace.ALL: DOMAINS,
}
"""The domains of each listing mode."""


class Listings:
    """Answers what one connection asks about namespaces."""

    def __init__(self, context: BrokerContext, connection: ClientConnection) -> None:
        self._context = context
        self._connection = connection
        self._one_at_a_time = trio.Lock()

    def __repr__(self) -> str:
        return f"<Listings, {self._one_at_a_time.statistics().tasks_waiting} waiting>"

    async def list_topics(self, effect: effects.ListTopics) -> None:
        """Answer with a namespace's topics."""
        async with self._one_at_a_time:
            await self._connection.room()
            pattern = effect.pattern
            present = self._context.topics.listed(effect.namespace, DOMAINS_OF[effect.mode])
            topics = await _chosen(pattern, present)
            filtered = pattern is not None
            listed = events.TopicsListed(effect.request_id, topics, effect.known_hash, filtered)
            self._connection.tell(listed)

    async def watch_topics(self, effect: effects.WatchTopics) -> None:
        """Answer with the topics of a namespace that is watched now; changes are told from then
        on."""
        async with self._one_at_a_time:
            await self._connection.room()
            present = self._context.topics.listed(effect.namespace, (PERSISTENT,))
            found = await _chosen(effect.pattern, present)
            watched = events.TopicsWatched(effect.request_id, effect.watcher_id, found)
            self._connection.tell(watched)


async def _chosen(pattern: TopicPattern | None, topics: Sequence[str]) -> Sequence[str]:
    """Return those of ``topics`` that match ``pattern``."""
    await trio.lowlevel.checkpoint()
    if pattern is None:
        return topics
    found: list[str] = []
    at_once = pattern.matched_at_once
    for start in range(0, len(topics), at_once):
        found += pattern.choose(topics[start : start + at_once])
        await trio.lowlevel.checkpoint()
    return found
