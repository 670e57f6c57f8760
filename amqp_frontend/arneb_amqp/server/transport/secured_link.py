"""A link by TLS: the same, with records on the wire.

The rule: TLS is taken off where bytes come in and put on where they go out, in the same turn. A
read's records are one piece, so that they are one run of publishes and one commit, as without TLS;
what a turn has brought leaves in one write.
"""

import socket
import ssl
from collections.abc import Callable

import trio

from arneb_amqp.server.transport.link import RECEIVE_BYTES_MAX, Link
from arneb_core.api.lease import Lease
from arneb_core.api.tls_records import TlsRecords


class SecuredLink(Link):
    """The bytes of one connection by TLS. What it counts are those on the wire."""

    def __init__(
        self,
        sock: socket.socket,
        nursery: trio.Nursery,
        low: int,
        drained: Callable[[], None],
        records: TlsRecords,
        lease: Lease | None = None,
    ) -> None:
        super().__init__(sock, nursery, low, drained, lease)
        self._records = records
        self._early = records.opened(b"")
        """What was said in the same breath as the handshake."""

    async def receive(self, size: int = RECEIVE_BYTES_MAX) -> bytes:
        """What at most ``size`` bytes say; empty when the peer has closed or the connection
        broke."""
        said, self._early = self._early, b""
        while not said and not self._records.ended:
            data = await super().receive(size)
            if not data:
                break
            said = self._opened(data)
        return said

    def receive_now(self, size: int) -> bytes:
        """What at most ``size`` of the bytes say that have come already."""
        data = super().receive_now(size)
        return self._opened(data) if data else b""

    def send(self, data: bytes, *, leased: bool = False) -> None:
        """See :meth:`.Link.send`."""
        if self._broken or self._finishing:
            return
        try:
            sealed = self._records.sealed(data)
        except ssl.SSLError:
            # The reader hears of it from its own call.
            self._break()
            return
        super().send(sealed, leased=leased)

    def finish(self) -> None:
        """Send what waits, then tell the peer that no more will come."""
        if not self._finishing and (farewell := self._records.farewell()):
            super().send(farewell)
        super().finish()

    def _opened(self, data: bytes) -> bytes:
        said = self._records.opened(data)
        if answer := self._records.answer():
            super().send(answer)
        return said


def link_of(
    sock: socket.socket,
    records: TlsRecords | None,
    nursery: trio.Nursery,
    low: int,
    drained: Callable[[], None],
    lease: Lease | None = None,
) -> Link:
    """The link of a socket, by TLS if there are ``records``."""
    if records is None:
        return Link(sock, nursery, low, drained, lease)
    return SecuredLink(sock, nursery, low, drained, records, lease)
