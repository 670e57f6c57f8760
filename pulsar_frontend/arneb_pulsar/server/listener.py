"""Listeners: from accepted sockets to one :class:`Connection` each."""

import logging
from functools import partial

import trio

from arneb_core.api.connections.endpoints import endpoint_of
from arneb_core.api.connections.listening import serve_listeners
from arneb_core.api.connections.plain_stream import PlainStream
from arneb_core.api.nodes.placement import NotServed
from arneb_core.api.process.supervision import supervise
from arneb_pulsar.authentication.grants import Certificate
from arneb_pulsar.server.arrivals import Arrival, Listeners, Secure, arrive
from arneb_pulsar.server.connection import FAREWELL_S, Connection
from arneb_pulsar.server.requests import Endpoint
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.operations.policy_enforcer import PolicyEnforcer
from arneb_pulsar.wire.commands import NO_REQUEST, error
from arneb_pulsar.wire.proto import pulsar_pb2 as pb

logger = logging.getLogger(__name__)


class PulsarServer:
    """The Pulsar frontend of one broker: its listeners share a context, and background tasks run
    once."""

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self._enforcer = PolicyEnforcer(context)
        self._connections: trio.Nursery | None = None
        """The nursery of the first listeners, where the background tasks run too."""

    def __repr__(self) -> str:
        return f"<PulsarServer {self.context.urls!r} {self._enforcer!r}>"

    async def serve(
        self, listeners: Listeners, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve clients on ``listeners`` until cancelled.

        Returns only by cancellation; every connection then sends what it still has, for a second at
        most, and is closed.
        """
        urls = self.context.urls
        if listeners and not urls.plain and isinstance(listeners[0], trio.SocketListener):
            urls.plain = f"pulsar://{endpoint_of(listeners[0].socket.getsockname())}"

        await self._serve(listeners, None, task_status)

    async def serve_tls(
        self,
        listeners: Listeners,
        secure: Secure,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """As :meth:`serve`, for clients that use TLS; ``secure`` does the handshake."""
        urls = self.context.urls
        if not urls.tls and isinstance(listeners[0], trio.SocketListener):
            urls.tls = f"pulsar+ssl://{endpoint_of(listeners[0].socket.getsockname())}"

        await self._serve(listeners, secure, task_status)

    async def _serve(
        self, listeners: Listeners, secure: Secure | None, task_status: trio.TaskStatus[None]
    ) -> None:
        context = self.context

        handle = partial(serve_arrival, context)

        async def accepted(stream: trio.SocketStream) -> None:
            await arrive(stream, context.config, handle, secure)

        async with trio.open_nursery() as connections:
            if self._connections is None:
                self._connections = connections
                turns = context.long_turns.run
                connections.start_soon(self._enforcer.run)
                connections.start_soon(supervise, "scheduling Pulsar's long requests", turns)
                transactions = context.transactions.run
                connections.start_soon(supervise, "the time-outs of transactions", transactions)
                rights = context.rights.run
                connections.start_soon(supervise, "looking at rights that changed", rights)
                moves = context.ownership.run
                connections.start_soon(supervise, "following namespaces that move", moves)
            try:
                await serve_listeners(
                    accepted, listeners, handler_nursery=connections, task_status=task_status
                )
            finally:
                if self._connections is connections:
                    self._connections = None

    async def take(self, arrival: Arrival, onward_url: str = "", *, through: bool = False) -> None:
        """Serve a client that came by another way, until it goes, in a task of the server's own, so
        that it ends with the server. ``onward_url`` and ``through`` as for
        :func:`serve_connection`. Raises :class:`NotServed`."""
        if self._connections is None:
            raise NotServed("expected a broker that serves Pulsar, it is starting or stopping")
        gone = trio.Event()

        async def serve() -> None:
            try:
                await serve_arrival(self.context, arrival, onward_url, through=through)
            finally:
                gone.set()

        self._connections.start_soon(serve)
        await gone.wait()


async def serve_arrival(
    context: BrokerContext, arrival: Arrival, onward_url: str = "", *, through: bool = False
) -> None:
    """As :func:`serve_connection`, for an arrival."""
    came = arrival
    await serve_connection(
        context, came.stream, came.service_url, came.address, came.certificate, onward_url,
        through=through,
    )  # fmt: skip


async def serve_connection(
    context: BrokerContext,
    stream: trio.abc.Stream,
    service_url: str,
    address: str,
    certificate: Certificate | None = None,
    onward_url: str = "",
    *,
    through: bool = False,
) -> None:
    """Serve one client; nothing that goes wrong with it reaches the caller.

    ``service_url`` is the URL by which the client reached the broker, ``address`` where it comes
    from, and ``certificate`` what it showed. With an ``onward_url`` another node passed it on: it
    only looks topics up and asks about them, and must connect to that URL to use them; ``through``:
    by the same route as now.
    """
    config = context.config
    secured = service_url.startswith("pulsar+ssl:")
    advertised = config.advertised_tls_url if secured else config.advertised_url
    reached = onward_url or advertised or service_url
    shown = certificate or {}
    endpoint = Endpoint(reached, address, shown, is_brought=bool(onward_url), is_through=through)
    if isinstance(stream, trio.SocketStream):
        stream = PlainStream.of(stream)
    bounds = config.connections_max, config.address_connections_max
    if reason := context.connections.excess(address, *bounds):
        logger.warning("x %s turned away: %s", address, reason)
        await turn_away(stream, reason)
        return
    connection = Connection(context, stream, endpoint)
    with context.connections.opened(connection, context.clock.wall_ms()):
        try:
            await connection.run()
        except* Exception:
            # A defect of ours. It costs this client its connection, and others nothing.
            logger.exception("unexpected error in the connection of %s", address)


async def turn_away(stream: trio.abc.Stream, reason: str) -> None:
    """Tell a client why it is not served, and close its stream.

    What it sent is read, or the system would close the connection so that the client may not see
    the reason.
    """
    refusal = error(NO_REQUEST, pb.NotAllowedError, reason)
    try:
        with trio.move_on_after(FAREWELL_S):
            await stream.send_all(refusal)
            while await stream.receive_some():
                pass
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        pass  # the client is gone, as it may be
    await trio.aclose_forcefully(stream)
