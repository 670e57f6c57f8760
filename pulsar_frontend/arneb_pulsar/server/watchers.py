"""Watchers: the connections that want to know which topics a namespace has."""

from typing import TYPE_CHECKING

from arneb_core.api.core import Core
from arneb_pulsar.names import PERSISTENT
from arneb_pulsar.session.events import TopicChanged

if TYPE_CHECKING:
    from arneb_pulsar.server.peer import Peer


class Watchers:
    """Who watches what."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._by_namespace: dict[str, dict[Peer, None]] = {}
        self._behind: dict[Peer, dict[str, bool]] = {}
        """What connections that are full were not told: topics that came, or went."""
        core.watch_topics(self._changed)

    def watch(self, peer: "Peer", namespace: str) -> None:
        """From now on the connection is told which topics come and go."""
        self._by_namespace.setdefault(namespace, {})[peer] = None

    def topics(self, namespace: str) -> list[str]:
        """The persistent topics there are, sorted."""
        prefix = f"{PERSISTENT}://{namespace}/"
        return sorted(name for name in self._core.topics if name.startswith(prefix))

    def unwatch(self, peer: "Peer", namespace: str) -> None:
        """The connection wants to know no more of that namespace."""
        watching = self._by_namespace.get(namespace, {})
        watching.pop(peer, None)
        if not watching:
            self._by_namespace.pop(namespace, None)

    def leave(self, peer: "Peer") -> None:
        """The connection ends."""
        self._behind.pop(peer, None)
        for namespace in list(self._by_namespace):
            self.unwatch(peer, namespace)

    def _changed(self, topic: str, came: bool) -> None:
        domain, _, rest = topic.partition("://")
        namespace = rest.rpartition("/")[0]
        if domain == PERSISTENT:
            for peer in list(self._by_namespace.get(namespace, ())):
                if peer in self._behind or peer.is_full:
                    self._hold_back(peer, topic, came=came)
                else:
                    peer.tell(TopicChanged(namespace, topic, came))

    def _hold_back(self, peer: "Peer", topic: str, *, came: bool) -> None:
        """What came and went again need not be told: so there is never more to tell than there
        are topics, or were when the connection was told last."""
        untold = self._behind.setdefault(peer, {})
        if untold.get(topic, came) is came:
            untold[topic] = came
        else:
            del untold[topic]

    def catch_up(self, peer: "Peer") -> None:
        """The connection may be full no more: tell it what it was not told."""
        untold = self._behind.get(peer)
        if untold is None:
            return
        while untold and not peer.is_full:
            topic = next(iter(untold))
            came = untold.pop(topic)
            namespace = topic.partition("://")[2].rpartition("/")[0]
            peer.tell(TopicChanged(namespace, topic, came))
        if not untold:
            self._behind.pop(peer, None)
