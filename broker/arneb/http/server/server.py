"""The HTTP server: accepts connections on sockets that are already bound.

The rule: a port has a limited number of connections; when one more arrives, the one that has waited
for its client for the longest time is closed. A TLS client counts from its first byte on, and one
that has not finished its handshake is closed first.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import trio
from starlette.types import ASGIApp

from arneb.http.server.connection import END_OF_HEAD, NOTHING_LARGER, HttpConnection
from arneb.http.server.pace import Lane, Pace
from arneb.http.server.room import Room
from arneb.http.server.senders import Addresses, Sender
from arneb.settings.http_limits import DEFAULT_LIMITS, HttpLimits
from arneb_core.api.connections.endpoints import Endpoints, endpoints_of
from arneb_core.api.connections.listening import close_at_once, serve_listeners
from arneb_core.api.connections.plain_stream import PlainStream

SecuredStream = trio.SSLStream[trio.SocketStream]
Accepted = Callable[[trio.SocketStream], Awaitable[None]]
Listeners = Sequence[trio.abc.Listener[trio.SocketStream]]

logger = logging.getLogger(__name__)

HEAD_SEEN_BYTES: Final = 4096
"""The bytes searched for the end of a waiting request's headers; small clients send fewer."""

GRACEFUL_S: Final = 1.0
"""How long requests in progress may take when the broker stops."""


@dataclass(frozen=True, slots=True)
class ByTls:
    """The listeners for TLS, and the function that does the handshake, which raises
    :class:`trio.BrokenResourceError`."""

    listeners: Sequence[trio.abc.Listener[trio.SocketStream]]
    secure: Callable[[trio.SocketStream], Awaitable[SecuredStream]]


class Secured(trio.abc.HalfCloseableStream):
    """A client's stream inside TLS."""

    def __init__(self, inside: SecuredStream) -> None:
        self._inside = inside

    def __repr__(self) -> str:
        return f"<Secured {self._inside!r}>"

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send, encrypted."""
        await self._inside.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait as the inner stream does."""
        await self._inside.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """Receive, decrypted."""
        return await self._inside.receive_some(max_bytes)

    async def send_eof(self) -> None:
        """Send the end of the stream without TLS's alert; HTTP itself marks an answer's end."""
        await self._inside.transport_stream.send_eof()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inside.aclose()


class HttpServer:
    """One port, or two of which one is for TLS, and their connections."""

    def __init__(
        self,
        app: ASGIApp,
        limits: HttpLimits = DEFAULT_LIMITS,
        larger: Mapping[str, int] = NOTHING_LARGER,
    ) -> None:
        """``larger`` has the most bytes of a body at some paths."""
        self.app = app
        """Answers the requests."""
        self._larger = larger
        self._limits = limits
        self.room = Room(limits.held_bytes_max)
        self._pace = Pace()
        self.connections: dict[HttpConnection, None] = {}
        self._waiting: dict[HttpConnection, None] = {}
        """The connections that wait for their clients, the longest waiting first, so that the first
        one to cut off is found without visiting the busy ones."""
        self._handshakes: dict[trio.CancelScope, None] = {}
        """TLS handshakes in progress."""
        self._coming = 0
        """How many accepted clients are not yet being served."""
        self._stopping = False

    def __repr__(self) -> str:
        return f"<HttpServer {len(self.connections)} connections, {self.room!r}>"

    async def accepted(self, stream: trio.SocketStream) -> None:
        """Serve the client of a socket."""
        try:
            ends = endpoints_of(stream.socket)
        except OSError:
            await trio.aclose_forcefully(stream)  # the client is gone
        else:
            plain = PlainStream.of(stream)
            try:
                if await self._comes_in(plain):
                    await self.handle(plain, Sender(_addresses(ends)))
            finally:
                plain.close()

    async def _comes_in(self, stream: PlainStream) -> bool:
        """Wait until a client may be served; one that has already sent a request does not wait for
        clients that have sent nothing."""
        if END_OF_HEAD in stream.has_come(HEAD_SEEN_BYTES):
            return True
        if self._coming >= self._limits.connections_max:
            return False
        self._coming += 1
        try:
            await self._pace.begin(Lane.COMING)
        finally:
            self._coming -= 1
        return True

    def accepted_by(self, tls: ByTls) -> Callable[[trio.SocketStream], Awaitable[None]]:
        """Return the function that serves TLS clients."""

        async def accepted(stream: trio.SocketStream) -> None:
            secured = await self._shaken(stream, tls)
            if secured is None:
                await trio.aclose_forcefully(stream)
                return
            try:
                ends = endpoints_of(stream.socket)
            except OSError:
                await trio.aclose_forcefully(stream)
            else:
                shown = secured.getpeercert() or {}
                await self.handle(Secured(secured), Sender(_addresses(ends), "https", shown))

        return accepted

    async def _shaken(self, stream: trio.SocketStream, tls: ByTls) -> SecuredStream | None:
        if self._stopping or not self._has_place():
            return None
        scope = trio.CancelScope(deadline=trio.current_time() + self._limits.head_timeout_s)
        self._handshakes[scope] = None
        try:
            with scope:
                return await tls.secure(stream)
        except trio.BrokenResourceError as error:
            logger.info("TLS handshake failed: %s", error.__cause__ or error)
        finally:
            self._handshakes.pop(scope, None)
        return None

    async def handle(self, stream: trio.abc.HalfCloseableStream, sender: Sender) -> None:
        """Serve one client, whose requests come from ``sender``."""
        if self._stopping or not self._has_place():
            await close_at_once(stream)
            return
        connection = HttpConnection(
            self.app, stream, self._limits, self.room, sender, self._larger, self._pace, self._moved
        )
        self.connections[connection] = self._waiting[connection] = None
        try:
            await connection.run()
        finally:
            self.connections.pop(connection, None)
            self._waiting.pop(connection, None)

    def stop(self) -> None:
        """Accept no more requests."""
        self._stopping = True
        for connection in list(self.connections):
            connection.stop()
        for scope in list(self._handshakes):
            scope.cancel()

    def _has_place(self) -> bool:
        """Whether there is room for one more connection, if need be after closing another."""
        if len(self.connections) + len(self._handshakes) < self._limits.connections_max:
            return True
        if self._handshakes:
            first = next(iter(self._handshakes))
            del self._handshakes[first]
            first.cancel()
            return True
        longest = next((each for each in self._waiting if each.may_be_cut), None)
        if longest is None:
            return False
        del self.connections[longest], self._waiting[longest]
        longest.cut()
        return True

    def _moved(self, connection: HttpConnection) -> None:
        self._waiting.pop(connection, None)
        # Otherwise it was closed to make room for another.
        if connection in self.connections and connection.waits:
            self._waiting[connection] = None


def _addresses(ends: Endpoints) -> Addresses:
    source, reached = ends.source, ends.destination
    return (str(source.address), source.port), (str(reached.address), reached.port)


def _ignore(_: HttpServer | None) -> None:
    """Ignore the server: all requests come through its listeners."""


async def serve_http(
    app: ASGIApp,
    listeners: Sequence[trio.abc.Listener[trio.SocketStream]],
    limits: HttpLimits = DEFAULT_LIMITS,
    larger: Mapping[str, int] = NOTHING_LARGER,
    by_tls: ByTls | None = None,
    *,
    serving: Callable[[HttpServer | None], None] = _ignore,
    task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer requests until cancelled; started when connections are accepted. ``larger`` has the
    most bytes of a body at some paths; ``by_tls`` are TLS listeners with the same limits.
    ``serving`` is called with the server, and with None when it stops."""
    server = HttpServer(app, limits, larger)
    async with trio.open_nursery() as connections:
        try:
            async with trio.open_nursery() as listening:
                accepted: list[tuple[Accepted, Listeners]] = []
                if listeners:
                    accepted.append((server.accepted, listeners))
                if by_tls is not None:
                    accepted.append((server.accepted_by(by_tls), by_tls.listeners))
                for serve, those in accepted:
                    served = partial(serve_listeners, serve, those, handler_nursery=connections)
                    await listening.start(served)
                serving(server)
                task_status.started()
                if not accepted:
                    await trio.sleep_forever()  # no listeners: requests are handed over
        finally:
            serving(None)
            connections.cancel_scope.shield = True
            connections.cancel_scope.deadline = trio.current_time() + GRACEFUL_S
            server.stop()
