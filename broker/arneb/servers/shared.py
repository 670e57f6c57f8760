"""What the servers of one broker share; each part is made when it is first used.

The rule: a part is imported when it is made, to save start-up time and memory.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Protocol

import trio

from arneb import __version__
from arneb.listening.access import has_named
from arneb.listening.listeners import Listeners
from arneb.logs.audit_log import AuditLog
from arneb.monitoring.alarms import Alarms
from arneb.monitoring.lateness import Lateness
from arneb.monitoring.turn_watchdog import TurnWatchdog
from arneb.settings.config import Config
from arneb.settings.watermarks import read_levels
from arneb_amqp.config import Adjustable
from arneb_core.access.records import User
from arneb_core.access.tables import Changed
from arneb_core.api.process.supervision import supervise
from arneb_core.engine.engine import Engine

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.types import ASGIApp

    from arneb.http.management.site import Site
    from arneb.http.metrics.app import Metrics
    from arneb.http.server.server import HttpServer
    from arneb.listening.certificates import Certificates
    from arneb.logins.backends import Backends
    from arneb.logins.principals import RolesAsUsers
    from arneb.monitoring.traces import Tracing
    from arneb.servers.handed_over import HandedOver
    from arneb.settings.reloading import Hook
    from arneb_amqp.server.roster import Roster
    from arneb_amqp.shovels.shovels import Shovels
    from arneb_amqp.topology.topology import Topology
    from arneb_core.access.authority import Authority
    from arneb_core.access.catalogue import Catalogue
    from arneb_pulsar.authentication.files import Proofs
    from arneb_pulsar.authorization.authorizer import Authorizer
    from arneb_pulsar.server import PulsarServer
    from arneb_pulsar.services.clients.authenticator import Authenticator
    from arneb_pulsar.services.context import BrokerContext

PULSARS: Final = ("pulsar", "pulsar-tls", "http-pulsar", "http-pulsar-tls")
"""Pulsar's listeners."""


class OwnNode(Protocol):
    """The node whose broker this is."""

    audit: AuditLog

    def follow(self, name: str, hook: "Hook", *followed: str) -> Callable[[], None]:
        """Call ``hook`` with the settings at each reload while this broker runs; changes of the
        settings ``followed`` then take effect at once. Return a function that removes the hook."""
        ...

    @property
    def is_ready(self) -> bool:
        """Whether clients may be sent here."""
        ...

    def serves(self, shared: "Shared") -> None:
        """Note that every server accepts clients."""
        ...


@dataclass(frozen=True, slots=True)
class Api:
    """The HTTP applications: for authenticated and for trusted callers."""

    own: "Starlette"
    """Arneb's own paths, before authentication."""
    site: "Site | None"
    """The management API's; None without AMQP."""
    trusted: "ASGIApp"
    """Everything, for an administrator who is already authenticated."""
    bodies: Mapping[str, int]
    """The most bytes of a body, by path, where it differs from the port's limit."""


class Shared:
    """What the servers of one broker share."""

    def __init__(
        self,
        core: Engine,
        config: Config,
        listeners: Listeners,
        catalogue: "Catalogue",
        node: OwnNode,
        nursery: trio.Nursery,
        handed: "HandedOver | None" = None,
    ) -> None:
        """``handed`` is given when clients are handed over instead of accepted by listeners."""
        self.core = core
        self.handed = handed
        self.node = node
        self._nursery = nursery
        self.catalogue = catalogue
        self.config = config
        self.listeners = listeners
        self.watchdog = TurnWatchdog() if config.debug.turn_watchdog else None
        read = partial(read_levels, room_inside=core.room_inside)
        self.alarms = Alarms(config.alarms, config.data_dir, read=read)
        self.alarms.resource_alarms.listen(core.alarms_changed)

        self.has_named = has_named(catalogue.tables)
        """Whether there are users besides ``guest`` with its known password."""
        catalogue.watch(self._access_changed)

        self.amqp = Adjustable(config.amqp)
        """The settings for new AMQP connections."""
        self.lateness = Lateness()
        self.topology: Topology | None = None
        """AMQP's topology, if AMQP is served."""
        self.tracing: Tracing | None = None
        """Traces messages, if a collector is configured."""
        self.addresses = {name: listeners.addresses(name) for name in listeners.by_name}
        """Addresses by listener name, noted now because a server may take over its sockets."""

    def __repr__(self) -> str:
        return f"<Shared by {', '.join(self.addresses)}>"

    @cached_property
    def api(self) -> Api:
        """The HTTP applications."""
        from arneb.control.trusted import TRUSTED
        from arneb.data.granted import GrantedRights
        from arneb.data.here import everything_is
        from arneb.data.service import DataService
        from arneb.http.api.app import http_app

        pulsar = self.pulsar_context
        rights_of = GrantedRights(self.catalogue, self.authorizer)
        misplaced = everything_is if self.handed is None else self.handed.share.misplaced
        data = DataService(
            self.core, self.topology, pulsar, self.config.data, rights_of, misplaced=misplaced
        )
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
        from arneb.http.management.node.overview import sample_always

        sample_always(site)
        self._nursery.start_soon(supervise, "the management API's samples", site.rates.run)
        trusted = self.leased(ManagementApp(site, own, TRUSTED))
        return Api(own, site, trusted, {**data.bodies, **LARGER})

    @cached_property
    def shovels(self) -> "Shovels":
        """The shovels, where AMQP is served."""
        from arneb_amqp.shovels.shovels import Shovels

        assert self.topology is not None, "there is a topology where AMQP is served"
        return Shovels(self.core, self.topology, self.config.amqp.cluster_name)

    def start_shovels(self) -> None:
        """Start the shovels."""
        self._nursery.start_soon(supervise, "the shovels", self.shovels.run)

    def _access_changed(self, changed: Sequence[Changed]) -> None:
        if any(isinstance(each.before or each.after, User) for each in changed):
            self.has_named = has_named(self.catalogue.tables)

    @cached_property
    def authorizer(self) -> "Authorizer":
        """Decides what Pulsar roles may do."""
        from arneb_pulsar.authorization.authorizer import EVERYBODY_MAY

        if not self.config.access.authorization.enabled:
            return EVERYBODY_MAY  # without making Pulsar's context
        return self.pulsar.context.authorizer

    @cached_property
    def authenticator(self) -> "Authenticator":
        """Authenticates Pulsar roles on the HTTP port."""
        from arneb_pulsar.services.clients.authenticator import Authenticator

        anonymous = self.config.access.authorization.anonymous_role
        return Authenticator(self.proofs, anonymous=anonymous)

    @cached_property
    def certificates(self) -> "Certificates":
        """The certificates of the TLS listeners."""
        from arneb.listening.certificates import Certificates

        made = Certificates(self.config.tls)
        for name in self.config.tls:
            hook = partial(made.follow, name)
            self.node.follow(f"the certificates of {name}", hook, f"{name}.tls")
        return made

    @cached_property
    def roster(self) -> "Roster":
        """The AMQP connections."""
        from arneb_amqp.server.roster import Roster

        return Roster()

    @cached_property
    def authority(self) -> "Authority":
        """Authenticates the users of AMQP and of the HTTP ports."""
        from arneb_core.access.authority import Authority

        return Authority(self.backends.in_order, self.amqp.is_loopback_only)

    @cached_property
    def backends(self) -> "Backends":
        """The backends that know the users."""
        from arneb.logins.backends import Backends

        return Backends(self.config.logins, self.catalogue.tables, time.time)

    @cached_property
    def site(self) -> "Site | None":
        """The management API's site, where AMQP is served."""
        from arneb.servers.management import make_site

        return None if self.topology is None else make_site(self, self.topology)

    @cached_property
    def metrics(self) -> "Metrics":
        """The metrics for Prometheus."""
        from arneb.http.metrics.app import Metrics

        return Metrics(
            self.core,
            self.alarms,
            self.site,
            late=self.lateness,
            per_object=self.config.metrics.per_object,
            expiries=lambda: self.certificates.expiries,
            more=str if self.handed is None else self.handed.figures,
        )

    @cached_property
    def proofs(self) -> "Proofs":
        """The authentication methods of Pulsar clients and of the HTTP ports."""
        from arneb_pulsar.authentication.files import read_proofs

        return read_proofs(self.config.pulsar.authentication)

    def follow_proofs(self) -> None:
        """Read the keys and passwords of Pulsar clients again at each reload."""
        files = ("token_secret_key", "token_public_key", "basic_file")
        followed = [f"pulsar.authentication.{each}" for each in files]
        self.node.follow("keys and passwords of Pulsar's clients", self._proofs_again, *followed)

    async def _proofs_again(self, config: Config) -> None:
        from arneb_pulsar.authentication.files import read_proofs

        proofs = await trio.to_thread.run_sync(read_proofs, config.pulsar.authentication)
        self.authenticator.use(proofs)
        if not self.addresses.keys().isdisjoint(PULSARS):
            self.pulsar.context.authenticator.use(proofs)

    @cached_property
    def pulsar(self) -> "PulsarServer":
        """The Pulsar server; the admin API uses its context."""
        from arneb_pulsar.server import PulsarServer
        from arneb_pulsar.services.context import make_context

        context = make_context(
            self.core,
            self.config.pulsar,
            authorization=self.config.access.authorization,
            users=self.roles,
            server_version=f"Arneb {__version__}",
        )
        self.catalogue.watch(lambda changed: context.rights.changed())
        server = PulsarServer(context)
        if (handed := self.handed) is not None:
            context.ownership.follow(handed.placements, handed.node, handed.share.misplaced)
            handed.pulsar = server
        return server

    def leased(self, app: "ASGIApp", own_paths: Sequence[str] = ()) -> "ASGIApp":
        """Wrap ``app`` so that it answers only while this broker leads, ``own_paths`` always."""
        if self.handed is None:
            return app
        from arneb.http.routing.leased import Leased

        return Leased(app, self.core.lease, own_paths)

    def serving(self, name: str) -> "Callable[[HttpServer | None], None]":
        """Return a callback for the HTTP server of a listener, and for None when it closes."""
        return _ignore if self.handed is None else self.handed.serving(name)

    @property
    def audit(self) -> AuditLog:
        """The log of administrative changes."""
        return self.node.audit

    @property
    def pulsar_context(self) -> "BrokerContext | None":
        """What Pulsar's connections share, where Pulsar is served."""
        has_pulsar = not self.addresses.keys().isdisjoint(PULSARS)
        return self.pulsar.context if has_pulsar else None

    @cached_property
    def roles(self) -> "RolesAsUsers":
        """Maps Pulsar roles to users."""
        from arneb.logins.principals import RolesAsUsers

        config = self.config
        loopback = config.amqp.is_loopback_only
        return RolesAsUsers(config.access, self.catalogue, self._has_queue, loopback)

    def _has_queue(self, vhost: str, name: str) -> bool:
        """Whether a topic may be a queue; without AMQP its topology is unknown, so any may be."""
        if self.topology is None:
            return True
        found = self.topology.vhost(vhost)
        return found is not None and found.has_queue(name)


def _ignore(_: "HttpServer | None") -> None:
    """Ignore the server: its requests come through its listener only."""
