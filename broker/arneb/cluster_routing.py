"""Cluster routing: what the frontends of a broker and the cluster have to do with one another when
clients reach any node.

The rule: the cluster carries bytes and knows no frontend, the frontends know no cluster; here one
is given to the other.
"""

import socket
from collections.abc import Callable

from arneb_amqp.server.admission_document import BadAdmission, decode_admission
from arneb_amqp.server.admitted import Admitting
from arneb_amqp.server.reception import ReceivedClient
from arneb_cluster.routing.internal_port import Serve
from arneb_cluster.routing.internal_protocol import Request
from arneb_core.api.placement import Here, NotServed, Placements
from arneb_core.api.tls_records import TlsRecords


class AmqpClients:
    """Clients of AMQP that this node serves: those that came here, and those that others bring."""

    def __init__(
        self,
        node: str,
        placements: Placements,
        namespace_of: Callable[[str], str],
        admitting_of: Callable[[str], Admitting],
    ) -> None:
        """``admitting_of``: the way in of the broker that has a namespace."""
        self._node = node
        self._placements = placements
        self._namespace_of = namespace_of
        self._admitting_of = admitting_of

    def __repr__(self) -> str:
        return f"<AmqpClients of {self._node}>"

    def prepare(self, request: Request) -> Serve:
        """What serves a client that another node brings. Raises :class:`NotServed`."""
        try:
            admission, remote = decode_admission(request.document)
        except BadAdmission as error:
            raise NotServed(f"expected an admission of AMQP: {error}") from error
        namespace = self._namespace_of(admission.vhost)
        if request.namespace != namespace:
            text = f"virtual host '{admission.vhost}' is {namespace} here"
            raise NotServed(f"{text}, and not {request.namespace}")
        admitting = self._way_in(namespace)

        async def serve(sock: socket.socket, records: TlsRecords | None, early: bytes) -> None:
            try:
                await admitting.admit(admission, remote, sock, records, early)
            except NotServed:  # it has stopped since
                sock.close()

        return serve

    async def serve_here(self, namespace: str, client: ReceivedClient) -> None:
        """Serve a client that was received here. Raises :class:`NotServed`."""
        admitting = self._way_in(namespace)
        sock, records = await client.hand_over()
        try:
            await admitting.admit(client.admission, client.remote, sock, records, client.unread)
        except NotServed:  # it has stopped since
            sock.close()

    def _way_in(self, namespace: str) -> Admitting:
        if not isinstance(self._placements.of(namespace), Here):
            raise NotServed(f"node '{self._node}' does not lead {namespace}")
        admitting = self._admitting_of(namespace)
        if not admitting.is_open:
            raise NotServed(f"node '{self._node}' is not ready to serve {namespace}")
        return admitting
