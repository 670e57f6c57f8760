"""Listeners: from accepted sockets to one :class:`Connection` each."""

import logging
from collections.abc import Awaitable, Callable, Sequence

import trio

from arneb_core.api.ends import Ends, ends_of, place_of
from arneb_core.api.listening import serve_listeners
from arneb_core.api.proxy_protocol import ends_behind
from arneb_core.api.supervision import supervise
from arneb_pulsar.authentication.grants import Certificate
from arneb_pulsar.server.connection import Connection
from arneb_pulsar.server.requests import Endpoint
from arneb_pulsar.services.context import BrokerContext
from arneb_pulsar.services.policy_enforcer import PolicyEnforcer

logger = logging.getLogger(__name__)

Secure = Callable[[trio.SocketStream], Awaitable[trio.SSLStream[trio.SocketStream]]]
"""Shakes hands on a connection that was accepted. Raises :class:`trio.BrokenResourceError`."""

Listeners = Sequence[trio.abc.Listener[trio.SocketStream]]


class PulsarServer:
    """The Pulsar frontend of one broker: its listeners share a context, and what runs beside them
    runs once."""

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self._enforcer = PolicyEnforcer(context)
        self._has_background = False

    def __repr__(self) -> str:
        return f"<PulsarServer {self.context.urls!r} {self._enforcer!r}>"

    async def serve(
        self, listeners: Listeners, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Serve clients on ``listeners`` until cancelled.

        Returns only by cancellation; every connection then sends what it still has to say, for a
        second at most, and is closed.
        """
        urls = self.context.urls
        if not urls.plain and isinstance(listeners[0], trio.SocketListener):
            urls.plain = f"pulsar://{place_of(listeners[0].socket.getsockname())}"

        async def handle(stream: trio.SocketStream, url: str, address: str) -> None:
            await serve_connection(self.context, stream, f"pulsar://{url}", address)

        await self._serve(handle, listeners, task_status)

    async def serve_tls(
        self,
        listeners: Listeners,
        secure: Secure,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """The same for clients that come by TLS, with whom ``secure`` shakes hands."""
        urls = self.context.urls
        if not urls.tls and isinstance(listeners[0], trio.SocketListener):
            urls.tls = f"pulsar+ssl://{place_of(listeners[0].socket.getsockname())}"

        async def handle(stream: trio.SocketStream, url: str, address: str) -> None:
            try:
                with trio.fail_after(self.context.config.handshake_timeout_s):
                    secured = await secure(stream)
            except (trio.BrokenResourceError, trio.TooSlowError) as error:
                logger.info("x %s: TLS handshake failed: %s", address, error.__cause__ or error)
                await trio.aclose_forcefully(stream)
                return
            certificate: Certificate = secured.getpeercert() or {}
            service_url = f"pulsar+ssl://{url}"
            await serve_connection(self.context, secured, service_url, address, certificate)

        await self._serve(handle, listeners, task_status)

    async def _serve(
        self,
        handle: Callable[[trio.SocketStream, str, str], Awaitable[None]],
        listeners: Listeners,
        task_status: trio.TaskStatus[None],
    ) -> None:
        """Have ``handle`` serve every client, of whom it is told where it came and where from."""
        config = self.context.config

        async def accepted(stream: trio.SocketStream) -> None:
            try:
                ends: Ends | None = ends_of(stream.socket)
            except OSError:
                ends = None  # it is gone again
            if ends is not None and config.proxy_protocol:
                ends = await ends_behind(ends, stream.socket, config.handshake_timeout_s)
            if ends is None:
                await trio.aclose_forcefully(stream)
                return
            await handle(stream, str(ends.destination), str(ends.source))

        async with trio.open_nursery() as connections:
            if not self._has_background:
                self._has_background = True
                turns = self.context.long_turns.run
                connections.start_soon(self._enforcer.run)
                connections.start_soon(supervise, "scheduling Pulsar's long requests", turns)
                transactions = self.context.transactions.run
                connections.start_soon(supervise, "the time-outs of transactions", transactions)
                rights = self.context.rights.run
                connections.start_soon(supervise, "looking at rights that changed", rights)
            await serve_listeners(
                accepted, listeners, handler_nursery=connections, task_status=task_status
            )


async def serve_connection(
    context: BrokerContext,
    stream: trio.abc.Stream,
    service_url: str,
    address: str,
    certificate: Certificate | None = None,
) -> None:
    """Serve one client; nothing that goes wrong with it reaches the caller.

    ``service_url`` is where the client reached us, ``address`` where it comes from, and
    ``certificate`` what it showed.
    """
    config = context.config
    secured = service_url.startswith("pulsar+ssl:")
    advertised = config.advertised_tls_url if secured else config.advertised_url
    endpoint = Endpoint(advertised or service_url, address, certificate or {})
    connection = Connection(context, stream, endpoint)
    context.connections.opened_total += 1
    try:
        await connection.run()
    except* Exception:
        # A defect of ours. It costs this client its connection, and nobody else anything.
        logger.exception("unexpected error in the connection of %s", address)
    finally:
        context.connections.closed_total += 1
