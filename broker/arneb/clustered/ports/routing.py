"""Cluster routing: connects the frontends with the cluster, so that clients may use any node.

The rule: the cluster carries bytes and knows no frontend, and the frontends know no cluster; only
this module knows both.
"""

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import trio

from arneb.http.routing.asked import Asker
from arneb.http.server.senders import Sender
from arneb.http.server.server import HttpServer
from arneb.logs.shard_label import labelled_shard
from arneb_amqp.server.admission.admission_document import BadAdmission, decode_admission
from arneb_amqp.server.admission.reception import ReceivedClient
from arneb_amqp.server.admitted import Admitting
from arneb_cluster.routing.calling import call
from arneb_cluster.routing.division import EVERYTHING_ELSE
from arneb_cluster.routing.internal_port import Serve
from arneb_cluster.routing.internal_protocol import Request
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.routing.internal_stream import InternalStream
from arneb_cluster.routing.onward import Clients, OnwardByLeader
from arneb_cluster.routing.relay import Kind
from arneb_core.api.connections.tls_records import TlsRecords
from arneb_core.api.nodes.placement import Here, NodeAddresses, NotServed, Placements
from arneb_pulsar.server.arrivals import Arrival
from arneb_pulsar.server.listener import PulsarServer

AMQP: Final = "amqp"
PULSAR: Final = "pulsar"
HTTP: Final = "http"
HTTP_PULSAR: Final = "http-pulsar"
"""The kinds of clients that nodes pass on to each other by the internal port."""


def _unlabelled(_: str) -> str:
    """Return the label in a cluster with one shard."""
    return ""


class AmqpClients:
    """AMQP clients that this node serves: those that connected here, and those passed on by other
    nodes."""

    def __init__(
        self,
        node: str,
        placements: Placements,
        namespace_of: Callable[[str], str],
        admitting_of: Callable[[str], Admitting],
        label_of: Callable[[str], str] = _unlabelled,
    ) -> None:
        """``namespace_of`` returns a vhost's namespace, ``admitting_of`` the entry point of a
        namespace's broker, and ``label_of`` its shard's name in logs."""
        self._node = node
        self._placements = placements
        self._namespace_of = namespace_of
        self._admitting_of = admitting_of
        self._label_of = label_of
        self.clients = Clients(AMQP, Kind.FRAMED, self._where_to, self._serve_here)

    def __repr__(self) -> str:
        return f"<AmqpClients of {self._node}>"

    def prepare(self, request: Request) -> Serve:
        """Return what serves a client that another node passes on. Raises :class:`NotServed`."""
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
                with labelled_shard(self._label_of(namespace)):
                    await admitting.admit(admission, remote, sock, records, early)
            except NotServed:  # the broker has stopped since
                sock.close()

        return serve

    def _where_to(self, client: ReceivedClient) -> tuple[str, str]:
        return self._namespace_of(client.vhost), f"virtual host '{client.vhost}'"

    async def _serve_here(self, namespace: str, client: ReceivedClient) -> None:
        admitting = self._way_in(namespace)
        sock, records = await client.hand_over()
        try:
            with labelled_shard(self._label_of(namespace)):
                await admitting.admit(client.admission, client.remote, sock, records, client.unread)
        except NotServed:  # the broker has stopped since
            sock.close()

    def _way_in(self, namespace: str) -> Admitting:
        if not isinstance(self._placements.of(namespace), Here):
            raise NotServed(f"node '{self._node}' does not lead {namespace}")
        admitting = self._admitting_of(namespace)
        if not admitting.is_open:
            raise NotServed(f"node '{self._node}' is not ready to serve {namespace}")
        return admitting


class _EndedByClosing(trio.abc.HalfCloseableStream):
    """A Pulsar stream, which is closed to end sending, as Pulsar clients expect."""

    def __init__(self, inside: trio.abc.Stream) -> None:
        self._inside = inside

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inside.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inside.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._inside.receive_some(max_bytes)

    async def send_eof(self) -> None:
        await self._inside.aclose()

    async def aclose(self) -> None:
        await self._inside.aclose()


class _ReadBefore(trio.abc.Stream):
    """A stream that first returns bytes that were read from it before."""

    def __init__(self, inside: trio.abc.Stream, read: bytes) -> None:
        self._inside = inside
        self._read = read

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inside.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inside.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self._read:
            await trio.lowlevel.checkpoint()
            read, self._read = self._read, b""
            return read
        return await self._inside.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._inside.aclose()


@dataclass(frozen=True, slots=True)
class ArrivedClient:
    """A Pulsar client that has connected to this node."""

    arrival: Arrival
    has_secret: bool
    """Whether clients must authenticate, by secrets that only their broker may hear."""
    unread: bytes = b""
    namespace: str = EVERYTHING_ELSE
    """The namespace whose broker is to serve it."""
    onward_url: str = ""
    """If set, the client only asks at that broker; to use topics it connects to this address,
    through the node that it reached."""
    uses: bool = False
    """Whether it connected by such an address."""

    @property
    def name(self) -> str:
        """The client's address and the URL that it reached."""
        return f"{self.arrival.address} -> {self.arrival.service_url}"

    @property
    def document(self) -> bytes:
        """The client's addresses and the subject of its certificate, for another node."""
        arrival = self.arrival
        shown = {"subject": arrival.certificate.get("subject", ())}
        document = {"address": arrival.address, "service_url": arrival.service_url, "shown": shown}
        if self.onward_url or self.uses:
            document |= {"onward_url": self.onward_url}
        return json.dumps(document).encode()

    @property
    def stream(self) -> trio.abc.HalfCloseableStream:
        """The client's stream."""
        return _EndedByClosing(self.arrival.stream)


class PulsarClients:
    """Pulsar clients that this node serves. A client that another node passes on looks topics up
    and asks about them; to use them it connects here itself, if it is given this node's address."""

    def __init__(
        self,
        addresses: NodeAddresses,
        placements: Placements,
        server_of: Callable[[str], PulsarServer | None],
        *,
        must_prove: bool,
        label_of: Callable[[str], str] = _unlabelled,
    ) -> None:
        """``server_of`` returns the server of a namespace's broker, None while there is none, and
        ``label_of`` its shard's name in logs; with ``must_prove``, clients must authenticate."""
        self._addresses = addresses
        self._placements = placements
        self._server_of = server_of
        self._must_prove = must_prove
        self._label_of = label_of
        self.clients = Clients(PULSAR, Kind.PLAIN, self._where_to, self._serve_here)

    def __repr__(self) -> str:
        return f"<PulsarClients of {self._addresses.node}>"

    async def receive(self, onward: OnwardByLeader[ArrivedClient], arrival: Arrival) -> None:
        """Have a client that connected here served, and close its stream."""
        try:
            await onward.pass_on(ArrivedClient(arrival, self._must_prove))
        except NotServed:
            pass  # it reconnects; it has sent nothing yet that needs an answer
        finally:
            await trio.aclose_forcefully(arrival.stream)

    def prepare(self, request: Request) -> Serve:
        """Return what serves a client that another node passes on. Raises :class:`NotServed`."""
        try:
            document: Any = json.loads(request.document)
            address, service_url = str(document["address"]), str(document["service_url"])
            shown = document["shown"]
            is_known = isinstance(shown, dict) and isinstance(shown.get("subject"), list)
            through = None if document.get("onward_url") is None else str(document["onward_url"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise NotServed(f"expected where a client comes from: {error!r:.100}") from error
        if not is_known:
            raise NotServed("expected what a client showed")
        server = self._own_server(request.namespace)
        is_secured = service_url.startswith("pulsar+ssl:")
        onward_url = self._addresses.pulsar_tls if is_secured else self._addresses.pulsar
        if through is not None:
            onward_url = through

        async def serve(sock: socket.socket, records: TlsRecords | None, early: bytes) -> None:
            stream = InternalStream(trio.socket.from_stdlib_socket(sock), records, early)
            try:
                arrival = Arrival(stream, service_url, address, shown)
                with labelled_shard(self._label_of(request.namespace)):
                    await server.take(arrival, onward_url, through=bool(through))
            except NotServed:  # the broker has stopped since
                await trio.aclose_forcefully(stream)

        return serve

    def _where_to(self, client: ArrivedClient) -> tuple[str, str]:
        return client.namespace, "the namespaces of Pulsar's clients"

    async def _serve_here(self, namespace: str, client: ArrivedClient) -> None:
        arrival, onward_url = client.arrival, client.onward_url
        if client.unread:
            arrival = replace(arrival, stream=_ReadBefore(arrival.stream, client.unread))
        with labelled_shard(self._label_of(namespace)):
            await self._own_server(namespace).take(arrival, onward_url, through=bool(onward_url))

    def _own_server(self, namespace: str) -> PulsarServer:
        node = self._addresses.node
        if not isinstance(self._placements.of(namespace), Here):
            raise NotServed(f"node '{node}' does not lead {namespace}")
        server = self._server_of(namespace)
        if server is None:
            raise NotServed(f"node '{node}' is not ready to serve {namespace}")
        return server


class HttpClients:
    """HTTP requests that this node answers for other nodes, and those that it passes on to them."""

    def __init__(
        self,
        settings: InternalSettings,
        placements: Placements,
        server_of: Callable[[str], HttpServer | None],
        kind: str = HTTP,
        label_of: Callable[[str], str] = _unlabelled,
    ) -> None:
        """``server_of`` returns the server of a namespace's broker, None while there is none, and
        ``label_of`` its shard's name in logs. ``kind`` is the port that requests come from."""
        self._kind = kind
        self._settings = settings
        self._placements = placements
        self._server_of = server_of
        self._label_of = label_of

    def __repr__(self) -> str:
        return f"<HttpClients of {self._settings.node}>"

    async def ask(self, namespace: str, leader: NodeAddresses, asker: Asker) -> InternalStream:
        """Open a stream on which another node answers a request. Raises :class:`NotServed`."""
        if asker.scheme == "https" and self._settings.tls is None:
            raise NotServed(f"a request by TLS reaches node '{leader.node}' over TLS only")
        document = json.dumps(
            [asker.address, asker.port, asker.scheme, *([asker.vouched] if asker.vouched else [])]
        ).encode()
        called = await call(self._settings, leader, Request(self._kind, namespace, document))
        return called.stream

    def prepare(self, request: Request) -> Serve:
        """Return what serves a request that another node passes on. Raises :class:`NotServed`."""
        try:
            address, port, scheme, *more = json.loads(request.document)
            client, vouched = (str(address), int(port)), "".join(map(str, more[:1]))
        except (ValueError, TypeError, RecursionError) as error:
            raise NotServed(f"expected a description of the caller: {error!r:.100}") from error
        server = self._server_of(request.namespace)
        is_here = isinstance(self._placements.of(request.namespace), Here)
        if server is None or not is_here:
            raise NotServed(f"node '{self._settings.node}' does not lead {request.namespace}")

        async def serve(sock: socket.socket, records: TlsRecords | None, early: bytes) -> None:
            stream = InternalStream(trio.socket.from_stdlib_socket(sock), records, early)
            with labelled_shard(self._label_of(request.namespace)):
                await server.handle(stream, Sender((client, None), str(scheme), vouched=vouched))

        return serve
