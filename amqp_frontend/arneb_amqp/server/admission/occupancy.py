"""Occupancy: which connections are in which vhost, how many channels there are, and the limits.

The rule: counted when it begins and when it ends, so a limit is looked up and not worked out; a
negative limit is none, and 0 lets nobody in. The limits of a vhost or a user are those in the
access catalogue at that instant.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from arneb_amqp.config import AmqpConfig
from arneb_amqp.errors import NO_METHOD, AmqpError, MethodIds, not_allowed
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_core.access.records import User, Vhost
from arneb_core.access.tables import Tables

CONNECTION_OPEN: Final[MethodIds] = (10, 40)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a connection is, and whose."""

    user: str
    vhost: str


class Occupancy:
    """Who is in, at one broker. Invariant: the counts are those of ``places``, and of channels."""

    def __init__(
        self, tables: Tables, config: AmqpConfig, node: "list[Occupancy] | None" = None
    ) -> None:
        """``node``: that of every broker of this node, where there can be several; limits of a node
        are of them together."""
        self._node = [] if node is None else node
        self._node.append(self)
        self._tables = tables
        self._config = config
        self.places: dict[ConnectionId, Place] = {}
        self._users: Counter[str] = Counter()
        self._vhosts: Counter[str] = Counter()
        self._channels: Counter[str] = Counter()
        self.channels_opened = self.channels_closed = 0
        """Since the broker started."""

    def __repr__(self) -> str:
        return f"<Occupancy of {len(self.places)} connections, {self.channels} channels>"

    def check_node(self) -> None:
        """Raises 530 when the node takes no more connections."""
        most = self._config.connections_max
        if 0 <= most <= sum(len(each.places) for each in self._node):
            raise refused(f"connection refused: node connection limit ({most}) is reached")

    def check_place(self, place: Place) -> None:
        """Raises 530 when the vhost, or the user, may have no more connections."""
        user, vhost = place.user, place.vhost
        most = self._limit(Vhost, vhost, "max-connections")
        if 0 <= most <= self._vhosts[vhost]:
            raise refused(
                f"access to vhost '{vhost}' refused for user '{user}': "
                f"connection limit ({most}) is reached"
            )
        most = self._limit(User, user, "max-connections")
        if 0 <= most <= self._users[user]:
            raise refused(
                f"connection refused for user '{user}': user connection limit ({most}) is reached"
            )

    def enter(self, id_: ConnectionId, place: Place) -> None:
        """One more connection is there."""
        self.places[id_] = place
        self._users[place.user] += 1
        self._vhosts[place.vhost] += 1

    def leave(self, id_: ConnectionId) -> None:
        """It has gone, if it was there."""
        place = self.places.pop(id_, None)
        if place is not None:
            _less(self._users, place.user)
            _less(self._vhosts, place.vhost)

    def end(self) -> None:
        """Its broker is no more."""
        self._node.remove(self)

    # Channels

    @property
    def channels(self) -> int:
        """So many are open."""
        return self._channels.total()

    def opening(self, user: str) -> None:
        """One more channel is about to be opened. Raises 530 if there may be no more."""
        most = self._limit(User, user, "max-channels")
        if 0 <= most <= self._channels[user]:
            raise not_allowed(
                f"number of channels opened for user '{user}' has reached the maximum allowed "
                f"user limit of ({most})",
                NO_METHOD,
            )
        most = self._config.node_channels_max
        if 0 <= most <= sum(each.channels for each in self._node):
            raise not_allowed(
                f"number of channels opened on node '{self._config.cluster_name}' has reached the "
                f"maximum allowed limit of ({most})",
                NO_METHOD,
            )
        self._channels[user] += 1
        self.channels_opened += 1

    def closed(self, user: str, count: int = 1) -> None:
        """So many channels are not open any more."""
        self.channels_closed += count
        _less(self._channels, user, count)

    def _limit(self, kind: type[User] | type[Vhost], name: str, limit: str) -> int:
        record: User | Vhost | None = self._tables.get(kind, name)
        return -1 if record is None else record.limits.get(limit, -1)


def refused(text: str) -> AmqpError:
    """530 for a connection that is not let in."""
    return not_allowed(text, CONNECTION_OPEN)


def _less(counts: Counter[str], name: str, count: int = 1) -> None:
    counts[name] -= count
    if counts[name] <= 0:
        del counts[name]
