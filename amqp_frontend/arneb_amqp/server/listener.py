"""Serving: listeners in, connections out, and a polite end."""

import socket
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, Final, NoReturn

import trio

from arneb_amqp.config import Adjustable, AmqpConfig
from arneb_amqp.server.connection import Connection
from arneb_amqp.server.context import ServerContext
from arneb_amqp.server.entrance import Entrance
from arneb_amqp.server.flusher import Flusher
from arneb_amqp.server.occupancy import Occupancy
from arneb_amqp.server.remote import Remote, remote_of
from arneb_amqp.server.roster import Roster
from arneb_amqp.server.timers import Timers
from arneb_amqp.server.tls import Unsecured, serve_secured
from arneb_amqp.session.events import AccessChanged, Shutdown
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.seeding import open_catalogue
from arneb_amqp.topology.topology import Topology
from arneb_core.access.authority import Authority
from arneb_core.access.internal import InternalBackend
from arneb_core.access.records import Record, User, Vhost
from arneb_core.access.tables import Changed
from arneb_core.api.core import Core
from arneb_core.api.listening import serve_listeners
from arneb_core.api.long_turns import LongTurns
from arneb_core.api.resource_alarms import ResourceAlarms
from arneb_core.api.supervision import shielded_nursery, supervise
from arneb_core.api.tls_records import TlsRecords

STOP: Final = Shutdown()

GOODBYE_S: Final = 1.0
"""How long a stop waits for clients to answer ``connection.close``."""


class Server:
    """The connections of one broker."""

    def __init__(self, context: ServerContext, roster: Roster) -> None:
        self._context = context
        self._ids = count(1)
        self._roster = roster
        self._gone = trio.Event()

    def __repr__(self) -> str:
        return f"<Server {len(self._roster)} connections>"

    async def serve(
        self, peer: Remote, sock: socket.socket, records: TlsRecords | None = None
    ) -> None:
        """Serve one client, by TLS if there are ``records``; never raises because of anything that
        the client does."""
        id_ = ConnectionId(next(self._ids))
        connection = Connection(self._context, id_, peer, sock, records)
        self._roster.enter(id_, connection, peer)
        try:
            await connection.run()
        finally:
            self._roster.leave(id_)
            connection.told.closed(connection.session)
            if not len(self._roster):
                self._gone.set()

    def access_changed(self, changed: Sequence[Changed]) -> None:
        """End the connections of users and vhosts that are gone; have others look up again what
        they may do, from this very moment on."""
        gone: dict[tuple[type[Record], str], Shutdown] = {}
        for before, after in changed:
            if isinstance(before, User) and after is None:
                gone[User, before.name] = Shutdown(f"user '{before.name}' is deleted")
            elif isinstance(after, Vhost) and after.leaving:
                gone[Vhost, after.name] = Shutdown(f"vhost '{after.name}' is deleted")
        for id_, place in list(self._context.entrance.occupancy.places.items()):
            connection = self._roster.get(id_)
            if connection is None:
                continue
            order = gone.get((User, place.user)) or gone.get((Vhost, place.vhost))
            connection.tell(order or AccessChanged())

    async def say_goodbye(self) -> None:
        """Tell every client that the broker stops, and wait a little for their answers."""
        with trio.move_on_after(GOODBYE_S):
            while len(self._roster):
                self._gone = trio.Event()
                for connection in self._roster:
                    connection.tell(STOP)
                await self._gone.wait()


async def serve_amqp(
    core: Core,
    listeners: Sequence[trio.abc.Listener[Any]],
    *,
    config: AmqpConfig | None = None,
    adjustable: Adjustable | None = None,
    topology: Topology | None = None,
    authority: Authority | None = None,
    resource_alarms: ResourceAlarms | None = None,
    roster: Roster | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Serve AMQP 0-9-1 on ``listeners``, of sockets or of TLS (:class:`.SecuredListener`), until
    cancelled.

    ``adjustable`` is what may be changed of ``config`` while it serves. ``topology`` is given by
    callers that share it, and ``authority`` says who may come in; without them they are what the
    settings and the store say. While something is short in ``resource_alarms``, connections that
    publish are not read any more. ``roster`` is where its connections stand, for whoever wants to
    look at them.
    ``task_status`` is told when connections are accepted. Cancelled, it accepts no more, closes
    every connection with 320 and returns within about :data:`GOODBYE_S`. The listeners stay
    the caller's to close.
    """
    settings = config or AmqpConfig()
    changing = adjustable or Adjustable(settings)
    if topology is None:
        topology = await Topology.open(core, await open_catalogue(core, settings), settings)
    catalogue = topology.catalogue
    if authority is None:
        authority = Authority([InternalBackend(catalogue.tables)], changing.is_loopback_only)
    occupancy = Occupancy(catalogue.tables, settings)
    roster = Roster() if roster is None else roster
    roster.occupancy = occupancy
    entrance = Entrance(authority, topology, settings, occupancy)
    flusher, timers, long_turns = Flusher(), Timers(), LongTurns()
    async with trio.open_nursery() as outer:
        nursery: trio.Nursery = await outer.start(shielded_nursery)
        nursery.start_soon(supervise, "the AMQP flusher", flusher.run)
        nursery.start_soon(supervise, "scheduling AMQP's long requests", long_turns.run)
        nursery.start_soon(supervise, "AMQP timers", timers.run)
        nursery.start_soon(supervise, "AMQP queue maintenance", topology.maintain)
        short = resource_alarms or ResourceAlarms()
        server = Server(
            ServerContext(
                core, topology, changing, flusher, timers, nursery, short, long_turns, entrance
            ),
            roster,
        )
        catalogue.watch(server.access_changed)
        short.listen(topology.events.alarms_changed)
        try:
            await serve_listeners(
                partial(_accepted, server, settings),
                listeners,
                handler_nursery=nursery,
                task_status=task_status,
            )
        finally:
            with trio.CancelScope(shield=True):
                await server.say_goodbye()
                nursery.cancel_scope.cancel()
    raise AssertionError("serve_listeners never returns")


async def _accepted(
    server: Server, config: AmqpConfig, stream: trio.SocketStream | Unsecured
) -> None:
    """Take the socket out of trio's hands; see :mod:`arneb_amqp.server.link` for the reason."""
    transport = stream.transport.socket if isinstance(stream, Unsecured) else stream.socket
    peer = await remote_of(transport, config.handshake_s if config.proxy_protocol else None)
    if peer is None:
        await trio.aclose_forcefully(stream)
        return
    if isinstance(stream, Unsecured):

        async def serve(sock: socket.socket, records: TlsRecords) -> None:
            secured = replace(
                peer, certificate=records.certificate, cipher=records.cipher, secured=True
            )
            await server.serve(secured, sock, records)

        await serve_secured(stream, config.handshake_s, serve)
        return
    sock = socket.socket(fileno=stream.socket.detach())
    await server.serve(peer, sock)
