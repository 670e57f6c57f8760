"""A link over TLS: the same, with TLS records on the wire.

The rule: bytes are decrypted where they come in and encrypted where they go out, in the same turn.
The records of one read are one piece, so they are one run of publishes and one commit, as without
TLS; the output of a turn leaves in one write.
"""

import socket
import ssl
from collections.abc import Callable

import trio

from arneb_amqp.server.transport.link import RECEIVE_BYTES_MAX, Link
from arneb_core.api.connections.tls_records import TlsRecords
from arneb_core.api.nodes.lease import Lease


class SecuredLink(Link):
    """The bytes of one connection by TLS. Its counters count bytes on the wire."""

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
        """Input that came along with the handshake."""

    async def receive(self, size: int = RECEIVE_BYTES_MAX) -> bytes:
        """Return the plain text of at most ``size`` bytes; empty when the peer has closed or the
        connection broke."""
        data_received, self._early = self._early, b""
        while not data_received and not self._records.ended:
            data = await super().receive(size)
            if not data:
                break
            data_received = self._opened(data)
        return data_received

    def receive_now(self, size: int) -> bytes:
        """Return the plain text of at most ``size`` bytes that are there already."""
        data = super().receive_now(size)
        return self._opened(data) if data else b""

    def send(self, data: bytes, *, leased: bool = False) -> None:
        """See :meth:`.Link.send`."""
        if self._broken or self._finishing:
            return
        try:
            sealed = self._records.sealed(data)
        except ssl.SSLError:
            # The reader learns of it from its own call.
            self._break()
            return
        super().send(sealed, leased=leased)

    def finish(self) -> None:
        """Send what waits and TLS's farewell, then shut down the sending direction."""
        if not self._finishing and (farewell := self._records.farewell()):
            super().send(farewell)
        super().finish()

    def _opened(self, data: bytes) -> bytes:
        data_received = self._records.opened(data)
        if answer := self._records.answer():
            super().send(answer)
        return data_received


def link_of(
    sock: socket.socket,
    records: TlsRecords | None,
    nursery: trio.Nursery,
    low: int,
    drained: Callable[[], None],
    lease: Lease | None = None,
) -> Link:
    """Return the link of a socket, by TLS if there are ``records``."""
    if records is None:
        return Link(sock, nursery, low, drained, lease)
    return SecuredLink(sock, nursery, low, drained, records, lease)
