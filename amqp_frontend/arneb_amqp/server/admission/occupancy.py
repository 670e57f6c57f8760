"""Occupancy: the connections in each vhost, the channels, and their limits.

The rule: counts are updated at each beginning and end, so that checking a limit is a lookup; a
negative limit means no limit, and 0 admits nobody. The limits of a vhost or a user are the current
ones in the access catalogue.
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
class Occupant:
    """A connection, as it is counted: its user and its vhost."""

    user: str
    vhost: str


class Occupancy:
    """The occupancy of one broker.

    Invariant: the counts match ``occupants`` and the open channels.
    """

    def __init__(
        self, tables: Tables, config: AmqpConfig, node: "list[Occupancy] | None" = None
    ) -> None:
        """``node``: the occupancies of all brokers of this node, if there can be several; a node's
        limits apply to their sum."""
        self._node = [] if node is None else node
        self._node.append(self)
        self._tables = tables
        self._config = config
        self.occupants: dict[ConnectionId, Occupant] = {}
        self._users: Counter[str] = Counter()
        self._vhosts: Counter[str] = Counter()
        self._channels: Counter[str] = Counter()
        self.channels_opened = self.channels_closed = 0
        """Totals since the broker started."""

    def __repr__(self) -> str:
        return f"<Occupancy of {len(self.occupants)} connections, {self.channels} channels>"

    def check_node(self) -> None:
        """Raises 530 when the node takes no more connections."""
        most = self._config.connections_max
        if 0 <= most <= sum(len(each.occupants) for each in self._node):
            raise refused(f"connection refused: node connection limit ({most}) is reached")

    def check(self, occupant: Occupant) -> None:
        """Raises 530 when the vhost, or the user, may have no more connections."""
        user, vhost = occupant.user, occupant.vhost
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

    def enter(self, id_: ConnectionId, occupant: Occupant) -> None:
        """Count a connection."""
        self.occupants[id_] = occupant
        self._users[occupant.user] += 1
        self._vhosts[occupant.vhost] += 1

    def leave(self, id_: ConnectionId) -> None:
        """Uncount a connection, if it was counted."""
        occupant = self.occupants.pop(id_, None)
        if occupant is not None:
            _less(self._users, occupant.user)
            _less(self._vhosts, occupant.vhost)

    def end(self) -> None:
        """Leave the node: its broker has ended."""
        self._node.remove(self)

    # Channels

    @property
    def channels(self) -> int:
        """The number of open channels."""
        return self._channels.total()

    def opening(self, user: str) -> None:
        """Count a channel that is about to be opened. Raises 530 at the limit."""
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
        """Uncount closed channels."""
        self.channels_closed += count
        _less(self._channels, user, count)

    def _limit(self, kind: type[User] | type[Vhost], name: str, limit: str) -> int:
        record: User | Vhost | None = self._tables.get(kind, name)
        return -1 if record is None else record.limits.get(limit, -1)


def refused(text: str) -> AmqpError:
    """Return the 530 for a connection that is not admitted."""
    return not_allowed(text, CONNECTION_OPEN)


def _less(counts: Counter[str], name: str, count: int = 1) -> None:
    counts[name] -= count
    if counts[name] <= 0:
        del counts[name]
