"""Admitted clients: those that did the handshake at another node and are served here.

The rule: from the vhost on they are clients like any other, with the same limits, rights and places
in every list, where they appear with their original address. Over which connections their
bytes arrive is not known here.
"""

import socket
from collections.abc import Awaitable, Callable

from arneb_amqp.server.connection import Connection
from arneb_amqp.server.context import ServerContext
from arneb_amqp.server.transport.remote import Remote
from arneb_amqp.server.transport.timers import instants
from arneb_amqp.session.connection.admission import Admission
from arneb_amqp.topology.queues.declaration import ConnectionId
from arneb_core.api.connections.tls_records import TlsRecords
from arneb_core.api.nodes.placement import NotServed


class AdmittedConnection(Connection):
    """An admitted client."""

    def __init__(
        self,
        server: ServerContext,
        id_: ConnectionId,
        remote: Remote,
        sock: socket.socket,
        records: TlsRecords | None,
        admission: Admission,
        unread: bytes,
    ) -> None:
        """``unread`` is its input after the handshake."""
        super().__init__(server, id_, remote, sock, records)
        self._admission = admission
        self._unread = unread

    async def _converse(self) -> None:
        session, runner = self.session, self._runner
        session.take_over(self._admission)
        if self._unread:
            self.link.received_bytes += len(self._unread)
            session.receive_data(self._unread, *instants())
            self._unread = b""
        await runner.run_all(runner.run_orders())
        self.flush()
        self.connection_events.state_is(session, self._state)
        self._state = session.state
        self._server.timers.add(self)
        if session.blocked:
            await self._unblocked()
        await super()._converse()


Admit = Callable[[Admission, Remote, socket.socket, TlsRecords | None, bytes], Awaitable[None]]


class Admitting:
    """The entry point for admitted clients, open while a server serves."""

    def __init__(self) -> None:
        self._admit: Admit | None = None

    def __repr__(self) -> str:
        return f"<Admitting {'open' if self.is_open else 'closed'}>"

    @property
    def is_open(self) -> bool:
        """Whether a server serves them."""
        return self._admit is not None

    def open(self, admit: Admit) -> None:
        """Serve admitted clients by ``admit`` from now on."""
        self._admit = admit

    def close(self) -> None:
        """Stop serving admitted clients."""
        self._admit = None

    async def admit(
        self,
        admission: Admission,
        remote: Remote,
        sock: socket.socket,
        records: TlsRecords | None = None,
        unread: bytes = b"",
    ) -> None:
        """Serve a client until it leaves, and close the socket. Raises :class:`NotServed`; then the
        socket is still the caller's."""
        if self._admit is None:
            raise NotServed("expected a broker that serves AMQP, it is starting or stopping")
        await self._admit(admission, remote, sock, records, unread)
