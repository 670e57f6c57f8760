"""Listings: the lists of topics that one connection asks for.

The rule: one at a time, and none is begun before there is room for it, so that a connection that
reads nothing makes the broker hold one list and not thousands; and names are matched in pieces, so
that no pattern keeps others waiting.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from arneb_pulsar.patterns import TopicPattern
from arneb_pulsar.session import effects, events

if TYPE_CHECKING:
    from arneb_pulsar.server.peer import Peer


class Listings:
    """Answers what one connection wants to know of namespaces."""

    def __init__(self, peer: "Peer") -> None:
        self._peer = peer
        self._door = peer.door
        self._one_at_a_time = trio.Lock()

    async def list_topics(self, effect: effects.ListTopics) -> None:
        """Tell a namespace's topics."""
        async with self._one_at_a_time:
            await self._peer.room()
            pattern = effect.pattern
            topics = await _chosen(pattern, self._door.topics(effect))
            filtered = pattern is not None
            listed = events.TopicsListed(effect.request_id, topics, effect.known_hash, filtered)
            self._peer.tell(listed)

    def watch_topics(self, effect: effects.WatchTopics) -> None:
        """Tell a namespace's topics, now and whenever one comes or goes."""
        self._door.watchers.watch(self._peer, effect.namespace)
        self._peer.spawn(self._begin_watching, effect)

    async def _begin_watching(self, effect: effects.WatchTopics) -> None:
        async with self._one_at_a_time:
            await self._peer.room()
            topics = self._door.watchers.topics(effect.namespace)
            found = await _chosen(effect.pattern, topics)
            self._peer.tell(events.TopicsWatched(effect.request_id, effect.watcher_id, found))

    def unwatch_topics(self, effect: effects.UnwatchTopics) -> None:
        """Tell no more."""
        self._door.watchers.unwatch(self._peer, effect.namespace)


async def _chosen(pattern: TopicPattern | None, topics: Sequence[str]) -> Sequence[str]:
    """Those of ``topics`` that ``pattern`` means."""
    await trio.lowlevel.checkpoint()
    if pattern is None:
        return topics
    found: list[str] = []
    at_once = pattern.matched_at_once
    for start in range(0, len(topics), at_once):
        found += pattern.choose(topics[start : start + at_once])
        await trio.lowlevel.checkpoint()
    return found
