"""Cluster routing: what the frontends of a broker and the cluster have to do with one another when
clients reach any node.

The rule: the cluster carries bytes and knows no frontend, the frontends know no cluster; here one
is given to the other.
"""

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import trio

from arneb.http.routing.asked import Asker
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
from arneb_core.api.placement import Here, NodeAddresses, NotServed, Placements
from arneb_core.api.tls_records import TlsRecords
from arneb_pulsar.server.arrivals import Arrival
from arneb_pulsar.server.listener import PulsarServer

AMQP: Final = "amqp"
PULSAR: Final = "pulsar"
HTTP: Final = "http"
HTTP_PULSAR: Final = "http-pulsar"
"""The kinds of clients at the internal port."""


def _unlabelled(_: str) -> str:
    """Of a cluster with one shard."""
    return ""


class AmqpClients:
    """Clients of AMQP that this node serves: those that came here, and those that others bring."""

    def __init__(
        self,
        node: str,
        placements: Placements,
        namespace_of: Callable[[str], str],
        admitting_of: Callable[[str], Admitting],
        label_of: Callable[[str], str] = _unlabelled,
    ) -> None:
        """``namespace_of``: that of a vhost. ``admitting_of``: the way in of the broker that has a
        namespace. ``label_of``: its shard, as logs name it."""
        self._node = node
        self._placements = placements
        self._namespace_of = namespace_of
        self._admitting_of = admitting_of
        self._label_of = label_of
        self.clients = Clients(AMQP, Kind.FRAMED, self._where_to, self._serve_here)

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
                with labelled_shard(self._label_of(namespace)):
                    await admitting.admit(admission, remote, sock, records, early)
            except NotServed:  # it has stopped since
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
        except NotServed:  # it has stopped since
            sock.close()

    def _way_in(self, namespace: str) -> Admitting:
        if not isinstance(self._placements.of(namespace), Here):
            raise NotServed(f"node '{self._node}' does not lead {namespace}")
        admitting = self._admitting_of(namespace)
        if not admitting.is_open:
            raise NotServed(f"node '{self._node}' is not ready to serve {namespace}")
        return admitting


class _EndedByClosing(trio.abc.HalfCloseableStream):
    """A stream of Pulsar's, whose clients hear that no more comes by its end."""

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
    """A stream of which something was read already, which comes first."""

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
    """A client of Pulsar's."""

    arrival: Arrival
    has_secret: bool
    """Clients prove who they are, by what only their broker may hear."""
    unread: bytes = b""
    namespace: str = EVERYTHING_ELSE
    """Whose broker it is to come to."""
    told: str = ""
    """It only asks there, and is to come to this address, by the way by which it came here, to use
    topics."""
    uses: bool = False
    """It has come by such an address."""

    @property
    def name(self) -> str:
        """Where it comes from, and what it reached."""
        return f"{self.arrival.address} -> {self.arrival.service_url}"

    @property
    def document(self) -> bytes:
        """Where it comes from, and what it showed."""
        arrival = self.arrival
        shown = {"subject": arrival.certificate.get("subject", ())}
        said = {"address": arrival.address, "service_url": arrival.service_url, "shown": shown}
        if self.told or self.uses:
            said |= {"told": self.told}
        return json.dumps(said).encode()

    @property
    def stream(self) -> trio.abc.HalfCloseableStream:
        """Its bytes."""
        return _EndedByClosing(self.arrival.stream)


class PulsarClients:
    """Clients of Pulsar's that this node serves. One that another node brings looks topics up and
    asks about them; to use them it comes here itself, if it is told where that is."""

    def __init__(
        self,
        addresses: NodeAddresses,
        placements: Placements,
        server_of: Callable[[str], PulsarServer | None],
        *,
        must_prove: bool,
        label_of: Callable[[str], str] = _unlabelled,
    ) -> None:
        """``server_of``: that of the broker of a namespace, while there is one. ``must_prove``:
        clients prove who they are. ``label_of``: its shard, as logs name it."""
        self._addresses = addresses
        self._placements = placements
        self._server_of = server_of
        self._must_prove = must_prove
        self._label_of = label_of
        self.clients = Clients(PULSAR, Kind.PLAIN, self._where_to, self._serve_here)

    def __repr__(self) -> str:
        return f"<PulsarClients of {self._addresses.node}>"

    async def receive(self, onward: OnwardByLeader[ArrivedClient], arrival: Arrival) -> None:
        """Have a client served that came here, and close its stream."""
        try:
            await onward.go_on(ArrivedClient(arrival, self._must_prove))
        except NotServed:
            pass  # it comes again: nobody has said anything yet that could be answered
        finally:
            await trio.aclose_forcefully(arrival.stream)

    def prepare(self, request: Request) -> Serve:
        """What serves a client that another node brings. Raises :class:`NotServed`."""
        try:
            said: Any = json.loads(request.document)
            address, service_url = str(said["address"]), str(said["service_url"])
            shown = said["shown"]
            is_known = isinstance(shown, dict) and isinstance(shown.get("subject"), list)
            through = None if said.get("told") is None else str(said["told"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise NotServed(f"expected where a client comes from: {error!r:.100}") from error
        if not is_known:
            raise NotServed("expected what a client showed")
        server = self._own_server(request.namespace)
        is_secured = service_url.startswith("pulsar+ssl:")
        told = self._addresses.pulsar_tls if is_secured else self._addresses.pulsar
        if through is not None:
            told = through

        async def serve(sock: socket.socket, records: TlsRecords | None, early: bytes) -> None:
            stream = InternalStream(trio.socket.from_stdlib_socket(sock), records, early)
            try:
                arrival = Arrival(stream, service_url, address, shown)
                with labelled_shard(self._label_of(request.namespace)):
                    await server.take(arrival, told, through=bool(through))
            except NotServed:  # it has stopped since
                await trio.aclose_forcefully(stream)

        return serve

    def _where_to(self, client: ArrivedClient) -> tuple[str, str]:
        return client.namespace, "the namespaces of Pulsar's clients"

    async def _serve_here(self, namespace: str, client: ArrivedClient) -> None:
        arrival, told = client.arrival, client.told
        if client.unread:
            arrival = replace(arrival, stream=_ReadBefore(arrival.stream, client.unread))
        with labelled_shard(self._label_of(namespace)):
            await self._own_server(namespace).take(arrival, told, through=bool(told))

    def _own_server(self, namespace: str) -> PulsarServer:
        node = self._addresses.node
        if not isinstance(self._placements.of(namespace), Here):
            raise NotServed(f"node '{node}' does not lead {namespace}")
        server = self._server_of(namespace)
        if server is None:
            raise NotServed(f"node '{node}' is not ready to serve {namespace}")
        return server


class HttpClients:
    """Requests over HTTP that this node answers for others, and those that it asks of others."""

    def __init__(
        self,
        settings: InternalSettings,
        placements: Placements,
        server_of: Callable[[str], HttpServer | None],
        kind: str = HTTP,
        label_of: Callable[[str], str] = _unlabelled,
    ) -> None:
        """``server_of``: that of the broker of a namespace, while there is one. ``kind``: which of
        the ports it is. ``label_of``: its shard, as logs name it."""
        self._kind = kind
        self._settings = settings
        self._placements = placements
        self._server_of = server_of
        self._label_of = label_of

    def __repr__(self) -> str:
        return f"<HttpClients of {self._settings.node}>"

    async def ask(self, namespace: str, leader: NodeAddresses, asker: Asker) -> InternalStream:
        """Have another node take a request. Raises :class:`NotServed`."""
        if asker.scheme == "https" and self._settings.tls is None:
            raise NotServed(f"a request by TLS reaches node '{leader.node}' over TLS only")
        said = json.dumps(
            [asker.address, asker.port, asker.scheme, *([asker.vouched] if asker.vouched else [])]
        ).encode()
        called = await call(self._settings, leader, Request(self._kind, namespace, said))
        return called.stream

    def prepare(self, request: Request) -> Serve:
        """What serves a request that another node asks. Raises :class:`NotServed`."""
        try:
            address, port, scheme, *more = json.loads(request.document)
            client, vouched = (str(address), int(port)), "".join(map(str, more[:1]))
        except (ValueError, TypeError, RecursionError) as error:
            raise NotServed(f"expected who asks: {error!r:.100}") from error
        server = self._server_of(request.namespace)
        is_here = isinstance(self._placements.of(request.namespace), Here)
        if server is None or not is_here:
            raise NotServed(f"node '{self._settings.node}' does not lead {request.namespace}")

        async def serve(sock: socket.socket, records: TlsRecords | None, early: bytes) -> None:
            stream = InternalStream(trio.socket.from_stdlib_socket(sock), records, early)
            with labelled_shard(self._label_of(request.namespace)):
                await server.handle(stream, (client, None), str(scheme), vouched=vouched)

        return serve
