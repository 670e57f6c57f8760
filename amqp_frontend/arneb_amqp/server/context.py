"""Contexts: what all connections of a server share, and what all parts of one connection share.

The rule: made once, by whoever serves; parts find in it whatever is not theirs alone.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import trio

from arneb_amqp.config import AmqpConfig
from arneb_amqp.errors import AmqpError
from arneb_amqp.server.flusher import Flusher
from arneb_amqp.server.timers import Timers
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import Disconnect, Token
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.topology import Topology, Vhost
from arneb_core.api.core import Core
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.long_turns import LongTurns
from arneb_core.api.resource_alarms import ResourceAlarms


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What all connections of a server share."""

    core: Core
    topology: Topology
    config: AmqpConfig
    flusher: Flusher
    timers: Timers
    nursery: trio.Nursery
    resource_alarms: ResourceAlarms
    long_turns: LongTurns


class CoreEvents(Protocol):
    """A connection, as it is told of what happens in the core: in the event loop, in other tasks'
    turns. It raises nothing."""

    def committed(self, token: Token, failure: AmqpError | None, *, refused: bool = False) -> None:
        """An append is on disk, or never will be, or a full queue refused it. May be called
        before ``append`` returns."""
        ...

    def delivered(self, consumer: ConsumerId, run: Deliveries) -> None:
        """A consumer was assigned a run."""
        ...

    def answer_follows(self) -> None:
        """A transaction is on disk, and :meth:`deliveries_made` will be called."""
        ...

    async def deliveries_made(self) -> None:
        """Wait for the deliveries that a commit brings about."""
        ...

    def consumer_closed(self, consumer: ConsumerId, reason: str) -> None:
        """The core has detached a consumer."""
        ...


class Nobody:
    """In the place of a connection that is over, for whoever is still to tell it something: a
    commit that is under way, a consumer of a store that failed."""

    def committed(self, token: Token, failure: AmqpError | None, *, refused: bool = False) -> None:
        """Nobody waits for it."""

    def delivered(self, consumer: ConsumerId, run: Deliveries) -> None:
        """What is in flight there has gone back."""

    def answer_follows(self) -> None:
        """Nothing is written."""

    async def deliveries_made(self) -> None:
        """Nobody waits for them."""

    def consumer_closed(self, consumer: ConsumerId, reason: str) -> None:
        """It has gone before."""

    def disconnect(self, order: Disconnect) -> None:
        """The socket is closed."""

    def flush(self) -> None:
        """The socket is closed."""

    async def room(self) -> None:
        """Nothing is written."""

    def break_down(self, error: Exception) -> None:
        """It is over already."""


NOBODY: Final = Nobody()


class ConnectionContext:
    """What all parts of one connection share."""

    def __init__(
        self, core: Core, topology: Topology, owner: ConnectionId, events: CoreEvents
    ) -> None:
        self.core = core
        self.topology = topology
        self.owner = owner
        self.events: CoreEvents = events
        """Nobody when the connection is over."""
        self._vhost: Vhost | None = None

    def __repr__(self) -> str:
        return f"<ConnectionContext {self.owner}>"

    def open_vhost(self, name: str) -> Vhost | None:
        """The vhost in which the connection lives from now on."""
        self._vhost = self.topology.vhost(name)
        return self._vhost

    @property
    def vhost(self) -> Vhost:
        """The connection's vhost; nothing but the handshake happens before there is one."""
        assert self._vhost is not None, "effects come after connection.open"
        return self._vhost
