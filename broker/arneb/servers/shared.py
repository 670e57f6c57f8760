"""What the servers of one broker have in common, each part made when one first asks for it.

The rule: a part is imported when it is made; start-up time and memory are for what is used.
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
from arneb_core.api.supervision import supervise
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
    from arneb_pulsar.services.authenticator import Authenticator
    from arneb_pulsar.services.context import BrokerContext

PULSARS: Final = ("pulsar", "pulsar-tls", "http-pulsar", "http-pulsar-tls")
"""The listeners of Pulsar's."""


class OwnNode(Protocol):
    """The node whose broker this is."""

    audit: AuditLog

    def follow(self, name: str, hook: "Hook", *followed: str) -> Callable[[], None]:
        """Have ``hook`` called with the settings when they are read again, for as long as this
        broker runs, or until what is returned is called; ``followed`` are those that hold at once
        then."""
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
        handed: "HandedOver | None" = None,
    ) -> None:
        """``handed``: clients come by another way than by the listeners."""
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
        """There are users whom somebody has named."""
        catalogue.watch(self._access_changed)

        self.amqp = Adjustable(config.amqp)
        """What AMQP's next clients get."""
        self.lateness = Lateness()
        self.topology: Topology | None = None
        """AMQP's, if that is served."""
        self.tracing: Tracing | None = None
        """Has messages traced, if there is a collector."""
        self.addresses = {name: listeners.addresses(name) for name in listeners.by_name}
        """Where is listened, by the name of the listener: a server may take its sockets over."""

    def __repr__(self) -> str:
        return f"<Shared by {', '.join(self.addresses)}>"

    @cached_property
    def api(self) -> Api:
        """The HTTP applications, made when one is first asked."""
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
        """Those that move messages, where AMQP is served."""
        from arneb_amqp.shovels.shovels import Shovels

        assert self.topology is not None, "there is a topology where AMQP is served"
        return Shovels(self.core, self.topology, self.config.amqp.cluster_name)

    def start_shovels(self) -> None:
        """Have messages moved from now on."""
        self._nursery.start_soon(supervise, "the shovels", self.shovels.run)

    def _access_changed(self, changed: Sequence[Changed]) -> None:
        if any(isinstance(each.before or each.after, User) for each in changed):
            self.has_named = has_named(self.catalogue.tables)

    @cached_property
    def authorizer(self) -> "Authorizer":
        """Answers what roles of Pulsar's may do."""
        from arneb_pulsar.authorization.authorizer import EVERYBODY_MAY

        if not self.config.access.authorization.enabled:
            return EVERYBODY_MAY  # and Pulsar's context need not be made
        return self.pulsar.context.authorizer

    @cached_property
    def authenticator(self) -> "Authenticator":
        """Looks at what roles of Pulsar's prove themselves by on the HTTP port."""
        from arneb_pulsar.services.authenticator import Authenticator

        anonymous = self.config.access.authorization.anonymous_role
        return Authenticator(self.proofs, anonymous=anonymous)

    @cached_property
    def certificates(self) -> "Certificates":
        """What the listeners for TLS show."""
        from arneb.listening.certificates import Certificates

        made = Certificates(self.config.tls)
        for name in self.config.tls:
            hook = partial(made.follow, name)
            self.node.follow(f"the certificates of {name}", hook, f"{name}.tls")
        return made

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
        from arneb.servers.management import make_site

        return None if self.topology is None else make_site(self, self.topology)

    @cached_property
    def metrics(self) -> "Metrics":
        """What Prometheus is told."""
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
        """What clients of Pulsar and of the HTTP ports prove themselves by."""
        from arneb_pulsar.authentication.files import read_proofs

        return read_proofs(self.config.pulsar.authentication)

    def follow_proofs(self) -> None:
        """Read those again when the settings are."""
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
        """Pulsar's server, whose context its administrators look after."""
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
        """The same application for as long as this broker may answer; of ``own_paths`` always."""
        if self.handed is None:
            return app
        from arneb.http.routing.leased import Leased

        return Leased(app, self.core.lease, own_paths)

    def serving(self, name: str) -> "Callable[[HttpServer | None], None]":
        """What is told the HTTP server of a listener, and None when it takes no more."""
        return _nobody_asks if self.handed is None else self.handed.serving(name)

    @property
    def audit(self) -> AuditLog:
        """Where changes are recorded."""
        return self.node.audit

    @property
    def pulsar_context(self) -> "BrokerContext | None":
        """What Pulsar's connections share, where that protocol is served."""
        has_pulsar = not self.addresses.keys().isdisjoint(PULSARS)
        return self.pulsar.context if has_pulsar else None

    @cached_property
    def roles(self) -> "RolesAsUsers":
        """Which users Pulsar's roles are."""
        from arneb.logins.principals import RolesAsUsers

        config = self.config
        loopback = config.amqp.is_loopback_only
        return RolesAsUsers(config.access, self.catalogue, self._has_queue, loopback)

    def _has_queue(self, vhost: str, name: str) -> bool:
        """Without AMQP, what is kept of it is not at hand, and every topic may be a queue."""
        if self.topology is None:
            return True
        found = self.topology.vhost(vhost)
        return found is not None and found.has_queue(name)


def _nobody_asks(_: "HttpServer | None") -> None:
    """Requests come by the listener only."""
