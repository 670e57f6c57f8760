"""Contexts: what the connections of a server share, and what the parts of a connection share.

The rule: the server makes them once; parts find in them everything that they share.
"""

from dataclasses import dataclass
from typing import Final, Protocol

import trio

from arneb_amqp.config import Adjustable, AmqpConfig
from arneb_amqp.errors import AmqpError
from arneb_amqp.server.admission.entrance import Entrance
from arneb_amqp.server.admission.logins import mechanisms_for
from arneb_amqp.server.connection_events import ConnectionEvents
from arneb_amqp.server.transport.flusher import Flusher
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.server.transport.timers import Timers
from arneb_amqp.session.compressed_runs import Messages, Piece
from arneb_amqp.session.context import BrokerContext, Entered
from arneb_amqp.session.deliveries import ConsumerId
from arneb_amqp.session.effects import (
    Authorize,
    Disconnect,
    Enter,
    LogIn,
    Refused,
    Renew,
    Token,
    Vouch,
)
from arneb_amqp.session.rights import Rights
from arneb_amqp.topology.message_observers import Tapped
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.topology import Topology, Vhost, new_name
from arneb_core.access.principals import Principal
from arneb_core.api.core import Core
from arneb_core.api.process.long_turns import LongTurns
from arneb_core.api.process.resource_alarms import ResourceAlarms
from arneb_core.api.subscriptions.deliveries import Deliveries


@dataclass(frozen=True, slots=True)
class ServerContext:
    """State shared by all connections of a server."""

    core: Core
    topology: Topology
    settings: Adjustable
    flusher: Flusher
    timers: Timers
    nursery: trio.Nursery
    resource_alarms: ResourceAlarms
    long_turns: LongTurns
    entrance: Entrance

    @property
    def config(self) -> AmqpConfig:
        """The settings for a new connection."""
        return self.settings.now


class CoreEvents(Protocol):
    """A connection as the core sees it: called in the event loop, in other tasks' turns, so it
    never raises."""

    def committed(
        self, token: Token, failure: AmqpError | None, *, refused: Refused = False
    ) -> None:
        """Handle an append that is on disk, or never will be, or was refused by a full queue. May
        be called before ``append`` returns."""
        ...

    def delivered(self, consumer: ConsumerId, run: Deliveries) -> None:
        """Send a run that a consumer was assigned."""
        ...

    def answer_follows(self) -> None:
        """Note that a transaction is on disk and :meth:`deliveries_made` will be called."""
        ...

    async def deliveries_made(self, *, to_anybody: bool = False) -> None:
        """Wait for the deliveries that are ready, if any may be for this connection, or
        ``to_anybody``."""
        ...

    def consumer_closed(self, consumer: ConsumerId, reason: str) -> None:
        """Handle a consumer that the core has detached."""
        ...


class Nobody:
    """Replaces a connection that is over, for late calls: a pending commit, a consumer of a store
    that failed."""

    def committed(
        self, token: Token, failure: AmqpError | None, *, refused: Refused = False
    ) -> None:
        """Do nothing: nobody waits for it."""

    def delivered(self, consumer: ConsumerId, run: Deliveries) -> None:
        """Do nothing: the run has been requeued."""

    def answer_follows(self) -> None:
        """Do nothing: nothing is written."""

    async def deliveries_made(self, *, to_anybody: bool = False) -> None:
        """Do nothing: nobody waits for them."""

    def consumer_closed(self, consumer: ConsumerId, reason: str) -> None:
        """Do nothing: it is detached already."""

    def disconnect(self, order: Disconnect) -> None:
        """Do nothing: the socket is closed."""

    def flush(self) -> None:
        """Do nothing: the socket is closed."""

    async def room(self) -> None:
        """Do nothing: nothing is written."""

    def decompressed(self, piece: Piece, messages: Messages) -> None:
        """Do nothing: the run has been requeued."""

    async def all_decompressed(self) -> None:
        """Do nothing: nothing is sent."""

    def break_down(self, error: Exception) -> None:
        """Do nothing: the connection has ended."""


NOBODY: Final = Nobody()


class ConnectionContext:
    """State shared by all parts of one connection."""

    def __init__(
        self,
        core: Core,
        topology: Topology,
        entrance: Entrance,
        owner: ConnectionId,
        peer: Remote,
        core_events: CoreEvents,
    ) -> None:
        self.core = core
        self.topology = topology
        self._entrance = entrance
        self.owner = owner
        self._peer = peer
        self.core_events: CoreEvents = core_events
        """:data:`NOBODY` once the connection has ended."""
        self.connection_events: Final = ConnectionEvents(
            topology.broker_events, entrance.occupancy, owner, peer
        )
        """Reports events about the connection."""
        self._vhost: Vhost | None = None
        self._rights: Rights | None = None

    def __repr__(self) -> str:
        return f"<ConnectionContext {self.owner}>"

    def broker(self, config: AmqpConfig) -> BrokerContext:
        """Return the broker as the connection's session sees it."""
        mechanisms = mechanisms_for(self._peer, config.external_login)
        return BrokerContext(config, new_name, self.connection_events, mechanisms)

    async def log_in(self, login: LogIn) -> Principal:
        """Authenticate the client. Raises 403."""
        return await self._entrance.log_in(login, self._peer, self.connection_events)

    async def vouch(self, order: Vouch) -> Principal:
        """Look up a client that another node has authenticated. Raises 403."""
        return await self._entrance.vouch(order, self._peer, self.connection_events)

    async def renew(self, order: Renew) -> None:
        """Take a new secret. Raises 530."""
        await self._entrance.renew(order)

    async def enter(self, order: Enter) -> Entered:
        """Let the client into a vhost, which is the connection's from now on. Raises 530."""
        self._vhost, entered = await self._entrance.enter(order, self.owner, self._peer)
        self._rights = entered.rights
        return entered

    async def authorize(self, order: Authorize) -> None:
        """Fetch a verdict that is not known at once."""
        rights = self.rights
        await rights.principal.verdicts.ask(rights.vhost, order.question)

    def left(self) -> None:
        """Uncount the connection: it has ended."""
        self._entrance.occupancy.leave(self.owner)

    @property
    def user(self) -> str:
        """The user's name."""
        return self.rights.principal.name

    @property
    def tapped(self) -> Tapped:
        """The connection as tracing shows it."""
        return Tapped(self._peer.name, self.user)

    @property
    def rights(self) -> Rights:
        """The rights of its user in the vhost."""
        assert self._rights is not None, "effects come after connection.open"
        return self._rights

    @property
    def vhost(self) -> Vhost:
        """The connection's vhost; before there is one, only the handshake happens."""
        assert self._vhost is not None, "effects come after connection.open"
        return self._vhost
