"""The ports of a cluster's node: they accept clients whether the node leads or not.

The rule: a port is bound once and served for as long as the node runs. Clients are passed on to the
leader: to this node's own broker while there is one, else to another node.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import trio
from starlette.types import ASGIApp

from arneb.clustered.ports.divided_pulsar import DividedPulsar
from arneb.clustered.ports.http_apps import HttpApps
from arneb.clustered.ports.routing import (
    AMQP,
    HTTP,
    HTTP_PULSAR,
    PULSAR,
    AmqpClients,
    HttpClients,
    PulsarClients,
)
from arneb.clustered.shards.figures import cluster_figures
from arneb.clustered.shards.hand_overs import HAND_OVER, HandOvers
from arneb.clustered.shards.part import Part
from arneb.http.server.server import ByTls, HttpServer, serve_http
from arneb.listening.certificates import Certificates
from arneb.listening.listeners import Listeners
from arneb.logins.backends import Backends
from arneb.servers.handed_over import HandedOver
from arneb.settings.config import Config
from arneb.settings.http_limits import HttpLimits
from arneb_amqp.config import Adjustable
from arneb_amqp.server.admission.reception import serve_reception
from arneb_amqp.server.transport.tls import SecuredListener
from arneb_cluster.copies.source import COPY
from arneb_cluster.routing.internal_port import InternalPort, Serve, Served, serve_internal
from arneb_cluster.routing.internal_protocol import Request
from arneb_cluster.routing.internal_settings import InternalSettings
from arneb_cluster.routing.leaders import Leaders
from arneb_cluster.routing.onward import OnwardByLeader
from arneb_cluster.routing.relaying import Relays
from arneb_core.access.authority import Authority
from arneb_core.access.namespaces import proposed_namespace
from arneb_core.api.connections.listening import serve_listeners
from arneb_core.api.nodes.placement import NodeAddresses, NotServed
from arneb_core.api.process.supervision import supervise
from arneb_pulsar.server.arrivals import Handle, Secure, arrive

INTERNAL: Final = "internal"
"""The listener for the other nodes."""


class Sources:
    """Serves copies of this node's directories, one for each shard."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = {each.name: each for each in parts}

    def __repr__(self) -> str:
        return f"<Sources of {', '.join(self._parts)}>"

    def prepare(self, request: Request) -> Serve:
        """See :class:`.Served`."""
        part = self._parts.get(request.namespace)
        if part is None:
            known = " or ".join(self._parts)
            raise NotServed(f"expected shard {known}, got {request.namespace!r:.80}")
        return part.source.prepare(request)


class Ports:
    """The ports of one node, and the connections that it relays."""

    def __init__(
        self,
        config: Config,
        listeners: Listeners,
        settings: InternalSettings,
        leaders: Leaders,
        parts: Sequence[Part],
        addresses: NodeAddresses,
        hand_overs: HandOvers,
        is_ready: Callable[[], bool],
    ) -> None:
        self._config = config
        self._by_name = listeners.by_name
        self._settings = settings
        self._leaders = leaders
        self._parts = {each.name: each for each in parts}
        self._first = first = parts[0]
        users = first.users
        self.relays = Relays()
        self.certificates = Certificates(config.tls)
        self._adjustable = Adjustable(config.amqp)
        self._backends = Backends(config.logins, users.tables, time.time)
        self._authority = Authority(self._backends.in_order, self._adjustable.is_loopback_only)
        self._amqp = AmqpClients(
            settings.node,
            leaders,
            self._namespace_of,
            lambda wanted: self._handed(wanted).admitting,
            self._label_of,
        )
        must_prove = bool(config.pulsar.authentication.methods)
        self._pulsar = PulsarClients(
            addresses,
            leaders,
            lambda wanted: self._handed(wanted).pulsar,
            must_prove=must_prove,
            label_of=self._label_of,
        )
        self._http = {
            name: HttpClients(
                settings, leaders, partial(self._http_server, name), name, self._label_of
            )
            for name in (HTTP, HTTP_PULSAR)
        }
        self.http_apps = HttpApps(
            config,
            leaders,
            self._parts,
            self._http,
            self._authority,
            self._handed,
            self._namespace_of,
            self.figures,
            is_ready,
        )
        of_nodes: dict[str, Served] = {COPY: Sources(parts), HAND_OVER: hand_overs}
        self.internal = InternalPort(
            settings, {AMQP: self._amqp, PULSAR: self._pulsar, **self._http, **of_nodes}
        )

    def __repr__(self) -> str:
        return f"<Ports of {self._settings.node}, {self.relays!r}>"

    def figures(self) -> str:
        """Return the node's metrics, whether it leads or not."""
        shards = [each.shard for each in self._parts.values()]
        return cluster_figures(shards, self.relays, self.internal)

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Serve all ports until cancelled. Started once HTTP, Pulsar and other nodes are served;
        AMQP clients wait until the users are known."""
        config = self._config
        async with trio.open_nursery() as nursery:
            try:
                if config.tls:
                    nursery.start_soon(supervise, "the certificates", self.certificates.watch)
                if internal := self._by_name.get(INTERNAL):
                    await nursery.start(serve_internal, self.internal, internal)
                await self._serve_pulsar(nursery)
                await self._serve_http(nursery)
                nursery.start_soon(self._serve_amqp)
                task_status.started()
                await trio.sleep_forever()
            finally:
                await self._backends.close()

    async def _serve_amqp(self) -> None:
        by_name = self._by_name
        listeners: list[trio.abc.Listener[Any]] = [*by_name.get("amqp", ())]
        if secured := by_name.get("amqp-tls"):
            handshakes = self.certificates.handshakes("amqp")
            listeners += [SecuredListener(each, handshakes.records) for each in secured]
        if not listeners:
            return
        await self._first.users.known()
        onward = OnwardByLeader(self._settings, self._leaders, self.relays, self._amqp.clients)
        await serve_reception(listeners, onward, self._adjustable, self._authority)

    async def _serve_pulsar(self, nursery: trio.Nursery) -> None:
        onward = OnwardByLeader(self._settings, self._leaders, self.relays, self._pulsar.clients)
        receive: Handle = partial(self._pulsar.receive, onward)
        if (division := self._leaders.division).is_divided:
            pulsar = self._config.pulsar
            receive = DividedPulsar(
                division, onward, pulsar.handshake_timeout_s,
                must_prove=bool(pulsar.authentication.methods),
            ).receive  # fmt: skip

        async def accepted(secure: Secure | None, stream: trio.SocketStream) -> None:
            await arrive(stream, self._config.pulsar, receive, secure)

        if plain := self._by_name.get("pulsar"):
            await nursery.start(serve_listeners, partial(accepted, None), plain)
        if secured := self._by_name.get("pulsar-tls"):
            secure = self.certificates.handshakes("pulsar").secure
            await nursery.start(serve_listeners, partial(accepted, secure), secured)

    async def _serve_http(self, nursery: trio.Nursery) -> None:
        apps, config = self.http_apps, self._config
        bodies = apps.management_bodies()
        await self._serve_port(nursery, HTTP, apps.management(), config.http, bodies)
        await self._serve_port(nursery, HTTP_PULSAR, apps.pulsar_admin(), config.http_pulsar)
        await self._serve_port(nursery, "metrics", apps.metrics(), config.metrics)

    async def _serve_port(
        self,
        nursery: trio.Nursery,
        name: str,
        app: ASGIApp,
        limits: HttpLimits,
        bodies: dict[str, int] | None = None,
    ) -> None:
        plain, secured = self._by_name.get(name, ()), self._by_name.get(f"{name}-tls")
        by_tls = None
        if secured:
            handshakes = self.certificates.handshakes(name.replace("-", "_"))
            by_tls = ByTls(secured, handshakes.secure)
        if plain or by_tls is not None:
            await nursery.start(partial(serve_http, app, plain, limits, bodies or {}, by_tls))

    def _handed(self, namespace: str) -> HandedOver:
        """Return the entry points of this node's broker for a namespace."""
        return self._parts[self._leaders.division.shard_of(namespace)].handed

    def _label_of(self, namespace: str) -> str:
        return self._handed(namespace).label

    def _http_server(self, name: str, namespace: str) -> HttpServer | None:
        return self._handed(namespace).http.get(name)

    def _namespace_of(self, vhost: str) -> str:
        """Return a vhost's namespace, from the shard that its name belongs to."""
        shard = self._leaders.division.shard_of(proposed_namespace(vhost))
        return self._parts[shard].users.namespace_of(vhost)
