"""Contexts: what all connections of a server share, and what all parts of one connection share.

The rule: made once, by whoever serves; parts find in it whatever is not theirs alone.
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
from arneb_amqp.topology.onlookers import Tapped
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.topology import Topology, Vhost, new_name
from arneb_core.access.principals import Principal
from arneb_core.api.core import Core
from arneb_core.api.deliveries import Deliveries
from arneb_core.api.long_turns import LongTurns
from arneb_core.api.resource_alarms import ResourceAlarms


@dataclass(frozen=True, slots=True)
class ServerContext:
    """What all connections of a server share."""

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
        """What a connection has that comes now."""
        return self.settings.now


class CoreEvents(Protocol):
    """A connection, as it is told of what happens in the core: in the event loop, in other tasks'
    turns. It raises nothing."""

    def committed(
        self, token: Token, failure: AmqpError | None, *, refused: Refused = False
    ) -> None:
        """An append is on disk, or never will be, or a full queue refused it. May be called
        before ``append`` returns."""
        ...

    def delivered(self, consumer: ConsumerId, run: Deliveries) -> None:
        """A consumer was assigned a run."""
        ...

    def answer_follows(self) -> None:
        """A transaction is on disk, and :meth:`deliveries_made` will be called."""
        ...

    async def deliveries_made(self, *, to_anybody: bool = False) -> None:
        """Wait for the deliveries that are ready, if any may be for this connection, or
        ``to_anybody``."""
        ...

    def consumer_closed(self, consumer: ConsumerId, reason: str) -> None:
        """The core has detached a consumer."""
        ...


class Nobody:
    """In the place of a connection that is over, for whoever is still to tell it something: a
    commit that is under way, a consumer of a store that failed."""

    def committed(
        self, token: Token, failure: AmqpError | None, *, refused: Refused = False
    ) -> None:
        """Nobody waits for it."""

    def delivered(self, consumer: ConsumerId, run: Deliveries) -> None:
        """What is in flight there has gone back."""

    def answer_follows(self) -> None:
        """Nothing is written."""

    async def deliveries_made(self, *, to_anybody: bool = False) -> None:
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
        self,
        core: Core,
        topology: Topology,
        entrance: Entrance,
        owner: ConnectionId,
        peer: Remote,
        events: CoreEvents,
    ) -> None:
        self.core = core
        self.topology = topology
        self._entrance = entrance
        self.owner = owner
        self._peer = peer
        self.events: CoreEvents = events
        """Nobody when the connection is over."""
        self.told: Final = ConnectionEvents(topology.events, entrance.occupancy, owner, peer)
        """What is told of the connection."""
        self._vhost: Vhost | None = None
        self._rights: Rights | None = None

    def __repr__(self) -> str:
        return f"<ConnectionContext {self.owner}>"

    def broker(self, config: AmqpConfig) -> BrokerContext:
        """The broker as the connection's session sees it."""
        mechanisms = mechanisms_for(self._peer, config.external_login)
        return BrokerContext(config, new_name, self.told, mechanisms)

    async def log_in(self, login: LogIn) -> Principal:
        """Who the client is. Raises 403."""
        return await self._entrance.log_in(login, self._peer, self.told)

    async def vouch(self, order: Vouch) -> Principal:
        """Who a client is whom another node has let in. Raises 403."""
        return await self._entrance.vouch(order, self._peer, self.told)

    async def renew(self, order: Renew) -> None:
        """Take another secret. Raises 530."""
        await self._entrance.renew(order)

    async def enter(self, order: Enter) -> Entered:
        """Let the client into a vhost, in which it lives from now on. Raises 530."""
        self._vhost, entered = await self._entrance.enter(order, self.owner, self._peer)
        self._rights = entered.rights
        return entered

    async def authorize(self, order: Authorize) -> None:
        """Find out what the user may do, where that is not known at once."""
        rights = self.rights
        await rights.principal.verdicts.ask(rights.vhost, order.question)

    def left(self) -> None:
        """The connection is over."""
        self._entrance.occupancy.leave(self.owner)

    @property
    def user(self) -> str:
        """Who came."""
        return self.rights.principal.name

    @property
    def tapped(self) -> Tapped:
        """As whom whoever looks on sees it."""
        return Tapped(self._peer.name, self.user)

    @property
    def rights(self) -> Rights:
        """What its user may do there."""
        assert self._rights is not None, "effects come after connection.open"
        return self._rights

    @property
    def vhost(self) -> Vhost:
        """The connection's vhost; nothing but the handshake happens before there is one."""
        assert self._vhost is not None, "effects come after connection.open"
        return self._vhost
