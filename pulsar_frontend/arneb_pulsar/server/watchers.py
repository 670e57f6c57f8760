"""Watchers: the connections that want to know which topics a namespace has."""

from typing import TYPE_CHECKING

from arneb_core.interface import Core
from arneb_pulsar.names import PERSISTENT
from arneb_pulsar.session.events import TopicChanged

if TYPE_CHECKING:
    from arneb_pulsar.server.peer import Peer


class Watchers:
    """Who watches what."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._by_namespace: dict[str, dict[Peer, None]] = {}
        core.watch_topics(self._changed)

    def watch(self, peer: "Peer", namespace: str) -> list[str]:
        """The persistent topics there are, sorted; from now on the connection is told more."""
        self._by_namespace.setdefault(namespace, {})[peer] = None
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
        for namespace in list(self._by_namespace):
            self.unwatch(peer, namespace)

    def _changed(self, topic: str, came: bool) -> None:
        domain, _, rest = topic.partition("://")
        namespace = rest.rpartition("/")[0]
        if domain == PERSISTENT:
            for peer in list(self._by_namespace.get(namespace, ())):
                peer.tell(TopicChanged(namespace, topic, came))
