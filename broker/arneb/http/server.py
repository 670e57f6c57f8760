"""The HTTP server: accepts connections on sockets that are bound already.

The rule: a port has so many connections at the most; when one more comes, the one that has waited
for its client for the longest time goes.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import trio
from starlette.types import ASGIApp

from arneb.http.connection import NOTHING_LARGER, Addresses, HttpConnection
from arneb.http.limits import DEFAULT_LIMITS, HttpLimits
from arneb.http.room import Room
from arneb_core.api.listening import serve_listeners

GRACEFUL_S: Final = 1.0
"""How long requests that are being answered may take when the broker stops."""


class HttpServer:
    """One port and its connections."""

    def __init__(
        self,
        app: ASGIApp,
        limits: HttpLimits = DEFAULT_LIMITS,
        larger: Mapping[str, int] = NOTHING_LARGER,
    ) -> None:
        """``larger``: how large bodies may be at some paths."""
        self._app = app
        self._larger = larger
        self._limits = limits
        self.room = Room(limits.held_bytes_max)
        self.connections: dict[HttpConnection, None] = {}
        self._stopping = False

    def __repr__(self) -> str:
        return f"<HttpServer {len(self.connections)} connections, {self.room!r}>"

    async def accepted(self, stream: trio.SocketStream) -> None:
        """Serve the client of a socket."""
        try:
            theirs, ours = stream.socket.getpeername(), stream.socket.getsockname()
        except OSError:
            await trio.aclose_forcefully(stream)  # it is gone again
        else:
            await self.handle(stream, (theirs[:2], ours[:2]))

    async def handle(
        self, stream: trio.abc.HalfCloseableStream, addresses: Addresses = (None, None)
    ) -> None:
        """Serve one client."""
        if self._stopping or not self._has_place():
            await trio.aclose_forcefully(stream)
            return
        connection = HttpConnection(
            self._app, stream, self._limits, self.room, addresses, self._larger
        )
        self.connections[connection] = None
        try:
            await connection.run()
        finally:
            self.connections.pop(connection, None)

    def stop(self) -> None:
        """Take no more requests."""
        self._stopping = True
        for connection in list(self.connections):
            connection.stop()

    def _has_place(self) -> bool:
        """Is there a place for one more, if need be that of another?"""
        if len(self.connections) < self._limits.connections_max:
            return True
        waiting = [each for each in self.connections if each.may_be_cut]
        if not waiting:
            return False
        longest = min(waiting, key=lambda each: each.since)
        del self.connections[longest]
        longest.cut()
        return True


async def serve_http(
    app: ASGIApp,
    listeners: Sequence[trio.abc.Listener[trio.SocketStream]],
    limits: HttpLimits = DEFAULT_LIMITS,
    larger: Mapping[str, int] = NOTHING_LARGER,
    *,
    task_status: trio.TaskStatus[object] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Answer requests until cancelled; started when connections are accepted. ``larger``: how large
    bodies may be at some paths."""
    server = HttpServer(app, limits, larger)
    async with trio.open_nursery() as connections:
        try:
            await serve_listeners(
                server.accepted,
                listeners,
                handler_nursery=connections,
                task_status=task_status,
            )
        finally:
            connections.cancel_scope.shield = True
            connections.cancel_scope.deadline = trio.current_time() + GRACEFUL_S
            server.stop()
