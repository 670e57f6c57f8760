"""Watchers: the connections that are notified of topics created in a namespace and deleted."""

from arneb_core.api.core import Core
from arneb_pulsar.names import PERSISTENT, is_system_name
from arneb_pulsar.services.clients.connections import ClientConnection
from arneb_pulsar.session.interface.events import TopicChanged


class Watchers:
    """The watching connections, by namespace."""

    def __init__(self, core: Core) -> None:
        self._by_namespace: dict[str, dict[ClientConnection, None]] = {}
        self._behind: dict[ClientConnection, dict[str, bool]] = {}
        """Topics that came or went, of which full connections were not told."""
        core.watch_topics(self._changed)

    def __repr__(self) -> str:
        watching = sum(map(len, self._by_namespace.values()))
        return f"<Watchers: {watching}, {len(self._behind)} of them behind>"

    def watch(self, connection: ClientConnection, namespace: str) -> None:
        """Tell the connection from now on which topics come and go."""
        self._by_namespace.setdefault(namespace, {})[connection] = None

    def unwatch(self, connection: ClientConnection, namespace: str) -> None:
        """Stop telling the connection of that namespace."""
        watching = self._by_namespace.get(namespace, {})
        watching.pop(connection, None)
        if not watching:
            self._by_namespace.pop(namespace, None)

    def all(self) -> list[tuple[ClientConnection, str]]:
        """Return every watching connection, with the namespace."""
        return [(each, name) for name, found in self._by_namespace.items() for each in found]

    def leave(self, connection: ClientConnection) -> None:
        """Forget a connection that ends."""
        self._behind.pop(connection, None)
        for namespace in list(self._by_namespace):
            self.unwatch(connection, namespace)

    def _changed(self, topic: str, came: bool) -> None:
        domain, _, rest = topic.partition("://")
        namespace = rest.rpartition("/")[0]
        if domain == PERSISTENT and not is_system_name(topic):
            for connection in list(self._by_namespace.get(namespace, ())):
                if connection in self._behind or connection.is_full:
                    self._hold_back(connection, topic, came=came)
                else:
                    connection.tell(TopicChanged(namespace, topic, came))

    def _hold_back(self, connection: ClientConnection, topic: str, *, came: bool) -> None:
        """Hold back a change. A topic that came and went again need not be told, so there is never
        more to tell than there are topics, or were when the connection was last told."""
        pending = self._behind.setdefault(connection, {})
        if pending.get(topic, came) is came:
            pending[topic] = came
        else:
            del pending[topic]

    def catch_up(self, connection: ClientConnection) -> None:
        """Tell the connection, which may no longer be full, what it was not told."""
        pending = self._behind.get(connection)
        if pending is None:
            return
        while pending and not connection.is_full:
            topic = next(iter(pending))
            came = pending.pop(topic)
            namespace = topic.partition("://")[2].rpartition("/")[0]
            connection.tell(TopicChanged(namespace, topic, came))
        if not pending:
            self._behind.pop(connection, None)
