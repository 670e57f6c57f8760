"""Serving: listeners in, connections out, and a polite end."""

import logging
import socket
from collections.abc import Sequence
from functools import partial
from ipaddress import ip_address
from itertools import count
from typing import Any, Final, NoReturn

import trio

from arneb_amqp.config import AmqpConfig
from arneb_amqp.server.connection import Connection
from arneb_amqp.server.context import ServerContext
from arneb_amqp.server.flusher import Flusher
from arneb_amqp.server.timers import Timers
from arneb_amqp.server.tls import Unsecured, serve_secured
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_amqp.topology.topology import Topology
from arneb_core.api.core import Core
from arneb_core.api.listening import serve_listeners
from arneb_core.api.long_turns import LongTurns
from arneb_core.api.resource_alarms import ResourceAlarms
from arneb_core.api.supervision import shielded_nursery, supervise

LOGGER: Final = logging.getLogger(__name__)

GOODBYE_S: Final = 1.0
"""How long a stop waits for clients to answer ``connection.close``."""


class Server:
    """The connections of one broker."""

    def __init__(self, context: ServerContext) -> None:
        self._context = context
        self._ids = count(1)
        self._connections: set[Connection] = set()
        self._gone = trio.Event()

    def __repr__(self) -> str:
        return f"<Server {len(self._connections)} connections>"

    async def serve(self, sock: socket.socket, *, loopback: bool) -> None:
        """Serve one client; never raises because of anything that the client does."""
        id_ = ConnectionId(next(self._ids))
        connection = Connection(self._context, id_, sock, loopback=loopback)
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            if not self._connections:
                self._gone.set()

    async def say_goodbye(self) -> None:
        """Tell every client that the broker stops, and wait a little for their answers."""
        with trio.move_on_after(GOODBYE_S):
            while self._connections:
                self._gone = trio.Event()
                for connection in list(self._connections):
                    connection.shut_down()
                await self._gone.wait()


async def serve_amqp(
    core: Core,
    listeners: Sequence[trio.abc.Listener[Any]],
    *,
    config: AmqpConfig | None = None,
    topology: Topology | None = None,
    resource_alarms: ResourceAlarms | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Serve AMQP 0-9-1 on ``listeners``, of sockets or of TLS (:class:`.SecuredListener`), until
    cancelled.

    ``topology`` is given by who has use for it too. While something is short in
    ``resource_alarms``, connections that publish are not read any more.
    ``task_status`` is told when connections are accepted. Cancelled, it accepts no more, closes
    every connection with 320 and returns within about :data:`GOODBYE_S`. The listeners stay
    the caller's to close.
    """
    settings = config or AmqpConfig()
    topology = topology or await Topology.open(core, settings.vhosts)
    flusher, timers, long_turns = Flusher(), Timers(), LongTurns()
    async with trio.open_nursery() as outer:
        nursery: trio.Nursery = await outer.start(shielded_nursery)
        nursery.start_soon(supervise, "the AMQP flusher", flusher.run)
        nursery.start_soon(supervise, "scheduling AMQP's long requests", long_turns.run)
        nursery.start_soon(supervise, "AMQP timers", timers.run)
        nursery.start_soon(supervise, "AMQP queue maintenance", topology.maintain)
        short = resource_alarms or ResourceAlarms()
        server = Server(
            ServerContext(core, topology, settings, flusher, timers, nursery, short, long_turns)
        )
        try:
            await serve_listeners(
                partial(_accepted, server, settings.handshake_s),
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
    server: Server, handshake_s: float, stream: trio.SocketStream | Unsecured
) -> None:
    """Take the socket out of trio's hands; see :mod:`arneb_amqp.server.link` for the reason."""
    if isinstance(stream, Unsecured):
        loopback = _is_loopback(stream.transport.socket)
        await serve_secured(stream, handshake_s, partial(server.serve, loopback=loopback))
        return
    loopback = _is_loopback(stream.socket)
    sock = socket.socket(fileno=stream.socket.detach())
    await server.serve(sock, loopback=loopback)


def _is_loopback(sock: trio.socket.SocketType) -> bool:
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return True
    try:
        return ip_address(sock.getpeername()[0].partition("%")[0]).is_loopback
    except OSError:
        return False
