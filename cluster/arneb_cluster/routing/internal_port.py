"""The internal port: other nodes pass their clients on to this one.

The rule: a peer must first prove that it is one of the cluster's nodes, within named limits of time
and size, and only a bounded number may be doing so at once. A request that is not served is refused
with a sentence; a protocol error closes the connection and is logged. A client that is served
belongs to its server from then on.
"""

import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from secrets import token_bytes
from typing import Any, Final, NoReturn, Protocol

import trio

from arneb_cluster.routing.internal_protocol import (
    NONCE_BYTES,
    Answering,
    ProtocolBroken,
    Request,
    refusal,
)
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.routing.internal_stream import InternalStream, secured
from arneb_core.api.connections.listening import serve_listeners
from arneb_core.api.connections.tls_records import TlsRecords
from arneb_core.api.nodes.placement import NotServed

logger = logging.getLogger(__name__)

STRANGERS_MAX: Final = 256
"""Connections without a proof yet. Nodes need a few round trips; when a node has failed, all
clients of the others come at once and wait briefly in the system's queue."""

PROVE_S: Final = 5.0
"""The time from the accepted socket to the request: as long as the caller waits."""

REFUSE_S: Final = 1.0
"""How long sending a refusal may take."""

Serve = Callable[[socket.socket, TlsRecords | None, bytes], Awaitable[None]]
"""Serves a client on this socket, of which these bytes have come, until it leaves, and closes the
socket."""


class Served(Protocol):
    """Serves clients of one kind."""

    def prepare(self, request: Request) -> Serve:
        """Check a request and return what serves it. Raises :class:`NotServed`."""
        ...


class InternalPort:
    """The port of one node."""

    def __init__(self, settings: InternalSettings, kinds: Mapping[str, Served]) -> None:
        self._settings = settings
        self._kinds = kinds
        self._strangers = trio.CapacityLimiter(STRANGERS_MAX)
        self.accepted_total = self.refused_total = 0
        """Clients served, and connections refused."""

    def __repr__(self) -> str:
        served = f"{self.accepted_total} served, {self.refused_total} refused"
        return f"<InternalPort {served}, {self._strangers.borrowed_tokens} strangers>"

    async def accepted(self, transport: trio.SocketStream) -> None:
        """Serve one connection of another node."""
        peer = "somebody who has gone"
        serve: Serve | None = None
        stream = InternalStream(transport.socket)
        try:
            peer = str(transport.socket.getpeername()[0])
            async with self._strangers:
                with trio.fail_after(PROVE_S):
                    if self._settings.tls is not None:
                        stream = await secured(transport.socket, self._settings.tls[0], None)
                    answering = await self._asked(stream)
                    serve = await self._prepared(stream, answering)
        except (trio.BrokenResourceError, trio.TooSlowError, OSError) as error:
            reason = "no request in time" if isinstance(error, trio.TooSlowError) else str(error)
            self._failed(peer, reason)
        except ProtocolBroken as error:
            self._failed(peer, str(error))
            await self._refuse(stream, str(error))
        if serve is None:
            self.refused_total += 1
            transport.socket.close()
            return
        self.accepted_total += 1
        sock, records, early = stream.release()
        await serve(sock, records, answering.rest + early)

    async def _asked(self, stream: InternalStream) -> Answering:
        settings = self._settings
        answering = Answering(settings.secret, settings.node, token_bytes(NONCE_BYTES))
        while answering.request is None:
            data = await stream.receive_some()
            if not data:
                raise trio.BrokenResourceError("it left before it had asked for anything")
            if answer := answering.receive(data):
                await stream.send_all(answer)
        return answering

    async def _prepared(self, stream: InternalStream, answering: Answering) -> Serve | None:
        request = answering.request
        assert request is not None, "a request was read"
        served = self._kinds.get(request.kind)
        try:
            if served is None:
                known = ", ".join(sorted(self._kinds)) or "none"
                raise NotServed(f"expected a client of one of {known}, got {request.kind!r:.40}")
            serve = served.prepare(request)
        except NotServed as error:
            logger.info("refused a client of node %s: %s", answering.node, error)
            await self._refuse(stream, str(error))
            return None
        await stream.send_all(answering.accept())
        return serve

    async def _refuse(self, stream: InternalStream, text: str) -> None:
        with trio.move_on_after(REFUSE_S):
            try:
                await stream.send_all(refusal(text))
                await stream.send_eof()
                while await stream.receive_some():  # else the kernel discards the refusal
                    pass
            except trio.BrokenResourceError:
                pass

    def _failed(self, peer: str, reason: str) -> None:
        logger.warning("refused a connection from %s at the internal port: %s", peer, reason)


async def serve_internal(
    port: InternalPort,
    listeners: Sequence[trio.abc.Listener[Any]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Serve other nodes on ``listeners`` until cancelled."""
    await serve_listeners(port.accepted, listeners, task_status=task_status)
