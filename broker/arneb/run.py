"""One running broker: the engine, its servers, and an orderly end.

The order is the whole point. Starting: every port is bound, then the store is opened, then
the servers start. Stopping: the servers close, so nothing new comes in and what is in flight
goes back, and only then the engine writes what it still holds and closes the store.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import trio

from arneb.access import access, has_named, shut_out
from arneb.alarms import Alarms
from arneb.audit_log import AuditLog
from arneb.config import Config
from arneb.garbage import GarbageSchedule, Living
from arneb.lateness import Lateness
from arneb.listeners import Listeners
from arneb.reloading import Hook
from arneb.tls import NO_FILE, TlsConfig, read_tls
from arneb.turn_watchdog import TurnWatchdog
from arneb.watermarks import read_levels
from arneb_amqp.config import Adjustable
from arneb_amqp.topology.seeding import open_catalogue
from arneb_core.access.errors import AccessError
from arneb_core.api.errors import StoreUnusable, describe
from arneb_core.api.supervision import supervise
from arneb_core.engine.engine import Engine

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp

    from arneb.handshakes import Handshakes
    from arneb.http.management.site import Site
    from arneb.http.metrics.app import Metrics
    from arneb.logins.backends import Backends
    from arneb.principals import RolesAsUsers
    from arneb_amqp.server.roster import Roster
    from arneb_amqp.shovels.shovels import Shovels
    from arneb_amqp.topology.topology import Topology
    from arneb_core.access.authority import Authority
    from arneb_core.access.catalogue import Catalogue
    from arneb_pulsar.authentication.files import Proofs
    from arneb_pulsar.server import PulsarServer

Say = Callable[[str], None]
"""Tells the user one line."""


class OwnNode(Protocol):
    """The node whose broker this is."""

    audit: AuditLog

    def follow(self, name: str, hook: Hook, *followed: str) -> None:
        """Have ``hook`` called with the settings when they are read again, for as long as this
        broker runs; ``followed`` are those that hold at once then."""
        ...

    @property
    def is_ready(self) -> bool:
        """Clients may be sent here."""
        ...

    def serves(self, shared: "Shared") -> None:
        """Every server accepts clients."""
        ...


@dataclass(frozen=True, slots=True)
class Api:
    """What is served over HTTP: to whoever proves who he is, and to whoever is trusted."""

    own: "Starlette"
    """Arneb's own paths, which ask for nothing."""
    site: "Site | None"
    """Of the management API, which is there where AMQP is."""
    trusted: "ASGIApp"
    """Everything, for an administrator who was let in already."""
    bodies: Mapping[str, int]
    """How large bodies may be that are larger than others, by path."""


class Shared:
    """What the servers of one broker have in common."""

    def __init__(
        self,
        core: Engine,
        config: Config,
        listeners: Listeners,
        catalogue: "Catalogue",
        node: OwnNode,
        nursery: trio.Nursery,
    ) -> None:
        self.core = core
        self.node = node
        self._nursery = nursery
        self.catalogue = catalogue
        self.config = config
        self.listeners = listeners
        self.watchdog = TurnWatchdog() if config.debug.turn_watchdog else None
        read = partial(read_levels, room_inside=core.room_inside)
        self.alarms = Alarms(config.alarms, config.data_dir, read=read)
        self.alarms.resource_alarms.listen(core.alarms_changed)

        self.amqp = Adjustable(config.amqp)
        """What AMQP's next clients get."""
        self.lateness = Lateness()
        self.topology: Topology | None = None
        """AMQP's, if that is served."""
        self.addresses = {name: listeners.addresses(name) for name in listeners.by_name}
        """Where is listened, by the name of the listener: a server may take its sockets over."""

    @cached_property
    def api(self) -> Api:
        """The HTTP applications, made when one is first asked."""
        from arneb.control.trusted import TRUSTED
        from arneb.data.granted import GrantedRights
        from arneb.data.service import DataService
        from arneb.http.app import http_app

        has_pulsar = not self.addresses.keys().isdisjoint(("pulsar", "pulsar-tls", "http-pulsar"))
        pulsar = self.pulsar.context if has_pulsar else None
        rights_of = GrantedRights(self.catalogue)
        data = DataService(self.core, self.topology, pulsar, self.config.data, rights_of)
        self._nursery.start_soon(data.run)
        own = http_app(
            self.core,
            self.alarms,
            self.watchdog,
            data.routes,
            self.metrics,
            is_ready=lambda: self.node.is_ready,
        )
        if (site := self.site) is None:
            return Api(own, None, own, data.bodies)
        from arneb.http.management.app import LARGER, ManagementApp
        from arneb.http.management.overview import sample_always

        sample_always(site)
        self._nursery.start_soon(supervise, "the management API's samples", site.rates.run)
        trusted = ManagementApp(site, own, TRUSTED)
        return Api(own, site, trusted, {**data.bodies, **LARGER})

    def handshakes(self, name: str, of: Callable[[Config], TlsConfig]) -> "Handshakes":
        """TLS for a listener, by certificates that are read again when the settings are. Raises
        :class:`ValueError`."""
        from arneb.handshakes import Handshakes

        made = Handshakes(read_tls(of(self.config)))

        async def follow(config: Config) -> None:
            made.use(await trio.to_thread.run_sync(read_tls, of(config)))

        self.node.follow(f"the certificates of {name}", follow, f"{name}.tls")
        return made

    @cached_property
    def shovels(self) -> "Shovels":
        """Those that move messages, where AMQP is served."""
        from arneb_amqp.shovels.shovels import Shovels

        assert self.topology is not None, "there is a topology where AMQP is served"
        return Shovels(self.core, self.topology, self.config.amqp.cluster_name)

    def start_shovels(self) -> None:
        """Have messages moved from now on."""
        self._nursery.start_soon(supervise, "the shovels", self.shovels.run)

    @cached_property
    def roster(self) -> "Roster":
        """Who is connected by AMQP."""
        from arneb_amqp.server.roster import Roster

        return Roster()

    @cached_property
    def authority(self) -> "Authority":
        """Lets in the users of AMQP and of the HTTP ports."""
        from arneb_core.access.authority import Authority

        return Authority(self.backends.in_order, self.amqp.is_loopback_only)

    @cached_property
    def backends(self) -> "Backends":
        """Who knows the users."""
        from arneb.logins.backends import Backends

        return Backends(self.config.logins, self.catalogue.tables, time.time)

    @cached_property
    def site(self) -> "Site | None":
        """What operators see of a broker that serves AMQP."""
        from arneb.management import make_site

        return None if self.topology is None else make_site(self, self.topology)

    @cached_property
    def metrics(self) -> "Metrics":
        """What Prometheus is told."""
        from arneb.http.metrics.app import Metrics

        per_object = self.config.metrics.per_object
        late = self.lateness
        return Metrics(self.core, self.alarms, self.site, late=late, per_object=per_object)

    @cached_property
    def proofs(self) -> "Proofs":
        """What clients of Pulsar and of the HTTP ports prove themselves by."""
        from arneb_pulsar.authentication.files import read_proofs

        return read_proofs(self.config.pulsar.authentication)

    @cached_property
    def pulsar(self) -> "PulsarServer":
        """Pulsar's server, whose context its administrators look after."""
        from arneb_pulsar.server import PulsarServer
        from arneb_pulsar.services.context import make_context

        context = make_context(
            self.core,
            self.config.pulsar,
            authorization=self.config.access.authorization,
            users=self.roles,
        )
        self.catalogue.watch(lambda changed: context.rights.changed())
        return PulsarServer(context)

    @cached_property
    def roles(self) -> "RolesAsUsers":
        """Which users Pulsar's roles are."""
        from arneb.principals import RolesAsUsers

        config = self.config
        loopback = config.amqp.is_loopback_only
        return RolesAsUsers(config.access, self.catalogue, self._has_queue, loopback)

    def _has_queue(self, vhost: str, name: str) -> bool:
        """Without AMQP, what is kept of it is not at hand, and every topic may be a queue."""
        if self.topology is None:
            return True
        found = self.topology.vhost(vhost)
        return found is not None and found.has_queue(name)


async def serve_all(
    core: Engine, config: Config, listeners: Listeners, say: Say, node: OwnNode
) -> None:
    """Serve the clients of every listener until cancelled. Raises :class:`StoreUnusable`."""
    try:
        catalogue = await open_catalogue(core, config.amqp)
    except (ValueError, AccessError) as error:
        where = f"the vhosts and users stored in {config.data_dir}"
        raise StoreUnusable(f"cannot use {where}: {describe(error)}") from error
    async with trio.open_nursery() as nursery:
        shared = Shared(core, config, listeners, catalogue, node, nursery)
        for line in access(config, catalogue.tables):
            say(line)
        for line in catalogue.ignored:
            say(f"ignored: {line}")
        if (passwords := shared.proofs.passwords) is not None:
            for line in shut_out(config, passwords.shut_out):
                say(line)
        try:
            await shared.alarms.look()
            nursery.start_soon(supervise, "the memory and disk alarms", shared.alarms.watch)
            nursery.start_soon(supervise, "the loop's lateness", shared.lateness.watch)
            for name in listeners.by_name:
                addresses = listeners.addresses(name)  # a server may take its sockets over
                try:
                    await nursery.start(partial(_SERVERS[name], shared))
                except (OSError, StoreUnusable):
                    raise
                except Exception as error:
                    # A frontend reads what it keeps in the store; damaged rows can say anything.
                    where = f"what is stored in {shared.config.data_dir} for {name}"
                    raise StoreUnusable(f"cannot use {where}: {describe(error)}") from error
                for address in addresses:
                    say(f"{name} ready on {address}")
            node.serves(shared)
            # What start-up does is nobody's turn: there is nobody yet.
            with nullcontext() if shared.watchdog is None else shared.watchdog.watching():
                await GarbageSchedule(partial(_living, shared.core)).run()
        finally:
            await shared.backends.close()


def _living(core: Engine) -> Living:
    return Living(trio.lowlevel.current_statistics().tasks_living, len(core.topics))


async def _serve_amqp(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb_amqp.server import serve_amqp
    from arneb_amqp.topology.topology import Topology

    by_name = shared.listeners.by_name
    listeners: list[trio.abc.Listener[Any]] = [*by_name.get("amqp", ())]
    if secured := by_name.get("amqp-tls"):
        from arneb_amqp.server.tls import SecuredListener

        handshakes = shared.handshakes("amqp", lambda config: config.amqp.tls)
        listeners += [SecuredListener(each, handshakes.secure) for each in secured]
    config = shared.config.amqp
    shared.topology = await Topology.open(shared.core, shared.catalogue, config)
    if (path := shared.config.load_definitions) != NO_FILE:
        from arneb.http.management.importing import load_definitions

        await load_definitions(shared.catalogue, shared.topology, path)
    shared.start_shovels()
    await serve_amqp(
        shared.core,
        listeners,
        config=config,
        adjustable=shared.amqp,
        topology=shared.topology,
        authority=shared.authority,
        resource_alarms=shared.alarms.resource_alarms,
        roster=shared.roster,
        task_status=task_status,
    )


async def _serve_amqp_tls(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    """One server has the clients of both listeners."""
    if "amqp" in shared.listeners.by_name:
        task_status.started()
    else:
        await _serve_amqp(shared, task_status=task_status)


async def _serve_pulsar(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    listeners = shared.listeners.by_name["pulsar"]
    urls, (address, *_) = shared.pulsar.context.urls, shared.listeners.addresses("pulsar")
    urls.plain = urls.plain or f"pulsar://{address}"
    await shared.pulsar.serve(listeners, task_status=task_status)


async def _serve_pulsar_tls(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    listeners = shared.listeners.by_name["pulsar-tls"]
    urls, (address, *_) = shared.pulsar.context.urls, shared.listeners.addresses("pulsar-tls")
    urls.tls = urls.tls or f"pulsar+ssl://{address}"
    handshakes = shared.handshakes("pulsar", lambda config: config.pulsar.tls)
    await shared.pulsar.serve_tls(listeners, handshakes.secure, task_status=task_status)


async def _serve_http(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb.http.audited import Audited
    from arneb.http.server import ByTls, serve_http

    table, api = shared.config.http, shared.api
    app: ASGIApp = api.own
    users = shared.authority if has_named(shared.catalogue.tables) else None
    if shared.proofs.required or users is not None:
        from arneb.http.guarded import HEALTH, METRICS, READY, Guarded
        from arneb_pulsar.services.authenticator import Authenticator

        opened = (HEALTH, READY, METRICS) if table.open_metrics else (HEALTH, READY)
        app = Guarded(app, Authenticator(shared.proofs), opened, users)
    if api.site is not None:
        from arneb.http.management.app import ManagementApp

        app = ManagementApp(api.site, app)
    app = Audited(app, shared.node.audit, "http")
    by_name, by_tls = shared.listeners.by_name, None
    if secured := by_name.get("http-tls"):
        handshakes = shared.handshakes("http", lambda config: config.http.tls)
        by_tls = ByTls(secured, handshakes.secure)
    listeners = by_name.get("http", ())
    await serve_http(app, listeners, table, api.bodies, by_tls, task_status=task_status)


async def _serve_http_tls(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    """One server has the clients of both listeners."""
    if "http" in shared.listeners.by_name:
        task_status.started()
    else:
        await _serve_http(shared, task_status=task_status)


async def _serve_http_pulsar(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb.http.audited import Audited
    from arneb.http.pulsar_admin import pulsar_admin_app
    from arneb.http.server import serve_http

    table = shared.config.http_pulsar
    app = pulsar_admin_app(
        shared.pulsar.context, shared.core, shared.alarms, open_metrics=table.open_metrics
    )
    listeners = shared.listeners.by_name["http-pulsar"]
    audited = Audited(app, shared.node.audit, "http-pulsar")
    await serve_http(audited, listeners, table, task_status=task_status)


async def _serve_metrics(shared: Shared, *, task_status: trio.TaskStatus[Any]) -> None:
    from arneb.http.metrics.app import metrics_app
    from arneb.http.server import serve_http

    listeners = shared.listeners.by_name["metrics"]
    app = metrics_app(shared.metrics)
    await serve_http(app, listeners, shared.config.metrics, task_status=task_status)


# Imported only when the listener is on: start-up time and memory are for what is used.
_SERVERS: Final = {
    "amqp": _serve_amqp,
    "amqp-tls": _serve_amqp_tls,
    "pulsar": _serve_pulsar,
    "pulsar-tls": _serve_pulsar_tls,
    "http": _serve_http,
    "http-tls": _serve_http_tls,
    "http-pulsar": _serve_http_pulsar,
    "metrics": _serve_metrics,
}
