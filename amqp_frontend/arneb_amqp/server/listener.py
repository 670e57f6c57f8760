"""The listener: accepts connections, and closes them in an orderly way when the server stops."""

import socket
from collections.abc import Sequence
from functools import partial
from itertools import count
from typing import Any, Final, NoReturn

import trio

from arneb_amqp.config import Adjustable, AmqpConfig
from arneb_amqp.server.admission.entrance import Entrance
from arneb_amqp.server.admission.occupancy import Occupancy
from arneb_amqp.server.admitted import AdmittedConnection, Admitting
from arneb_amqp.server.connection import Connection
from arneb_amqp.server.context import ServerContext
from arneb_amqp.server.roster import Roster
from arneb_amqp.server.transport.accepting import serve_accepted
from arneb_amqp.server.transport.flusher import Flusher
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.server.transport.timers import Timers
from arneb_amqp.session.connection.admission import Admission
from arneb_amqp.session.events import AccessChanged, Shutdown
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.seeding import open_catalogue
from arneb_amqp.topology.topology import Topology
from arneb_core.access.authority import Authority
from arneb_core.access.internal import InternalBackend
from arneb_core.access.records import Record, User, Vhost
from arneb_core.access.tables import Changed
from arneb_core.api.connections.listening import serve_listeners
from arneb_core.api.connections.tls_records import TlsRecords
from arneb_core.api.core import Core
from arneb_core.api.process.long_turns import LongTurns
from arneb_core.api.process.resource_alarms import ResourceAlarms
from arneb_core.api.process.supervision import contain, shielded_nursery, supervise

STOP: Final = Shutdown()

GOODBYE_S: Final = 1.0
"""How long a stop waits for clients to answer ``connection.close``."""


class Server:
    """The connections of one broker."""

    def __init__(
        self, context: ServerContext, roster: Roster, goodbye_s: float = GOODBYE_S
    ) -> None:
        self._context = context
        self._goodbye_s = goodbye_s
        self._ids = count(1)
        self._roster = roster
        self._gone = trio.Event()

    def __repr__(self) -> str:
        return f"<Server {len(self._roster)} connections>"

    async def serve(
        self, peer: Remote, sock: socket.socket, records: TlsRecords | None = None
    ) -> None:
        """Serve one client, by TLS if there are ``records``; never raises because of a client."""
        id_ = ConnectionId(next(self._ids))
        await self._run(id_, Connection(self._context, id_, peer, sock, records), peer)

    async def admit(
        self,
        admission: Admission,
        peer: Remote,
        sock: socket.socket,
        records: TlsRecords | None,
        unread: bytes,
    ) -> None:
        """Serve a client admitted elsewhere, in a task of the server's own: the caller may be
        cancelled, and then the server still says goodbye."""
        id_, context = ConnectionId(next(self._ids)), self._context
        connection = AdmittedConnection(context, id_, peer, sock, records, admission, unread)
        gone = trio.Event()

        async def serve() -> None:
            try:
                await self._run(id_, connection, peer)
            finally:
                gone.set()

        context.nursery.start_soon(contain, "serving an admitted client", serve)
        await gone.wait()

    async def _run(self, id_: ConnectionId, connection: Connection, peer: Remote) -> None:
        self._roster.enter(id_, connection, peer)
        try:
            await connection.run()
        finally:
            self._roster.leave(id_)
            connection.connection_events.closed(connection.session)
            if not len(self._roster):
                self._gone.set()

    def access_changed(self, changed: Sequence[Changed]) -> None:
        """End the connections of deleted users and vhosts; make the others check their rights again
        from this moment on."""
        gone: dict[tuple[type[Record], str], Shutdown] = {}
        for before, after in changed:
            if isinstance(before, User) and after is None:
                gone[User, before.name] = Shutdown(f"user '{before.name}' is deleted")
            elif isinstance(after, Vhost) and after.leaving:
                gone[Vhost, after.name] = Shutdown(f"vhost '{after.name}' is deleted")
        for id_, occupant in list(self._context.entrance.occupancy.occupants.items()):
            connection = self._roster.get(id_)
            if connection is None:
                continue
            order = gone.get((User, occupant.user)) or gone.get((Vhost, occupant.vhost))
            connection.tell(order or AccessChanged())

    async def say_goodbye(self) -> None:
        """Tell every client that the broker stops, and wait a little for their answers."""
        with trio.move_on_after(self._goodbye_s):
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
    admitting: Admitting | None = None,
    goodbye_s: float = GOODBYE_S,
    node: list[Occupancy] | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Serve AMQP 0-9-1 on ``listeners``, of sockets or of TLS (:class:`.SecuredListener`), until
    cancelled.

    ``adjustable`` has the settings that may change while it serves. ``topology`` is given by
    callers that share it, and ``authority`` authenticates; without them they come from the settings
    and the store. While ``resource_alarms`` has a short resource, publishing connections are not
    read. ``roster`` lists the connections for statistics, and ``admitting`` is the entry point for
    clients whose handshake was elsewhere. ``node`` has the occupancy of every broker of this node,
    if there can be several.
    """
    settings = config or AmqpConfig()
    changing = adjustable or Adjustable(settings)
    if topology is None:
        topology = await Topology.open(core, await open_catalogue(core, settings), settings)
    if authority is None:
        tables = topology.catalogue.tables
        authority = Authority([InternalBackend(tables)], changing.is_loopback_only)
    occupancy = Occupancy(topology.catalogue.tables, settings, node)
    roster = Roster() if roster is None else roster
    roster.occupancy = occupancy
    entrance = Entrance(authority, topology, settings, occupancy)
    short = resource_alarms or ResourceAlarms()
    async with trio.open_nursery() as outer:
        nursery: trio.Nursery = await outer.start(shielded_nursery)
        context = ServerContext(
            core, topology, changing, Flusher(), Timers(), nursery, short, LongTurns(), entrance
        )
        _start_tasks(context)
        server = Server(context, roster, goodbye_s)
        topology.catalogue.watch(server.access_changed)
        short.listen(topology.broker_events.alarms_changed)
        if admitting is not None:
            admitting.open(server.admit)
        try:
            await serve_listeners(
                partial(serve_accepted, server.serve, settings),
                listeners,
                handler_nursery=nursery,
                task_status=task_status,
            )
        finally:
            if admitting is not None:
                admitting.close()
            with trio.CancelScope(shield=True):
                await server.say_goodbye()
                occupancy.end()
                nursery.cancel_scope.cancel()
    raise AssertionError("serve_listeners never returns")


def _start_tasks(context: ServerContext) -> None:
    """Start the tasks that all connections share."""
    start = context.nursery.start_soon
    start(supervise, "the AMQP flusher", context.flusher.run)
    start(supervise, "scheduling AMQP's long requests", context.long_turns.run)
    start(supervise, "AMQP timers", context.timers.run)
    start(supervise, "AMQP queue maintenance", context.topology.maintain)
